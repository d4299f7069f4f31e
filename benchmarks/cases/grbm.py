"""An iteration of a GRBM of 784 and 4,096 units by modified CD: 10 Gibbs steps with 10 inner Langevin steps each."""

from __future__ import annotations

import torch

from benchmarks import published
from benchmarks.floors import floor
from benchmarks.grbm_iteration import STEP_SIZE, straightforward
from benchmarks.harness import Contestant, Race, race
from ebmlab.energies import GRBM
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import GibbsLangevin

BATCH, VISIBLE, HIDDEN, STEPS, INNER = 512, 784, 4096, 10, 10


@race("grbm", "plain", "adjusted")
def grbm(kind: str) -> Race:
    adjusted = kind == "adjusted"
    torch.manual_seed(0)
    energy, data = GRBM(VISIBLE, HIDDEN), torch.randn(BATCH, VISIBLE)

    def ours() -> Contestant:
        sampler = GibbsLangevin(STEP_SIZE, INNER, adjust_from=0 if adjusted else None)
        learner = ContrastiveDivergence(energy, sampler, num_steps=STEPS, burn_in=0, density="joint")
        learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign,assignment]

        def run() -> None:
            energy.zero_grad()
            learner.training_step(data, 0).backward()

        return Contestant(run)

    def plain() -> Contestant:
        def run() -> None:
            energy.zero_grad()
            if adjusted:
                adjusted_iteration(energy, data)
            else:
                straightforward(energy, data, STEPS, INNER)

        return Contestant(run)

    up, down, back = (BATCH, VISIBLE, HIDDEN), (BATCH, HIDDEN, VISIBLE), (VISIBLE, BATCH, HIDDEN)
    return Race(
        f"An iteration of CD-10, GRBM 784-4096, batch 512, {'with' if adjusted else 'without'} Metropolis",
        1,
        {
            "ebmlab": ours,
            "published": plain,
            "floor": lambda: floor(
                [up, back, *[down, up, back] * STEPS],
                uniforms=(STEPS + 1) * BATCH * HIDDEN,
                normals=STEPS * BATCH * VISIBLE,
            ),
        },
    )


def adjusted_iteration(energy: GRBM, data: torch.Tensor) -> None:
    """Liao et al. 2022, Alg. 2 with the Metropolis decision inside Alg. 3; all states are kept."""
    with torch.no_grad():
        h_data = torch.bernoulli(torch.sigmoid(energy.hidden_given_visible(data)))
        v = torch.randn_like(data)
        h = torch.bernoulli(torch.sigmoid(energy.hidden_given_visible(v)))
        states = []
        for _ in range(STEPS):
            v, h = published.gibbs_langevin(energy, v, h, STEP_SIZE, INNER)
            states.append((v, h))
    v, h = (torch.cat(parts) for parts in zip(*states, strict=True))
    (energy.joint_energy(data, h_data).mean() - energy.joint_energy(v, h).mean()).backward()
