"""Nine justices in 203 cases: seven estimates of an Ising model beside the exact optimum over all 512 states.

    Rscript -e 'library(pscl); write.csv(t(sc9497$votes), "votes.csv", row.names = FALSE)'    # Debian: r-cran-pscl
    python papers/votes.py votes.csv

The table has one row a case and one column a justice, 1 with the majority and 0 against it. Cases with a missing vote
are left out. Two justices are never both against the majority, so that their coupling would grow without end. Four more
cases, spread evenly over all 512 states, give the likelihood a maximum; every estimate is of these data.

The exact optimum is found by L-BFGS in float64. A bootstrap says how far it could have been: the optimum of cases drawn
anew, with replacement. The other estimates are those of papers/inverse_ising.py, and Boltzmann learning.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path

import matplotlib.pyplot as plt
import pytorch_lightning as pl
import torch
from inverse_ising import BATCH, learn, rmse
from kept import fit
from torch import Tensor
from torch.utils.data import DataLoader

from ebmlab.energies import Ising
from ebmlab.learners import BoltzmannLearning

METHODS = ("boltzmann", "pseudo_likelihood", "ratio_matching", "rmwggis", "pcd", "tap", "mean_field")


def read(path: Path) -> tuple[list[str], Tensor, int]:
    """Names of the justices, complete cases `(cases, justices)` of -1 and 1, and the number of those left out."""
    with path.open(newline="") as lines:
        names, *rows = csv.reader(lines)
    kept = [row for row in rows if all(cell in ("0", "1") for cell in row)]
    return names, 2 * torch.tensor([[float(cell) for cell in row] for row in kept]) - 1, len(rows) - len(kept)


def all_states(num_spins: int) -> Tensor:
    return torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * num_spins)


def log_likelihood(energy: Ising, x: Tensor) -> Tensor:
    """Of a case, in nats: the mean over the rows."""
    return -energy(x).mean() - (-energy(all_states(x.shape[1]).to(x))).logsumexp(0)


def optimum(x: Tensor) -> Ising:
    energy, x = Ising.learnable(x.shape[1]).double(), x.double()
    lbfgs = torch.optim.LBFGS(
        energy.parameters(), max_iter=2000, tolerance_grad=1e-8, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        lbfgs.zero_grad()
        loss = -log_likelihood(energy, x)
        loss.backward()
        return loss

    lbfgs.step(closure)
    return energy.requires_grad_(False)


def smoothed(cases: Tensor, extra: int = 4) -> Tensor:
    """Many copies of the cases, and each state so often that all states together count as `extra` cases."""
    states = all_states(cases.shape[1])
    return torch.cat([cases.repeat(len(states) // extra, 1), states])


def boltzmann(x: Tensor, steps: int) -> Ising:
    learner = BoltzmannLearning(Ising.learnable(x.shape[1]), num_chains=5000, num_steps=1, pseudo_count=0.0)
    fit(learner, DataLoader(x, batch_size=BATCH), steps, max_epochs=-1)
    return learner.energy


def draw(names: list[str], x: Tensor, exact: Ising, path: Path) -> None:
    """Correlations and couplings, justices in the order of the leading eigenvector of the correlations."""
    correlation = torch.corrcoef(x.T)
    order = torch.linalg.eigh(correlation).eigenvectors[:, -1].argsort()
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    for axis, (title, matrix) in zip(
        axes, {"correlations": correlation, "couplings": exact.coupling.float()}.items(), strict=True
    ):
        shown = (matrix - torch.diag(matrix.diag()))[order][:, order]
        limit = float(shown.abs().max())
        image = axis.imshow(shown.numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit)
        labels = [names[int(i)] for i in order]
        axis.set(title=title, xticks=range(len(names)), yticks=range(len(names)), yticklabels=labels)
        axis.set_xticklabels(labels, rotation=60, ha="right", rotation_mode="anchor")
        figure.colorbar(image, ax=axis, shrink=0.8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="table of votes, as above")
    parser.add_argument("--steps", type=int, default=1000, help="of each iterative estimate, in batches of 500")
    parser.add_argument("--resamples", type=int, default=50, help="of the bootstrap")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs/votes"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    pl.seed_everything(options.seed, verbose=False)
    names, cases, incomplete = read(options.file)
    x = smoothed(cases)
    exact = optimum(x)
    best = float(log_likelihood(exact, x.double()))
    print(f"{len(cases)} cases, {incomplete} with a missing vote left out; exact optimum {best:.4f} nats a case")
    drawn = [optimum(smoothed(cases[torch.randint(len(cases), (len(cases),))])) for _ in range(options.resamples)]
    noise = torch.tensor([rmse(other, exact) for other in drawn])
    print(f"couplings of resampled cases: RMSE {noise.mean():.3f} ({noise.min():.3f} to {noise.max():.3f})")
    rows = {}
    for method in options.methods:
        begin = time.process_time()
        energy = boltzmann(x, options.steps) if method == "boltzmann" else learn(method, x, options.steps)
        seconds = time.process_time() - begin
        with torch.no_grad():
            energy = energy.double()
            lost, error = best - float(log_likelihood(energy, x.double())), rmse(energy, exact)
        rows[method] = {"lost": lost, "rmse": error, "seconds": seconds}
        print(
            f"{method:18} {lost:.4f} nats a case below it, RMSE of couplings {error:.3f}, {seconds:.1f} s", flush=True
        )
    found = {"exact": best, "cases": len(cases), "bootstrap": noise.tolist(), "estimates": rows}
    (options.folder / "results.json").write_text(json.dumps(found))
    draw(names, cases, exact, options.folder / "votes.png")


if __name__ == "__main__":
    main()
