"""The published programs of the benchmarks sample ebmlab's laws at the cost that the table states."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from helpers_finite import Exact, Target
from helpers_grbm import FAIL, PASS, ExactGRBM, make_grbm
from helpers_tier import cases
from torch import Tensor

from benchmarks import published
from ebmlab.datamodules import GrayCode2D
from ebmlab.domains import Binary
from ebmlab.energies import RBM

Kernel = Callable[[published.LogProb, Tensor], Tensor]
CURVATURE = torch.tensor([[0.0, 0.3, 0.1, 0.0], [0.3, 0.0, -0.2, 0.1], [0.1, -0.2, 0.0, 0.4], [0.0, 0.1, 0.4, 0.0]])
DIAGONAL = torch.tensor([0.6, 0.8, 0.9, 0.7])


def _any_scale(f: published.LogProb, x: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh((CURVATURE + DIAGONAL.diag()).double())
    root = (vectors * values.sqrt()) @ vectors.T
    return published.any_scale(f, x, 0.8, 0.6, root, DIAGONAL.double())


KERNELS: dict[str, Kernel] = {
    "DMALA": lambda f, x: published.dmala(f, x, 0.4),
    "DMALA, balance 0.7": lambda f, x: published.dmala(f, x, 0.4, 0.7),
    "ACS": lambda f, x: published.acs(f, x, torch.tensor([2.0, 0.3]), torch.tensor([0.8, 0.5]), 0),
    "AB-trace": _any_scale,
    "GWG": published.gwg,
    "PAS": lambda f, x: published.path_auxiliary(f, x, 2),
}


def _target() -> Target:
    return Target(Binary(4), "cubic")


def _log_prob(x: Tensor) -> Tensor:
    return -_target()(x)


def after(step: Callable[[Tensor], Tensor], exact: Exact, num_steps: int = 2, from_exact: bool = True) -> float:
    """p-value of 60,000 chains after `num_steps` steps, or of 6,000 from the worst start after 20 times as many."""
    torch.manual_seed(0)
    worst = exact.states[exact.probabilities.argmin()]
    x = exact.sample(60_000) if from_exact else worst.expand(6_000, -1).clone()
    for _ in range(num_steps if from_exact else 20 * num_steps):
        x = step(x)
    return exact.p_value(x)


@pytest.mark.slow
@cases("name", list(KERNELS), fast=[0, 1])
def test_adjusted_kernels_leave_the_law_invariant_and_converge_to_it(name: str) -> None:
    exact = Exact(_target())
    assert after(lambda x: KERNELS[name](_log_prob, x), exact) > PASS
    assert after(lambda x: KERNELS[name](_log_prob, x), exact, from_exact=False) > PASS


def test_a_kernel_without_its_metropolis_decision_is_detected() -> None:
    assert after(lambda x: published.dmala(_log_prob, x, 0.4, adjusted=False), Exact(_target())) < FAIL


@pytest.mark.parametrize("name", [*KERNELS, "DULA"])
def test_passes_through_the_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forward, backward = 0, 0
    own = torch.autograd.grad

    def counted(x: Tensor) -> Tensor:
        nonlocal forward
        forward += 1
        return _log_prob(x)

    def counted_grad(*args: Tensor) -> tuple[Tensor, ...]:
        nonlocal backward
        backward += 1
        return own(*args)

    monkeypatch.setattr(torch.autograd, "grad", counted_grad)
    kernel = KERNELS.get(name, lambda f, x: published.dmala(f, x, 0.4, adjusted=False))
    kernel(counted, Exact(_target()).states)
    assert f"{forward} / {backward}" == (published.UNADJUSTED if name == "DULA" else published.ADJUSTED)


def small_rbm() -> RBM:
    """Three visible and two hidden units without symmetries, in float64."""
    energy = RBM(3, 2).double()
    with torch.no_grad():
        energy.W.copy_(torch.tensor([[1.2, -0.7], [-0.4, 0.9], [0.8, 1.5]]))
        energy.b_v.copy_(torch.tensor([0.3, -0.8, 0.1]))
        energy.b_h.copy_(torch.tensor([-0.5, 0.2]))
    return energy


def test_block_gibbs() -> None:
    energy = small_rbm()
    parameters = [p.detach() for p in (energy.W, energy.b_v, energy.b_h)]
    exact = Exact(energy)
    assert after(lambda v: published.block_gibbs(*parameters, v), exact) > PASS
    assert after(lambda v: published.block_gibbs(*parameters, v), exact, from_exact=False) > PASS


@pytest.mark.parametrize("num_visible", [1, 2])
def test_gibbs_langevin_with_its_decision(num_visible: int) -> None:
    torch.manual_seed(0)
    grbm = make_grbm(num_visible)
    exact = ExactGRBM(grbm)
    v, h = exact.sample(40_000)
    with torch.no_grad():
        for _ in range(2):
            v, h = published.gibbs_langevin(grbm, v, h, 0.5, 4)
    assert exact.p_value(v, h) > PASS


def test_annealing_finds_log_z() -> None:
    torch.manual_seed(0)
    exact = Exact(_target())
    log_z = float((-_target()(exact.states)).logsumexp(0))
    x = torch.randint(2, (20_000, 4)).double()
    log_w = torch.zeros(len(x), dtype=torch.float64)
    for old, new in pairwise(torch.linspace(0, 1, 21).tolist()):
        increment, x = published.annealing_step(
            _log_prob, lambda y: 0 * y.sum(1), lambda f, y: published.dmala(f, y, 0.4), x, old, new
        )
        log_w += increment
    weights = (log_w - log_w.max()).exp()
    estimate = float(log_w.max() + weights.mean().log()) + 4 * float(torch.tensor(2.0).log())
    assert abs(estimate - log_z) < 5 * float(weights.std() / weights.mean()) / len(x) ** 0.5


def test_gray_code() -> None:
    points = torch.randn(500, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3
    assert torch.equal(published.gray_code(points, 32), GrayCode2D(num_bits=32).encode(points))
