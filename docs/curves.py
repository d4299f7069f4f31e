"""The curves of docs/howto/trouble.md: `python -m docs.curves` draws docs/pictures/trouble.png in a minute."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ebmlab.datamodules import Digits
from ebmlab.drawing.figures import figure_png
from ebmlab.energies import RBM
from ebmlab.evaluation import log_z
from ebmlab.samplers import DMALA, BlockGibbs, Sampler

HEALTHY, SICK = "#1f77b4", "#d62728"


def trained(x: Tensor, sampler: Sampler, iterations: int = 1000) -> tuple[RBM, list[float]]:
    """An RBM by persistent CD, ten steps an iteration, and the energies of data minus those of chains."""
    torch.manual_seed(0)
    rbm = RBM(x.shape[1], num_hidden=64)
    optimizer = torch.optim.Adam(rbm.parameters(), lr=5e-3)
    chains = rbm.random(100)
    gaps = []
    for _ in range(iterations):
        batch = x[torch.randint(len(x), (100,))]
        chains = sampler.last_states(rbm, chains, num_steps=10)
        loss = rbm(batch).mean() - rbm(chains).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        gaps.append(loss.item())
    return rbm, gaps


def draw() -> Figure:
    """Three panels: training, step sizes, and temperatures of AIS."""
    data = Digits(binarize=True)
    data.setup("fit")
    x = data.states("train", 1437).flatten(1)
    figure = Figure(figsize=(12, 3.6), dpi=100, layout="constrained")
    training, acceptance, annealing = figure.subplots(1, 3)
    figure.get_layout_engine().set(wspace=0.06)
    rbm, gaps = trained(x, BlockGibbs())
    _, sick = trained(x, DMALA(0.05))
    training.plot(gaps, color=HEALTHY, label="block Gibbs")
    training.plot(sick, color=SICK, label="chains that hardly move")
    _named(training, "training: E(data) - E(chains)", "iteration", "nats")

    steps = [0.01 * 2**k for k in range(11)]
    infos = [DMALA(step).sample(rbm, x[:200], 20)[1] for step in steps]
    acceptance.plot(steps, [float(info.acceptance.mean()) for info in infos], "o-", color=SICK)
    moved = acceptance.twinx()
    moved.plot(steps, [float(info.hops.mean()) for info in infos], "s-", color=HEALTHY)
    moved.set_ylim(bottom=0)
    moved.set_ylabel("bits changed a step", color=HEALTHY)
    moved.spines[["top"]].set_visible(False)
    acceptance.set_xscale("log")
    _named(acceptance, "DMALA: steps too small, right, too large", "step size", "acceptance")
    acceptance.yaxis.label.set_color(SICK)

    numbers = [10, 30, 100, 300, 1000, 3000]
    found = [log_z(rbm, BlockGibbs(), x=x, num_chains=100, num_temperatures=n, schedule="linear") for n in numbers]
    annealing.plot(numbers, [z.log_z for z in found], "o-", color=HEALTHY, label="forward")
    annealing.plot(numbers, [z.log_z + z.gap for z in found], "o-", color=SICK, label="backward")
    annealing.set_xscale("log")
    _named(annealing, "log Z: both directions must meet", "temperatures", "nats")
    return figure


def _named(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set(title=title, xlabel=x, ylabel=y)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8)
    axes.spines[["top"]].set_visible(False)


if __name__ == "__main__":
    (Path(__file__).parent / "pictures" / "trouble.png").write_bytes(figure_png(draw()))
