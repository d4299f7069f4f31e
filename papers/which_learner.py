"""Learners of energies on real numbers side by side, on two moons: the table of docs/howto/which_learner.md.

    python papers/which_learner.py                                  # goes on where it stopped, prints the table
    python papers/which_learner.py --learners DSM NCE --seeds 0 1 2 --iterations 1500

Every learner fits the same perceptron to the same 10,000 points, in batches of 200, by Adam at 4e-3 with a cosine to 0.
The log-likelihood of 1,000 test points is by quadrature. The share of the upper moon is the mass of the model's density
that is nearer to its half circle than to the other one; 1/2 is right. Seconds are those of the process on one thread,
training alone. Draws the densities of the first seed, as `densities.png`, in its folder.

Ratio matching fits a perceptron on the points' Gray codes of 16 bits. Its likelihood is that of the points' cells, by
summing over all codes, per area.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import pytorch_lightning as pl
import torch
from kept import Result, cell, fit, run_missing
from torch import Tensor
from torch.optim.lr_scheduler import CosineAnnealingLR

from ebmlab.datamodules import GrayCode2D, Shapes2D
from ebmlab.energies import MLP, Energy, NoisyMLP, RealMLP
from ebmlab.evaluation import exact_log_z
from ebmlab.evaluation.quadrature import cell_centres, plane_integral
from ebmlab.learners import (
    ConditionalNoiseContrast,
    ContrastiveDivergence,
    DenoisingScoreMatching,
    DiffusionRecovery,
    EnergyDiscrepancy,
    EnergyMatching,
    FromData,
    Learner,
    NoiseContrast,
    RatioMatching,
    ReplayBuffer,
    ScoreMatching,
)
from ebmlab.samplers import MALA

EXTENT, RESOLUTION = 8.0, 400
CODED, BITS = "RM, Gray code", 16
LEVELS = [0.15, 0.3, 0.6, 1.2, 2.5, 5.0]
LEARNERS: dict[str, Callable[..., Learner]] = {
    "PCD": lambda **o: ContrastiveDivergence(
        network(), MALA(0.1), start=ReplayBuffer(2000, reinitialize=0.02), num_steps=10, **o
    ),
    "CD": lambda **o: ContrastiveDivergence(network(), MALA(0.1), start=FromData(), num_steps=10, **o),
    "SM": lambda **o: ScoreMatching(network(), form="exact", **o),
    "SSM": lambda **o: ScoreMatching(network(), **o),
    "DSM": lambda **o: DenoisingScoreMatching(network(), noise_levels=0.1, **o),
    "DSM, 6 levels": lambda **o: DenoisingScoreMatching(
        NoisyMLP(2, 64, unit=2.0, lowest=0.1), noise_levels=[0.1, *LEVELS[1:]], **o
    ),
    "NCE": lambda **o: NoiseContrast(network(), ratio=4, **o),
    "CNCE": lambda **o: ConditionalNoiseContrast(network(), scale=0.5, ratio=4, **o),
    "ED": lambda **o: RatioMatching(network(), EnergyDiscrepancy(16, noise_level=1.0), **o),
    CODED: lambda **o: RatioMatching(MLP(BITS, 64), **o),
    "Energy matching": lambda **o: EnergyMatching(network(), MALA(0.1), warm_up=300, num_steps=10, **o),
    "DRL": lambda **o: DiffusionRecovery(NoisyMLP(2, 64, unit=2.0), MALA(0.2), noise_levels=LEVELS, num_steps=10, **o),
}


def network() -> RealMLP:
    return RealMLP(2, 64)


def upper(points: Tensor) -> Tensor:
    """Whether points `(N, 2)` are nearer to the upper moon's half circle, of radius 2 about (-1, -0.2)."""
    distances = []
    for centre, sign in (((-1.0, -0.2), 1.0), ((1.0, 0.8), -1.0)):
        away = points - torch.tensor(centre)
        ends = torch.tensor([[-2.0, 0.0], [2.0, 0.0]], dtype=points.dtype)
        to_ends = torch.cdist(away, ends).amin(1)
        distances.append(torch.where(sign * away[:, 1] > 0, (away.norm(dim=1) - 2).abs(), to_ends))
    return distances[0] < distances[1]


