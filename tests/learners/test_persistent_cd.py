"""Persistent CD on binary energies: its gradient against that of the enumerated likelihood."""

from __future__ import annotations

import pytest
import torch
from helpers_tier import cases
from torch import Tensor, nn

from ebmlab.energies import RBM, Energy, ResNet
from ebmlab.evaluation import exact_samples
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import DMALA, GWG, BlockGibbs, Gibbs, Info, Sampler, State

BATCHES, CHAINS = 40, 400


class Exact(Sampler):
    """Draws from the enumerated law."""

    exact = True

    def check(self, energy: Energy) -> None: ...

    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: object = None) -> State:
        return State(x=x)

    def step(self, energy: Energy, state: State) -> tuple[State, Info]:
        x = exact_samples(energy, len(state.x))
        return State(x=x), Info(x.new_ones(len(x)), x.new_zeros(len(x)))


def make_energy(name: str) -> Energy:
    torch.manual_seed(1)
    if name == "RBM":
        rbm = RBM(9, 4)
        nn.init.normal_(rbm.W, std=0.7)
        return rbm
    net = ResNet((3, 3), channels=3, base=torch.linspace(0.2, 0.8, 9))
    nn.init.normal_(net.linear.weight, std=6.0)
    return net


def worst_z(energy: Energy, sampler: Sampler, num_steps: int) -> float:
    """Largest difference of the mean gradient of training and that of the likelihood, in standard errors."""
    parameters = [p for p in energy.parameters() if p.requires_grad]
    torch.manual_seed(0)
    x = energy.domain.random(CHAINS) * (torch.arange(9) % 3 > 0).view(energy.domain.event_shape)
    everything = energy.domain.enumerate()
    likelihood = -energy(x).mean() - (-energy(everything)).logsumexp(0)
    expected = _flat(torch.autograd.grad(-likelihood, parameters, allow_unused=True), parameters)
    rows = []
    for _ in range(BATCHES):
        learner = ContrastiveDivergence(
            energy, sampler, start=ReplayBuffer(CHAINS), num_steps=num_steps
        )  # a fresh buffer of noise
        learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
        loss = learner.training_step(x, 0)
        rows.append(_flat(torch.autograd.grad(loss, parameters, allow_unused=True), parameters))
    grads = torch.stack(rows)
    error = grads.std(0) / BATCHES**0.5
    return float(((grads.mean(0) - expected) / error)[error > 1e-7].abs().max())


def _flat(grads: tuple[Tensor | None, ...], parameters: list[nn.Parameter]) -> Tensor:
    pairs = zip(grads, parameters, strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])


@cases("name", ["RBM", "ResNet"], fast=[0])
def test_exact_negatives_give_the_likelihoods_gradient(name: str) -> None:
    assert worst_z(make_energy(name), Exact(), 1) < 5


@pytest.mark.parametrize(
    "sampler",
    [BlockGibbs(), *(pytest.param(slow, marks=pytest.mark.slow) for slow in (GWG(2), DMALA(0.5), Gibbs()))],
    ids=lambda s: type(s).__name__,
)
def test_long_chains_give_the_likelihoods_gradient_and_short_ones_do_not(sampler: Sampler) -> None:
    energy = make_energy("RBM")
    assert worst_z(energy, sampler, 60) < 5
    assert worst_z(energy, sampler, 1) > 8
