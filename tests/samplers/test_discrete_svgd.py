"""Discrete SVGD: its direction against a sum written out, particles against an enumerated target, robustness."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, MOSTLY_CUBIC, Exact, Target
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Categorical, Finite, Spin
from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.samplers.discrete_svgd import DiscreteSVGD, stein_direction
from ebmlab.samplers.relaxed_mala import harden

TWO_VALUED = {name: DOMAINS[name] for name in ("binary", "spin")}
two_valued = pytest.mark.parametrize("domain", TWO_VALUED.values(), ids=TWO_VALUED)


def test_direction_is_the_sum_of_the_paper() -> None:
    """It equals the definition, term by term, with the kernel's gradient by autograd."""
    torch.manual_seed(0)
    z, score = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    weights = torch.rand(5, dtype=torch.float64).softmax(0)
    width = torch.cdist(z, z).square().median() / math.log(6)
    expected = torch.zeros_like(z)
    for i in range(5):
        for j in range(5):
            zj = z[j].clone().requires_grad_()
            kernel = (-(zj - z[i]).square().sum() / width).exp()
            (grad,) = torch.autograd.grad(kernel, zj)
            expected[i] += weights[j] * (kernel.detach() * score[j] + grad)
    torch.testing.assert_close(stein_direction(z, score, weights), expected)


@pytest.mark.slow
@MOSTLY_CUBIC
@two_valued
def test_means_approach_those_of_the_target(domain: Finite, kind: str) -> None:
    """For 200 particles from a uniform start the error of the means at least halves."""
    torch.manual_seed(0)
    energy = Target(domain, kind)
    wanted = Exact(energy).mean()
    start = domain.random(200).double()
    x, _ = DiscreteSVGD(0.3).sample(energy, start, 300)
    before, after = ((y.mean(0) - wanted).abs().mean() for y in (start, x))
    assert after < before / 2, (float(before), float(after))


def test_is_not_exact_and_says_so() -> None:
    assert not DiscreteSVGD(0.1).exact
    text = " ".join((DiscreteSVGD.__doc__ or "").split())
    assert all(words in text for words in ("chains interact", "depends on which and how many", "It is not exact"))


def test_particles_interact() -> None:
    energy = Target(Spin(4), "cubic")
    torch.manual_seed(0)
    state = DiscreteSVGD(0.3).init(energy, energy.domain.random(8).double())
    together, _ = DiscreteSVGD(0.3).step(energy, state)
    half = type(state)(x=state.x[:4], z=state.z[:4])
    assert not torch.allclose(DiscreteSVGD(0.3).step(energy, half)[0].z, together.z[:4])


def test_two_evaluations_a_step_and_no_noise() -> None:
    calls = []
    energy = Target(Spin(4), "cubic")
    energy.register_forward_pre_hook(lambda *_: calls.append(1))
    state = DiscreteSVGD(0.3).init(energy, energy.domain.random(8).double())
    assert not calls
    ends = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        after, info = DiscreteSVGD(0.3).step(energy, state)
        ends.append(after.z)
    assert len(calls) == 4 and info.evaluations == 2 and after.step == 1
    assert torch.equal(*ends) and torch.equal(after.x, harden(energy.domain, after.z))
    assert torch.equal(info.hops, energy.domain.hops(after.x, state.x)) and (info.acceptance == 1).all()


@pytest.mark.parametrize("scale", [0.0, 1e4])
@cases("dtype", [torch.float32, torch.float64], fast=[0])
@pytest.mark.parametrize("batch", [1, 2, 20])
@two_valued
def test_small_batches_flat_and_steep_energies(domain: Finite, batch: int, dtype: torch.dtype, scale: float) -> None:
    torch.manual_seed(0)
    energy = Target(domain, "cubic", scale=scale)
    start = domain.random(1).to(dtype).expand(batch, 4)
    with torch.inference_mode():
        states = list(DiscreteSVGD(0.3).chain(energy, start, 60))
    z = states[-1][0].z
    assert z.dtype == dtype and z.isfinite().all() and z.abs().max() < 50
    domain.validate(states[-1][0].x)


def test_particles_in_one_place_do_not_divide_by_zero() -> None:
    z: Tensor = torch.zeros(6, 2)
    move = stein_direction(z, torch.ones(6, 2), torch.full((6,), 1 / 6))
    torch.testing.assert_close(move, torch.ones(6, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DiscreteSVGD(-0.1), "step_size is -0.1"),
        (lambda: DiscreteSVGD(0.1, temperature=0.0), "temperature is 0.0"),
        (lambda: DiscreteSVGD(0.1).check(Target(Categorical(2, 3), "cubic")), "Binary or Spin domains"),
    ],
)
def test_wrong_use(call: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    energy = Ising.lattice(2, 0.3, field=0.1).to(dtype)
    x, _ = DiscreteSVGD(0.1).sample(energy, energy.random(5), 3)
    assert x.dtype == dtype
    energy.domain.validate(x)