def run(name: str, seed: int, iterations: int, folder: Path) -> Result:
    """Trains one model and scores it; keeps its density."""
    pl.seed_everything(seed)
    adam = partial(torch.optim.Adam, lr=4e-3)
    cosine = partial(CosineAnnealingLR, T_max=iterations)
    learner = LEARNERS[name](optimizer=adam, lr_scheduler=cosine, lr_interval="step")
    data = (
        GrayCode2D("moons", BITS, num_samples=10_000, seed=seed, batch_size=200)
        if name == CODED
        else Shapes2D("moons", seed=seed, batch_size=200)
    )
    begin = time.process_time()
    fit(learner, data, iterations)
    seconds = time.process_time() - begin
    if isinstance(data, GrayCode2D):
        density, log_z = coded(learner.energy, data)
    else:
        density, log_z = (z := plane_integral(learner.energy, EXTENT, resolution=RESOLUTION)).density, z.log_z
    mass = density.flatten() * (2 * EXTENT / RESOLUTION) ** 2
    torch.save(density, folder / f"{name}--{seed}--{iterations}.pt")
    with torch.no_grad():
        likelihood = -float(learner.energy(data.states("test")).double().mean()) - log_z
    share = float(mass[upper(cell_centres(EXTENT, RESOLUTION).float())].sum())
    return {"log-likelihood": likelihood, "share of the upper moon": share, "seconds": seconds}


@torch.no_grad()
def coded(energy: Energy, data: GrayCode2D) -> tuple[Tensor, float]:
    """The density of coded points at the cells of `plane_integral`, and its log Z: a cell's sum times its area."""
    log_z = float(exact_log_z(energy)) + 2 * math.log(2 * data.extent / 2 ** (BITS // 2))
    points = cell_centres(EXTENT, RESOLUTION)
    density = (-energy(data.encode(points)).double() - log_z).exp()
    return density.where(points.abs().amax(1) < data.extent, 0).view(RESOLUTION, RESOLUTION), log_z


def draw(names: list[str], seed: int, iterations: int, folder: Path) -> None:
    """The densities of one seed, on [-4, 4]^2."""
    figure, axes = plt.subplots(2, (len(names) + 1) // 2, figsize=(11, 6), layout="constrained", squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for name, axis in zip(names, axes.flat, strict=False):
        density = torch.load(folder / f"{name}--{seed}--{iterations}.pt", weights_only=True)
        inner = density[RESOLUTION // 4 : -RESOLUTION // 4, RESOLUTION // 4 : -RESOLUTION // 4]
        axis.imshow(inner, origin="lower", vmin=0, vmax=0.25)
        axis.set_title(name)
    figure.savefig(folder / "densities.png", dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", nargs="+", default=[*LEARNERS], choices=[*LEARNERS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--folder", type=Path, default=Path("runs/which_learner"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.folder.mkdir(parents=True, exist_ok=True)
    jobs = {f"{name}--{seed}--{given.iterations}": (name, seed) for seed, name in product(given.seeds, given.learners)}
    run_missing(given.folder, jobs, lambda job: run(*jobs[job], given.iterations, given.folder), "0/1")
    keys = {"log-likelihood": 3, "share of the upper moon": 2, "seconds": 2}
    print(f"\n| learner | {' | '.join(keys)} |\n|{'---|' * (len(keys) + 1)}")
    for name in given.learners:
        cells = [cell(given.folder, f"{name}--*--{given.iterations}", key, digits) for key, digits in keys.items()]
        print(f"| {name} | {' | '.join(cells)} |")
    draw(given.learners, given.seeds[0], given.iterations, given.folder)


if __name__ == "__main__":
    main()
