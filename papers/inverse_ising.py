"""Inverse Ising: the error of learnt couplings and the CPU seconds it took, by seven methods, over the number of spins.

    python papers/inverse_ising.py                              # what is missing, 50 to 2,000 spins, one chart
    python papers/inverse_ising.py --spins 50 --samples 1000 --methods tap pseudo_likelihood

The truth is an Ising model on a random graph of three edges a spin, J from N(0, 0.4^2 / 3) and h from N(0, 0.1^2). Its
samples are last states of independent chains of `ChromaticGibbs`, exact in the limit of many sweeps. RMSE is over all
pairs of spins. Iterative methods take the same steps of Adam, at a rate that falls to 0 by a cosine. A penalty on
absolute couplings, where there is one, is of the order of the noise that 5,000 samples leave in a gradient. One thread
(OMP_NUM_THREADS=1) makes CPU seconds comparable on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import pytorch_lightning as pl
import torch
from kept import fit
from torch import Tensor
from torch.utils.data import DataLoader

from ebmlab.energies import Ising
from ebmlab.learners import (
    ContrastiveDivergence,
    Exact,
    GradientGuided,
    Learner,
    PseudoLikelihood,
    RatioMatching,
    ReplayBuffer,
)
from ebmlab.learners.closed_form import mean_field_, tap_
from ebmlab.samplers import DMALA, ChromaticGibbs

RATE, BATCH, L1 = 0.02, 500, 0.04


def truth(num_spins: int, seed: int) -> Ising:
    generator = torch.Generator().manual_seed(seed)
    rows, columns = torch.triu_indices(num_spins, num_spins, 1)
    kept = torch.randperm(len(rows), generator=generator)[: 3 * num_spins]
    coupling = torch.zeros(num_spins, num_spins)
    coupling[rows[kept], columns[kept]] = 0.4 / math.sqrt(3) * torch.randn(len(kept), generator=generator)
    return Ising(coupling + coupling.T, 0.1 * torch.randn(num_spins, generator=generator))


def samples(energy: Ising, number: int, sweeps: int) -> Tensor:
    return ChromaticGibbs().last_states(energy, energy.random(number), sweeps)


def learners(steps: int) -> dict[str, Callable[[Ising], Learner]]:
    adam = partial(torch.optim.Adam, lr=RATE)
    rest = {"optimizer": adam, "lr_scheduler": partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=steps)}
    rest["lr_interval"] = "step"
    return {
        "pseudo_likelihood": lambda e: PseudoLikelihood(e, **rest),
        "pseudo_likelihood_l1": lambda e: PseudoLikelihood(e, l1=L1, **rest),
        "ratio_matching": lambda e: RatioMatching(e, Exact(), **rest),
        "rmwggis": lambda e: RatioMatching(e, GradientGuided(num_samples=10), **rest),
        "pcd": lambda e: ContrastiveDivergence(e, DMALA(0.6), start=ReplayBuffer(BATCH), num_steps=10, **rest),
    }


CLOSED = {"mean_field": mean_field_, "tap": tap_}
METHODS = ("mean_field", "tap", "pseudo_likelihood", "pseudo_likelihood_l1", "ratio_matching", "rmwggis", "pcd")
LABELS = {"tap": "TAP", "pseudo_likelihood_l1": "pseudo-likelihood, L1", "pseudo_likelihood": "pseudo-likelihood"}
LABELS |= {"rmwggis": "RMwGGIS", "pcd": "PCD by DMALA"}


def learn(method: str, x: Tensor, steps: int) -> Ising:
    energy = Ising.learnable(x.shape[1])
    if method in CLOSED:
        CLOSED[method](energy, x, pseudo_count=1 / len(x))
        return energy
    learner = learners(steps)[method](energy)
    fit(learner, DataLoader(x, batch_size=BATCH, shuffle=True, drop_last=True), steps)
    return energy


def rmse(energy: Ising, true: Ising) -> float:
    i, j = torch.triu_indices(len(energy.field), len(energy.field), 1)
    return float((energy.coupling - true.coupling).detach()[i, j].square().mean().sqrt())


def draw(rows: list[dict[str, float | str]], path: Path, number: int) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    for axis, key, label in zip(
        axes, ("rmse", "seconds"), ("RMSE of couplings", "CPU seconds, one thread"), strict=True
    ):
        for method in METHODS:
            here = sorted((row for row in rows if row["method"] == method), key=lambda row: row["spins"])
            axis.loglog(
                *([row[k] for row in here] for k in ("spins", key)),
                "o-",
                ms=4,
                label=LABELS.get(method, method.replace("_", " ")),
            )
        spins = sorted({int(row["spins"]) for row in rows})
        axis.set(xlabel="spins", ylabel=label, xticks=spins)
        axis.set_xticklabels([str(n) for n in spins])
        axis.minorticks_off()
    zero = {int(row["spins"]): float(row["zero"]) for row in sorted(rows, key=lambda row: row["spins"])}
    axes[0].plot(list(zero), list(zero.values()), "k:", label="all couplings 0")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(f"Inverse Ising, {number:,} samples")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spins", type=int, nargs="+", default=[50, 100, 200, 500, 1000, 2000])
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--sweeps", type=int, default=300, help="of the chains that draw the data")
    parser.add_argument("--steps", type=int, default=500, help="of Adam, in batches of 500")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs/inverse_ising"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    kept = options.folder / "results.json"
    rows: list[dict[str, float | str]] = json.loads(kept.read_text()) if kept.exists() else []
    for spins in options.spins:
        missing = [m for m in options.methods if (spins, m) not in {(row["spins"], row["method"]) for row in rows}]
        if not missing:
            continue
        pl.seed_everything(options.seed, verbose=False)
        true = truth(spins, options.seed)
        x = samples(true, options.samples, options.sweeps)
        for method in missing:
            begin = time.process_time()
            error = rmse(learn(method, x, options.steps), true)
            seconds, zero = time.process_time() - begin, rmse(Ising.learnable(spins), true)
            rows.append({"spins": spins, "method": method, "rmse": error, "seconds": seconds, "zero": zero})
            print(f"{spins:5} spins  {method:20} RMSE {error:.4f} (zero {zero:.4f})  {seconds:.1f} s", flush=True)
            kept.write_text(json.dumps(rows))
    draw(rows, options.folder / "inverse_ising.png", options.samples)


if __name__ == "__main__":
    main()
