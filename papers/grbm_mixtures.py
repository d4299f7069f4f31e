"""Figure 1 of Liao et al. (2022): GRBMs on two mixtures of three Gaussians, with energies and normalised densities.

    python papers/grbm_mixtures.py        # trains what is missing, prints the table, draws the picture

256 hidden units, batch 100, Adam. The paper's five samplers draw negatives as `configs/grbm_gmm_aniso.yaml` does: 100
steps from noise, of which the last 20 count, for 1,500 iterations at 0.01. The sixth way keeps persistent chains, moved
by 5 steps of replica exchange between 6 temperatures, for 10,000 iterations with a rate that falls from 0.02 to 0.

In two dimensions quadrature gives the density that a model stands for: its divergence from the data's law in nats, the
mass that it gives to each mode (the nearest one, in standard deviations), and how far the modes' energies are apart.
The data have 1/3 each. Beside them are the shares of the modes among 3,000 chains of 100 steps from noise.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from kept import Result, cell, fit, run_missing
from matplotlib.figure import Figure
from torch import Tensor

from ebmlab.datamodules import GaussianMixture
from ebmlab.energies import GRBM
from ebmlab.io.files import whole
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import BlockGibbs, GibbsLangevin, Langevin, Sampler, Tempered
from ebmlab.samplers.schedules import Cosine

KINDS = ("isotropic", "anisotropic")
SAMPLERS = {
    "Gibbs": BlockGibbs,
    "Langevin": partial(Langevin, 0.5, schedule=Cosine()),
    "Langevin, adjusted": partial(Langevin, 0.5, adjust_from=0, schedule=Cosine()),
    "Gibbs-Langevin": partial(GibbsLangevin, 0.1, num_inner_steps=5),
    "Gibbs-Langevin, adjusted": partial(GibbsLangevin, 0.1, num_inner_steps=5, adjust_from=0),
}
TEMPERED = "Gibbs, tempered"
EXTENT, CELLS = 15.0, 600


def learner(name: str) -> tuple[ContrastiveDivergence, int]:
    """A new model's learner, and its iterations."""
    energy = GRBM(2, 256)
    if name != TEMPERED:
        adam = partial(torch.optim.Adam, lr=0.01)
        short = {"num_steps": 100, "burn_in": 80, "density": "marginal", "optimizer": adam}
        return ContrastiveDivergence(energy, SAMPLERS[name](), **short), 1500
    falling = partial(torch.optim.lr_scheduler.LinearLR, start_factor=1.0, end_factor=0.0, total_iters=10_000)
    settings: dict[str, Any] = {"optimizer": partial(torch.optim.Adam, lr=0.02), "lr_scheduler": falling}
    sampler: Sampler = Tempered(BlockGibbs(), num_temperatures=6)
    return ContrastiveDivergence(
        energy, sampler, start=ReplayBuffer(100), num_steps=5, lr_interval="step", **settings
    ), 10_000


def grid() -> Tensor:
    """Centres of the plane's cells, `(CELLS^2, 2)`, row by row from below."""
    axis = (torch.arange(CELLS) + 0.5) / CELLS * 2 * EXTENT - EXTENT
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack([x, y], -1).view(-1, 2)


@torch.no_grad()
def log_density(energy: GRBM) -> Tensor:
    """Log p on the grid, normalised by the sum over it."""
    log_p = -energy(grid()).double()
    return log_p - log_p.logsumexp(0) - 2 * torch.tensor(2 * EXTENT / CELLS).log()


def modes(mixture: GaussianMixture, x: Tensor) -> Tensor:
    """The nearest mode of each point, in standard deviations."""
    return ((x.unsqueeze(1) - mixture.means) / mixture.stds).norm(dim=2).argmin(1)


def run(kind: str, name: str, seed: int, file: Path) -> Result:
    """Trains one model, unless its weights are kept, and compares its density with the data's."""
    mixture = GaussianMixture(kind, seed=seed)  # type: ignore[arg-type]
    pl.seed_everything(seed)
    model, iterations = learner(name)
    if file.exists():
        model.energy.load_state_dict(torch.load(file))
    else:
        fit(model, mixture, iterations)
        with whole(file) as temporary:
            torch.save(model.energy.state_dict(), temporary)
    log_p, log_data = log_density(model.energy), mixture.log_density(grid()).double()
    area = (2 * EXTENT / CELLS) ** 2
    mass = torch.zeros(3).double().index_add_(0, modes(mixture, grid()), log_p.exp() * area)
    with torch.no_grad():
        depth = model.energy(mixture.means)
        drawn = modes(mixture, model.sampler.last_states(model.energy, torch.randn(3000, 2), 100))
    share = drawn.bincount(minlength=3) / 3000
    result = {"divergence": float((log_data.exp() * (log_data - log_p)).sum() * area)}
    result |= {"apart": float(depth.max() - depth.min())}
    for i, place in enumerate(("left", "right", "top")):
        result |= {f"mass_{place}": float(mass[i]), f"share_{place}": float(share[i])}
    return result


def draw(folder: Path, names: list[str]) -> Figure:
    """Energies and densities of seed 0, a row for each sampler, the data's law on top."""
    figure = Figure(figsize=(11, 2.6 * (len(names) + 1)), layout="constrained")
    axes = figure.subplots(len(names) + 1, 4)
    for j, kind in enumerate(KINDS):
        truth = GaussianMixture(kind).log_density(grid()).double()  # type: ignore[arg-type]
        for i, name in enumerate(["data", *names]):
            pair, file = axes[i, 2 * j : 2 * j + 2], folder / f"{kind}--{name}--0.pt"
            for panel in pair:
                panel.set(xticks=[], yticks=[])
            if name != "data" and not file.exists():
                continue
            log_p = truth
            if name != "data":
                energy = GRBM(2, 256)
                energy.load_state_dict(torch.load(file))
                log_p = log_density(energy)
            box = {"origin": "lower", "extent": [-EXTENT, EXTENT] * 2}
            pair[0].imshow((log_p.max() - log_p).clamp(max=30).view(CELLS, CELLS), cmap="viridis_r", **box)
            pair[1].imshow(log_p.exp().view(CELLS, CELLS), cmap="magma", vmax=float(truth.exp().max()), **box)
            pair[0].set(title=f"{name}: energy" if i else f"{kind}: data", ylim=(-10, 10), xlim=(-10, 10))
            pair[1].set(title="density", ylim=(-10, 10), xlim=(-10, 10))
    return figure


COLUMNS = {
    "KL(data, model)": "divergence",
    "modes' energies apart": "apart",
    "mass left": "mass_left",
    "right": "mass_right",
    "top": "mass_top",
    "share left": "share_left",
    "share right": "share_right",
    "share top": "share_top",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*SAMPLERS, TEMPERED]
    parser.add_argument("--samplers", nargs="+", choices=names, default=names)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/grbm_mixtures"))
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    jobs = {f"{k}--{name}--{s}": (k, name, s) for s in args.seeds for k in args.kinds for name in args.samplers}
    run_missing(args.folder, jobs, lambda job: run(*jobs[job], args.folder / f"{job}.pt"), args.part)
    print(f"\n| mixture | sampler | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 2)}")
    for kind in args.kinds:
        for name in args.samplers:
            cells = [cell(args.folder, f"{kind}--{name}--*", key) for key in COLUMNS.values()]
            print(f"| {kind} | {name} | {' | '.join(cells)} |")
    figure = draw(args.folder, args.samplers)
    figure.savefig(Path(__file__).parents[1] / "docs" / "pictures" / "grbm_mixtures.png", dpi=80)


if __name__ == "__main__":
    main()
