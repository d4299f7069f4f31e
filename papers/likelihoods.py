"""Estimates of log Z on models that are hard but can be summed exactly: do the stated errors hold?

    EBMLAB_DATA=... python papers/likelihoods.py        # runs what is missing, then prints the tables

Every method has 1,000 evaluations of each of 100 chains in all (the adaptive ones spend half of them on the pilot run,
the backward ones on reaching equilibrium), and is repeated 20 times. "covered" counts the repeats whose error is within
1.96 stated standard errors. Backward chains start from data, which for a model that was not trained are exact samples
of it, moved by the sampler; or, where nobody has data, from the uniform law, moved by replica exchange. Forward chains
start from the law of the data's means where states are bits (as in `AIS`), else from the uniform law. The
second table is what `AIS` trusts: forward (adaptive, resampled) and backward from data.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytorch_lightning as pl
import torch
from kept import Result, fit, run_missing
from torch import Tensor

from ebmlab.callbacks import DataMean
from ebmlab.datamodules import MNIST
from ebmlab.energies import MLP, RBM, Base, Energy, Ising, bridge, reference
from ebmlab.evaluation import LogZ, ais, data_law, exact_log_z, exact_samples, reverse_ais
from ebmlab.evaluation.bracket import equilibrated
from ebmlab.evaluation.pilot import pilot_ladder
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import DMALA, GWG, BlockGibbs, Sampler, Tempered

CHAINS, EVALUATIONS, REPEATS, RUNGS = 100, 1000, 20, 10
Model = tuple[Energy, Base, Sampler, Tensor, float]  # with data, and log Z


def with_samples(energy: Energy, sampler: Sampler) -> Model:
    """A model with exact samples in the place of data."""
    x = exact_samples(energy, CHAINS * REPEATS)
    return energy, data_law(energy.domain, x), sampler, x, float(exact_log_z(energy))


def strongly_coupled(scale: float, bias: float) -> Model:
    """200 visible and 14 hidden units; the mass lies behind a first-order transition."""
    torch.manual_seed(1)
    rbm = RBM(200, 14)
    rbm.W.data.normal_(0, scale)
    rbm.b_v.data.zero_()
    rbm.b_h.data.fill_(bias)
    return with_samples(rbm.requires_grad_(False), BlockGibbs())


def trained(hidden: int, folder: Path) -> Model:
    """An RBM trained on MNIST for 12,000 iterations of PCD-10."""
    pl.seed_everything(0, verbose=False)
    data, rbm, file = MNIST(batch_size=100, binarize=True), RBM(784, hidden), folder / f"rbm-{hidden}.pt"
    if not file.exists():
        chains = ReplayBuffer(100, init="mean")
        adam = partial(torch.optim.Adam, lr=1e-3)
        learner = ContrastiveDivergence(rbm, BlockGibbs(), start=chains, num_steps=10, optimizer=adam)
        fit(learner, data, 12_000, callbacks=[DataMean()])
        torch.save(rbm.state_dict(), file)
    rbm.load_state_dict(torch.load(file))
    rbm.requires_grad_(False)
    x = data.to_states(data.raw("train")).flatten(1)
    return rbm, data_law(rbm.domain, x), BlockGibbs(), x, float(exact_log_z(rbm))


def lattice(coupling: float, side: int = 10) -> Model:
    """A periodic Ising model; log Z is that of its transfer matrix between rows."""
    ising = Ising.lattice(side, coupling)
    row = ising.domain.from_index((torch.arange(2**side).unsqueeze(1) >> torch.arange(side)) & 1).double()
    within = coupling * (row * row.roll(1, 1)).sum(1)
    step = (coupling * row @ row.T + (within.unsqueeze(0) + within.unsqueeze(1)) / 2).exp()
    log_z = float(torch.linalg.eigvalsh(step).pow(side).sum().log())
    wide, _ = Tempered(DMALA(0.4), num_temperatures=8).sample(ising, ising.domain.random(CHAINS * REPEATS), 500)
    return ising, reference(ising.domain), DMALA(0.4), wide, log_z


def deep() -> Model:
    """A network of three layers on 16 bits, with random weights large enough for many modes."""
    torch.manual_seed(1)
    mlp = MLP(16, 64)
    for p in mlp.parameters():
        p.data *= 3
    return with_samples(mlp.requires_grad_(False), GWG())


MODELS: dict[str, Callable[[Path], Model]] = {
    "RBM 200-14, weights N(0, 3^2), bias -120": lambda _: strongly_coupled(3.0, -120.0),
    "RBM 200-14, weights N(0, 2^2), bias -60": lambda _: strongly_coupled(2.0, -60.0),
    "RBM 784-18, MNIST": lambda folder: trained(18, folder),
    "RBM 784-20, MNIST": lambda folder: trained(20, folder),
    "Ising 10x10, J = 0.44 (critical)": lambda _: lattice(0.44),
    "Ising 10x10, J = 0.6": lambda _: lattice(0.6),
    "MLP on 16 bits": lambda _: deep(),
}


def forward(model: Model, schedule: str, resample: float = 0.0, uniform: bool = False) -> list[LogZ]:
    """Repeats of `ais`, after a pilot run of half of the evaluations if the schedule is adaptive."""
    energy, base, sampler, _, _ = model
    base = reference(energy.domain) if uniform else base
    steps, ladder = EVALUATIONS, schedule
    if schedule == "adaptive":
        steps = EVALUATIONS // 2
        ladder = pilot_ladder(bridge(base, energy), sampler, CHAINS, steps)  # type: ignore[assignment]
    result = ais(
        energy,
        sampler,
        num_chains=CHAINS,
        num_temperatures=steps,
        base=base,
        schedule=ladder,
        num_replicates=REPEATS,
        resample=resample,
    )  # type: ignore[arg-type]
    families = [None] * REPEATS if result.families is None else result.families.unsqueeze(1)
    return [
        LogZ.of_chains(w, result.samples, families=f, ladder=result.ladder)
        for w, f in zip(result.log_weights.unsqueeze(1), families, strict=True)
    ]


def backward(model: Model, from_data: bool) -> list[LogZ]:
    """Repeats of `reverse_ais`, half of the evaluations after chains have moved towards the model's law."""
    energy, base, sampler, data, _ = model
    n, steps = CHAINS * REPEATS, EVALUATIONS // 2
    if from_data:
        x = equilibrated(energy, sampler, data[torch.randperm(len(data))[:n]], steps)
    else:
        exchange = Tempered(sampler, num_temperatures=RUNGS)
        x = equilibrated(energy, exchange, reference(energy.domain).sample(n).to(energy.dtype), steps // RUNGS)
    result = reverse_ais(energy, sampler, x, num_temperatures=steps, base=base)
    return [LogZ.of_chains(w.unsqueeze(0), x, reverse=True) for w in result.log_weights.view(REPEATS, CHAINS)]


METHODS: dict[str, Callable[[Model], list[LogZ]]] = {
    "linear, from the uniform law": lambda m: forward(m, "linear", uniform=True),
    "adaptive, resampled, from the uniform law": lambda m: forward(m, "adaptive", 0.5, uniform=True),
    "linear": lambda m: forward(m, "linear"),
    "sigmoid": lambda m: forward(m, "sigmoid"),
    "adaptive": lambda m: forward(m, "adaptive"),
    "adaptive, resampled": lambda m: forward(m, "adaptive", 0.5),
    "backward from data": lambda m: backward(m, from_data=True),
    "backward from tempered chains": lambda m: backward(m, from_data=False),
}


def one_way(model: Model, method: str) -> Result:
    """Errors of the repeats, and what they say of themselves."""
    results = METHODS[method](model)
    errors = torch.tensor([r.log_z - model[4] for r in results], dtype=torch.float64)
    stated = torch.tensor([r.std_error for r in results], dtype=torch.float64)
    return {
        "bias": float(errors.mean()),
        "rms": float(errors.square().mean().sqrt()),
        "stated": float(stated.mean()),
        "covered": float((errors.abs() <= 1.96 * stated).sum()),
        "ess": sum(r.ess for r in results) / len(results),
    }


def both_ways(model: Model) -> Result:
    """How many repeats are trusted, and how good these are."""
    pairs = zip(forward(model, "adaptive", 0.5), backward(model, from_data=True), strict=True)
    brackets = [there.against(back) for there, back in pairs]
    trusted = [b for b in brackets if b.trusted]
    errors = [b.log_z - model[4] for b in trusted]
    return {
        "trusted": float(len(trusted)),
        "gap": sum(b.gap for b in brackets) / len(brackets),
        "largest": max((abs(e) for e in errors), default=float("nan")),
        "stated": sum(b.std_error for b in trusted) / max(1, len(trusted)),
        "covered": float(sum(abs(e) <= 1.96 * b.std_error for e, b in zip(errors, trusted, strict=True))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/likelihoods"))
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    made: dict[str, Model] = {}

    def run(job: str) -> Result:
        name, method = job.split("--")
        if name not in made:
            made[name] = MODELS[name](args.folder)
        torch.manual_seed(0)
        return both_ways(made[name]) if method == "both ways" else one_way(made[name], method)

    run_missing(args.folder, [f"{m}--{how}" for m in MODELS for how in (*METHODS, "both ways")], run, args.part)
    report(args.folder)


def report(folder: Path) -> None:
    """Prints both tables."""

    def row(name: str, method: str) -> Result | None:
        path = folder / f"{name}--{method}.json"
        return json.loads(path.read_text()) if path.exists() else None

    print("\n| model | method | mean error | rms error | mean stated error | covered | effective chains |")
    print("|---|---|---|---|---|---|---|")
    for name in MODELS:
        for method in METHODS:
            if (r := row(name, method)) is not None:
                print(
                    f"| {name} | {method} | {r['bias']:+.3g} | {r['rms']:.3g} | {r['stated']:.3g} | "
                    f"{r['covered']:.0f} of {REPEATS} | {r['ess']:.3g} |"
                )
    print("\n| model | trusted | mean gap | largest error of a trusted one | mean stated error | covered |")
    print("|---|---|---|---|---|---|")
    for name in MODELS:
        if (r := row(name, "both ways")) is not None:
            largest = "-" if r["largest"] != r["largest"] else f"{r['largest']:.3g}"
            print(
                f"| {name} | {r['trusted']:.0f} of {REPEATS} | {r['gap']:+.3g} | {largest} | {r['stated']:.2g} | "
                f"{r['covered']:.0f} of {r['trusted']:.0f} |"
            )


if __name__ == "__main__":
    main()
