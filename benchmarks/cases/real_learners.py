"""An iteration of each learner on real numbers: loss, backward pass and Adam, by one perceptron on two numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.cases.rbm import training
from benchmarks.floors import floor
from benchmarks.harness import Contestant, Race, race
from ebmlab.energies import RealMLP
from ebmlab.learners import (
    DenoisingScoreMatching,
    FromData,
    Learner,
    NoiseContrast,
    ReplayBuffer,
    ScoreMatching,
)
from ebmlab.samplers import ULA

BATCH, SIGMA, STEPS, STEP_SIZE = 256, 0.1, 20, 0.01
ADAM = partial(torch.optim.Adam, lr=1e-3)
METHODS = {
    "exact": "Score matching, exact trace",
    "sliced": "Sliced score matching, one direction",
    "denoising": "Denoising score matching, one level",
    "nce": "Noise contrast, one noise state a sample",
    "cd": f"CD with {STEPS} Langevin steps from the data",
    "pcd": f"Persistent CD with {STEPS} Langevin steps",
}


def energy() -> RealMLP:
    torch.manual_seed(0)
    return RealMLP(2)


def data() -> Tensor:
    return torch.randn(BATCH, 2, generator=torch.Generator().manual_seed(1))


def ours(method: str, compiled: bool = False) -> Contestant:
    model, x = energy(), data()
    if method in ("cd", "pcd"):
        start = FromData() if method == "cd" else ReplayBuffer(BATCH)
        settings = {"start": start, "num_steps": STEPS, "optimizer": ADAM, "compile_chains": compiled}
        return training(model, ULA(STEP_SIZE), [x], **settings)
    learners: dict[str, Callable[[], Learner]] = {
        "exact": lambda: ScoreMatching(model, form="exact", optimizer=ADAM),
        "sliced": lambda: ScoreMatching(model, optimizer=ADAM),
        "denoising": lambda: DenoisingScoreMatching(model, noise_levels=SIGMA, optimizer=ADAM),
        "nce": lambda: NoiseContrast(model, optimizer=ADAM),
    }
    learner: Any = learners[method]()
    (optimizer,), _ = learner.configure_optimizers()
    return updating(lambda: learner.losses(x).mean(), optimizer)


def updating(loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> Contestant:
    def run() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return Contestant(run)


def ebmkit(method: str) -> Contestant:
    import ebm
    import ebm.samplers

    model, x = energy(), data()
    chains = ebm.samplers.LangevinDynamics(STEP_SIZE, steps=STEPS)
    losses = {
        "exact": ebm.ExactScoreMatching,
        "sliced": ebm.SlicedScoreMatching,
        "denoising": lambda: ebm.DenoisingScoreMatching(SIGMA),
        "nce": ebm.NoiseContrastiveEstimation,
        "cd": lambda: ebm.ContrastiveDivergence(chains, init_fn=lambda shape: x),
        "pcd": lambda: ebm.ContrastiveDivergence(chains, ebm.ReplayBuffer(BATCH, (2,))),
    }
    loss: Any = losses[method]()
    return updating(lambda: loss(model, x).loss, ADAM([*model.parameters(), *loss.parameters()]))


def torchebm(method: str) -> Contestant:
    from torchebm import losses
    from torchebm.core import BaseModel
    from torchebm.samplers import LangevinDynamics

    inner, x = energy(), data()

    class Same(BaseModel):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            return self.inner.forward(x)

    model = Same()
    makers = {
        "exact": lambda: losses.ScoreMatching(model),
        "sliced": lambda: losses.SlicedScoreMatching(model, n_projections=1),
        "denoising": lambda: losses.DenoisingScoreMatching(model, noise_scale=SIGMA),
        "cd": lambda: chained(False),
        "pcd": lambda: chained(True),
    }

    def chained(persistent: bool) -> Any:
        chains = LangevinDynamics(model, step_size=STEP_SIZE)
        settings = {"k_steps": STEPS, "persistent": persistent, "buffer_size": BATCH, "energy_reg_weight": 0.0}
        return losses.ContrastiveDivergence(model, chains, **settings)

    loss: Any = makers[method]()

    def value() -> Tensor:
        found = loss(x)
        return found[0] if isinstance(found, tuple) else found

    return updating(value, ADAM(inner.parameters()))


def products_of_chains() -> Contestant:
    """Forward and backward passes, one more than steps, and the gradient of the parameters at data and chains."""
    layers = [tuple(p.shape) for p in energy().parameters() if p.dim() == 2 and len(p) > 1]
    passes = [(BATCH, n, m) for m, n in layers] + [(BATCH, m, n) for m, n in layers]
    learning = [*[(BATCH, n, m) for m, n in layers], *[(BATCH, m, n) for m, n in layers[1:]]]
    weights = [(m, BATCH, n) for m, n in layers]
    return floor([*passes * (STEPS + 1), *[*learning, *weights] * 2], normals=STEPS * BATCH * 2)


@race("real-learners", *METHODS)
def real_learners(method: str) -> Race:
    entries = {"ebmlab": lambda: ours(method), "ebmkit": lambda: ebmkit(method)}
    if method != "nce":  # which torchebm does not have
        entries["torchebm"] = lambda: torchebm(method)
    if method in ("cd", "pcd"):
        entries["ebmlab, compiled"] = lambda: ours(method, compiled=True)
        entries["floor"] = products_of_chains
    return Race(f"{METHODS[method]}, a perceptron of 3 x 128 units on 2 numbers, batch {BATCH}", 1, entries)
