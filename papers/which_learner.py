"""Learners of energies on real numbers side by side: the tables of docs/howto/which_learner.md.

    python papers/which_learner.py                                  # goes on where it stopped, prints the tables
    python papers/which_learner.py --problems moons digits --learners DSM NCE --seeds 0 1 2 --iterations 1500

Every learner fits the same perceptron to the same data, in batches of 200, by Adam at 4e-3 (1e-3 on digits) with a
cosine to 0. Seconds are those of the process on one thread, training alone.

Shapes are 10,000 points in the plane. The log-likelihood of 1,000 test points is by quadrature. On moons, the share of
the upper moon is the mass of the model's density that is nearer to its half circle than to the other one; 1/2 is right.
Ratio matching fits a perceptron on the points' Gray codes of 16 bits. Its likelihood is that of the points' cells, by
summing over all codes, per area.

Digits are those of scikit-learn, 64 standardised pixels. 500 samples, drawn as each learner draws, are compared with
the 360 images that were not trained on by the energy distance. That of 500 training images is the row "data".

Draws the densities of the first seed of each shape, and samples of digits, as `densities-PROBLEM.png`, in its folder.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import pytorch_lightning as pl
import torch
from kept import Result, cell, fit, run_missing
from torch import Tensor
from torch.optim.lr_scheduler import CosineAnnealingLR

from ebmlab.datamodules import Digits, GrayCode2D, Shapes2D
from ebmlab.datamodules.shapes_2d import SHAPES
from ebmlab.energies import MLP, Energy, NoisyMLP, RealMLP
from ebmlab.evaluation import energy_distance, exact_log_z
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
CODED, BITS, DIGITS = "RM, Gray code", 16, "digits"


@dataclass
class Setting:
    """What suits the data of a problem.

    Attributes:
        dim: how many numbers.
        hidden_dim: units of a hidden layer.
        rate: of Adam.
        unit: about the standard deviation of the data.
        fine: the width of their finest structure, the lowest noise.
        step_size: of Langevin steps.
    """

    dim: int
    hidden_dim: int
    rate: float
    unit: float
    fine: float
    step_size: float

    def network(self) -> RealMLP:
        return RealMLP(self.dim, self.hidden_dim)

    def noisy(self, lowest: float = 0.0) -> NoisyMLP:
        return NoisyMLP(self.dim, self.hidden_dim, unit=self.unit / 4, lowest=lowest)

    def levels(self) -> list[float]:
        """Six, each twice the one before."""
        return [self.fine * 2**k for k in range(6)]


PLANE = Setting(dim=2, hidden_dim=64, rate=4e-3, unit=2.0, fine=0.15, step_size=0.1)
PIXELS = Setting(dim=64, hidden_dim=256, rate=1e-3, unit=1.0, fine=0.3, step_size=0.02)
LEARNERS: dict[str, Callable[..., Learner]] = {
    "PCD": lambda s, **o: ContrastiveDivergence(
        s.network(), MALA(s.step_size), start=ReplayBuffer(2000, reinitialize=0.02), num_steps=10, **o
    ),
    "CD": lambda s, **o: ContrastiveDivergence(s.network(), MALA(s.step_size), start=FromData(), num_steps=10, **o),
    "SM": lambda s, **o: ScoreMatching(s.network(), form="exact", **o),
    "SSM": lambda s, **o: ScoreMatching(s.network(), **o),
    "DSM": lambda s, **o: DenoisingScoreMatching(s.network(), noise_levels=s.fine, **o),
    "DSM, 6 levels": lambda s, **o: DenoisingScoreMatching(s.noisy(s.fine), noise_levels=s.levels(), **o),
    "NCE": lambda s, **o: NoiseContrast(s.network(), ratio=4, **o),
    "CNCE": lambda s, **o: ConditionalNoiseContrast(s.network(), scale=s.unit / 4, ratio=4, **o),
    "ED": lambda s, **o: RatioMatching(s.network(), EnergyDiscrepancy(16, noise_level=s.unit / 2), **o),
    CODED: lambda s, **o: RatioMatching(MLP(BITS, 64), **o),
    "Energy matching": lambda s, **o: EnergyMatching(
        s.network(), MALA(s.step_size), noise_scale=2 * s.unit, warm_up=100, num_steps=10, **o
    ),
    "DRL": lambda s, **o: DiffusionRecovery(s.noisy(), noise_levels=s.levels(), **o),
}


def upper(points: Tensor) -> Tensor:
    """Whether points `(N, 2)` are nearer to the upper moon's half circle, of radius 2 about (-1, -0.2)."""
    distances = []
    for centre, sign in (((-1.0, -0.2), 1.0), ((1.0, 0.8), -1.0)):
        away = points - torch.tensor(centre)
        ends = torch.tensor([[-2.0, 0.0], [2.0, 0.0]], dtype=points.dtype)
        to_ends = torch.cdist(away, ends).amin(1)
        distances.append(torch.where(sign * away[:, 1] > 0, (away.norm(dim=1) - 2).abs(), to_ends))
    return distances[0] < distances[1]


