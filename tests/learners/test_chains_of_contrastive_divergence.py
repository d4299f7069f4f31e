"""Which states of the chains count, where chains start, and what is kept of them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_grbm import make_grbm
from helpers_learner import Fake, Linear, make_learner

from ebmlab.energies import RBM, Energy
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_mean, exact_samples
from ebmlab.learners import ContrastiveDivergence, FromData, FromNoise, Start
from ebmlab.samplers import ULA, BlockGibbs, Gibbs, GibbsLangevin, Info, Langevin, Sampler, State

pytestmark = [  # Lightning advises against saving modules as hyper-parameters; the learner does so on purpose
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]


@pytest.mark.parametrize(("burn_in", "counted"), [(None, [5]), (4, [5]), (0, [1, 2, 3, 4, 5]), (2, [3, 4, 5])])
def test_burn_in_decides_which_states_count(burn_in: int | None, counted: list[int]) -> None:
    """State k is k^2 and the data are 0, so that loss and gradient are minus the mean of the averaged squares."""
    energy = Linear()
    sampler = Fake(lambda k, x: (torch.full((3, 1), float(k * k), dtype=torch.float64), None))
    learner, logged = make_learner(energy, sampler, num_steps=5, burn_in=burn_in)
    loss = learner.training_step(torch.zeros(4, 1, dtype=torch.float64), 0)
    mean = sum(k * k for k in counted) / len(counted)
    assert loss.item() == pytest.approx(-2.0 * mean)
    assert torch.autograd.grad(loss, energy.a)[0].item() == pytest.approx(-mean)
    assert logged["train/energy_negative"] == pytest.approx(2.0 * mean) and logged["train/energy_data"] == 0.0


def test_sampler_hidden_units_are_used_only_for_the_joint_density() -> None:
    grbm = make_grbm(2)
    v = torch.tensor([[0.4, -1.0]], dtype=torch.float64)
    h = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)
    data = torch.zeros(1, 2, dtype=torch.float64)
    for density, hidden in (("joint", h), ("marginal", torch.sigmoid(grbm.hidden_given_visible(v)))):
        learner, _ = make_learner(grbm, Fake(lambda k, x: (v, h)), density=density)
        contrast = grbm.weighted_sum()
        learner._subtract_negatives(contrast, data)
        torch.testing.assert_close(contrast.value(), -grbm.joint_energy(v, hidden)[0])


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32, torch.float64])
def test_where_chains_start(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    data = torch.full((50_000, 1), 7.0, dtype=dtype)
    for chains in (FromData(), FromNoise()):
        sampler = Fake(lambda k, x: (x.double(), None))
        learner, _ = make_learner(Linear(), sampler, start=chains, num_steps=2)
        for _ in range(2):
            learner.training_step(data, 0)
        first, second = sampler.starts
        assert first.shape == data.shape and first.dtype == torch.float64  # the energy's
        if isinstance(chains, FromData):
            assert torch.equal(first, data.double()) and torch.equal(second, data.double())
        else:
            assert abs(first.mean()) * 50_000**0.5 < 5 and abs(first.var() - 1) * 25_000**0.5 < 5
            assert not torch.equal(first, second)
    assert isinstance(ContrastiveDivergence(make_grbm(1), BlockGibbs()).start, FromNoise)
    with pytest.raises(NotImplementedError):
        Start().draw(Linear(), 1, data)


@pytest.mark.parametrize("burn_in", [0, None])
@pytest.mark.parametrize("sampler_class", [BlockGibbs, Langevin, GibbsLangevin])
def test_memory_does_not_grow_with_the_number_of_steps(sampler_class: type[Sampler], burn_in: int | None) -> None:
    """No state is kept once it is averaged, and the loss has as small an autograd graph after 40 steps as after 2."""
    refs: list[weakref.ref[State]] = []
    alive: list[int] = []

    class Watched(sampler_class):  # type: ignore[misc, valid-type]
        def step(self, energy: Energy, state: State) -> tuple[State, Info]:
            new, info = super().step(energy, state)
            refs.append(weakref.ref(new))
            alive.append(sum(r() is not None for r in refs))
            return new, info

    def size(node: Any, seen: set[Any]) -> int:
        if node is None or node in seen:
            return 0
        seen.add(node)
        return 1 + sum(size(child, seen) for child, _ in node.next_functions)

    graphs = []
    for num_steps in (2, 40):
        sampler = Watched() if sampler_class is BlockGibbs else Watched(0.1, adjust_from=0)
        learner, _ = make_learner(make_grbm(2), sampler, num_steps=num_steps, burn_in=burn_in)
        graphs.append(size(learner.training_step(torch.zeros(8, 2, dtype=torch.float64), 0).grad_fn, set()))
    assert len(alive) == 42 and max(alive) <= 2
    assert graphs[0] == graphs[1]


def test_trajectory_and_draw() -> None:
    grbm = make_grbm(2)
    learner = ContrastiveDivergence(grbm, BlockGibbs(), num_steps=4)
    x = torch.zeros(6, 2, dtype=torch.float64)
    shows: dict[bool, Callable[[Any], torch.Tensor]] = {
        False: lambda state: state.x,
        True: lambda state: state.hidden @ grbm.W.T.detach() + grbm.mu.detach(),
    }
    for denoise, show in shows.items():
        torch.manual_seed(0)
        expected = [show(state) for state, _ in BlockGibbs().chain(grbm, x, 4)]
        torch.manual_seed(0)
        path = list(learner.trajectory(x, denoise=denoise))
        torch.manual_seed(0)
        last = learner.draw(x, denoise=denoise)
        assert len(path) == 4 and torch.equal(last, path[-1]) and not last.requires_grad
        torch.testing.assert_close(path, expected)
    assert len(list(learner.trajectory(x, 7))) == 7
    with pytest.raises(UserError, match="Linear has no hidden units: set it to false"):
        ContrastiveDivergence(Linear(), ULA(0.1)).draw(x[:, :1], denoise=True)


def test_denoising_draws_hidden_units_that_the_state_lacks() -> None:
    """E[v | h] then averages to E[v]. Their mean in place of h would give another number."""
    torch.manual_seed(0)
    rbm = RBM(5, 3)
    for p in (rbm.W, rbm.b_v, rbm.b_h):
        torch.nn.init.normal_(p)
    found = ContrastiveDivergence(rbm, Gibbs()).draw(exact_samples(rbm, 10_000), 1, denoise=True)
    z = (found.mean(0) - exact_mean(rbm)) / found.std(0) * math.sqrt(len(found))
    assert z.abs().max() < 4.5