def run(name: str, problem: str, seed: int, iterations: int, kept: Path) -> Result:
    """Trains one model and scores it; keeps its density, or its samples."""
    pl.seed_everything(seed)
    setting = PIXELS if problem == DIGITS else PLANE
    adam = partial(torch.optim.Adam, lr=setting.rate)
    cosine = partial(CosineAnnealingLR, T_max=iterations)
    learner = LEARNERS[name](setting, optimizer=adam, lr_scheduler=cosine, lr_interval="step")
    data: Digits | GrayCode2D | Shapes2D
    if problem == DIGITS:
        data = Digits(batch_size=200, seed=seed)
    elif name == CODED:
        data = GrayCode2D(problem, BITS, num_samples=10_000, seed=seed, batch_size=200)
    else:
        data = Shapes2D(problem, seed=seed, batch_size=200)
    begin = time.process_time()
    fit(learner, data, iterations)
    seconds = time.process_time() - begin
    scores = of_digits(learner, data, kept) if isinstance(data, Digits) else of_points(learner, data, kept)
    return {**scores, "seconds": seconds}


def of_digits(learner: Learner, data: Digits, kept: Path) -> Result:
    """The energy distance of samples, each from 500 steps: at each level where a learner draws by levels."""
    steps = 80 if isinstance(learner.energy, NoisyMLP) else 500
    samples = learner.draw(torch.randn(500, PIXELS.dim), steps)
    torch.save(samples[:16], kept)
    others = torch.cat([data.states("val"), data.states("test")]).flatten(1)
    return {"energy distance": float(energy_distance(samples, others))}


def of_points(learner: Learner, data: GrayCode2D | Shapes2D, kept: Path) -> Result:
    """The likelihood of test points, and the share of the upper moon."""
    if isinstance(data, GrayCode2D):
        density, log_z = coded(learner.energy, data)
    else:
        density, log_z = (z := plane_integral(learner.energy, EXTENT, resolution=RESOLUTION)).density, z.log_z
    mass = density.flatten() * (2 * EXTENT / RESOLUTION) ** 2
    torch.save(density.float(), kept)
    with torch.no_grad():
        scores = {"log-likelihood": -float(learner.energy(data.states("test")).double().mean()) - log_z}
    if data.shape == "moons":
        scores["share of the upper moon"] = float(mass[upper(cell_centres(EXTENT, RESOLUTION).float())].sum())
    return scores


@torch.no_grad()
def coded(energy: Energy, data: GrayCode2D) -> tuple[Tensor, float]:
    """The density of coded points at the cells of `plane_integral`, and its log Z: a cell's sum times its area."""
    log_z = float(exact_log_z(energy)) + 2 * math.log(2 * data.extent / 2 ** (BITS // 2))
    points = cell_centres(EXTENT, RESOLUTION)
    density = (-energy(data.encode(points)).double() - log_z).exp()
    return density.where(points.abs().amax(1) < data.extent, 0).view(RESOLUTION, RESOLUTION), log_z


def draw(names: list[str], problem: str, seed: int, iterations: int, folder: Path) -> None:
    """The densities of one seed on [-4, 4]^2, or sixteen samples of digits each."""
    figure, axes = plt.subplots(2, (len(names) + 1) // 2, figsize=(11, 4.5), layout="constrained", squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for name, axis in zip(names, axes.flat, strict=False):
        path = folder / f"{name}--{problem}--{seed}--{iterations}.pt"
        if not path.exists():
            continue
        found = torch.load(path, weights_only=True)
        if problem == DIGITS:
            axis.imshow(found.view(4, 4, 8, 8).transpose(1, 2).reshape(32, 32), cmap="gray", vmin=-1.5, vmax=2)
        else:
            inner = found[RESOLUTION // 4 : -RESOLUTION // 4, RESOLUTION // 4 : -RESOLUTION // 4]
            axis.imshow(inner, origin="lower", vmin=0, vmax=0.25)
        axis.set_title(name)
    figure.savefig(folder / f"densities-{problem}.png", dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["moons"], choices=[*SHAPES, DIGITS])
    parser.add_argument("--learners", nargs="+", default=[*LEARNERS], choices=[*LEARNERS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--folder", type=Path, default=Path("runs/which_learner"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    folder, iterations = given.folder, given.iterations
    folder.mkdir(parents=True, exist_ok=True)
    grid = [of for of in product(given.seeds, given.problems, given.learners) if of[1:] != (DIGITS, CODED)]
    jobs = {f"{name}--{problem}--{seed}--{iterations}": (name, problem, seed) for seed, problem, name in grid}
    run_missing(folder, jobs, lambda job: run(*jobs[job], iterations, folder / f"{job}.pt"), "0/1")
    for problem in given.problems:
        keys = {"energy distance": 2} if problem == DIGITS else {"log-likelihood": 3}
        keys |= {"share of the upper moon": 2} if problem == "moons" else {}
        keys |= {"seconds": 2}
        print(f"\n| {problem} | {' | '.join(keys)} |\n|{'---|' * (len(keys) + 1)}")
        for name in given.learners:
            pattern = f"{name}--{problem}--*--{iterations}"
            print(f"| {name} | {' | '.join(cell(folder, pattern, key, digits) for key, digits in keys.items())} |")
        draw(given.learners, problem, given.seeds[0], iterations, folder)
    print(f"\n| means | {' | '.join(given.problems)} |\n|{'---|' * (len(given.problems) + 1)}")
    for name in given.learners:
        keys_of = {problem: "energy distance" if problem == DIGITS else "log-likelihood" for problem in given.problems}
        means = [cell(folder, f"{name}--{of}--*--{iterations}", key).split(" (")[0] for of, key in keys_of.items()]
        print(f"| {name} | {' | '.join(means)} |")
    if DIGITS in given.problems:
        images = Digits()
        x, others = images.states("train")[:500], torch.cat([images.states("val"), images.states("test")])
        print(f"| data | {float(energy_distance(x, others)):.2g} | |")


if __name__ == "__main__":
    main()
