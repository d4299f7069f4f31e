"""Block Gibbs leaves the joint law of (v, h) invariant; wrong conditionals are caught."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers_grbm import FAIL, PASS, ExactGRBM, invariance_p, last_state, make_grbm
from helpers_mutants import mutant
from torch import Tensor

from ebmlab.energies import GRBM, RBM
from ebmlab.samplers import BlockGibbs, State
from ebmlab.samplers.block_gibbs import Drawn

MUTANTS = {
    "hidden units from the wrong logits": ("self.units.sample(self.logits)", "self.units.sample(-self.logits)"),
    "mean field in place of draws": ("self.units.sample(self.logits)", "(self.logits > 0).to(self.logits)"),
    "h given the v before": (
        "start(energy, cast(Bipartite, energy).sample_visible(state.draw()), settings)",
        "replace(start(energy, state.x, settings), x=energy.sample_visible(state.draw()))",
    ),
}


@pytest.mark.parametrize("num_steps", [1, 3])
@pytest.mark.parametrize("num_visible", [1, 2])
def test_leaves_the_joint_law_invariant(num_visible: int, num_steps: int) -> None:
    assert BlockGibbs().exact
    assert invariance_p(BlockGibbs(), make_grbm(num_visible), num_steps) > PASS


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str) -> None:
    assert invariance_p(mutant(BlockGibbs, *MUTANTS[name], replace=replace)(), make_grbm(2), num_steps=2) < FAIL


def test_standard_deviation_in_place_of_variance_is_caught() -> None:
    class Wrong(GRBM):
        def sample_visible(self, h: Tensor) -> Tensor:
            mean, variance = self.visible_given_hidden(h)
            return mean + variance * torch.randn_like(mean)

    wrong = make_grbm(2)
    wrong.__class__ = Wrong
    assert invariance_p(BlockGibbs(), wrong, num_steps=1) < FAIL


@pytest.mark.parametrize("num_visible", [1, 2])
def test_chains_converge_from_one_bad_start(num_visible: int) -> None:
    torch.manual_seed(0)
    grbm = make_grbm(num_visible)
    state = last_state(BlockGibbs(), grbm, torch.full((5000, num_visible), 9.0, dtype=torch.float64), 100)
    assert ExactGRBM(grbm, num_bins=6).p_value(state.x, state.hidden) > PASS


def test_one_step_has_the_conditional_moments() -> None:
    """Given h, v is N(W h + mu, sigma^2); given v, h_j is Bernoulli."""
    torch.manual_seed(0)
    grbm, n = make_grbm(2), 100_000
    x = torch.tensor([[0.7, -1.2]], dtype=torch.float64).expand(n, 2)
    drawn = BlockGibbs().init(grbm, x)
    old = BlockGibbs().init(grbm, x, known=Drawn(drawn.hidden))
    new, _ = BlockGibbs().step(grbm, old)
    assert old.hidden is not None and new.hidden is not None
    with torch.no_grad():
        p = torch.sigmoid(x[0] / grbm.log_var.exp() @ grbm.W + grbm.b)
        residual = (new.x - old.hidden @ grbm.W.T - grbm.mu) / grbm.log_var.exp().sqrt()
    assert ((old.hidden.mean(0) - p) * (n / (p * (1 - p))).sqrt()).abs().max() < 5
    assert (residual.mean(0) * n**0.5).abs().max() < 5
    assert ((residual.square().mean(0) - 1) * (n / 2) ** 0.5).abs().max() < 5
    assert (residual.T @ (old.hidden - p) / (p * (1 - p)).sqrt()).abs().max() < 5 * n**0.5


def stepped(rbm: RBM, state: State, seed: int) -> Tensor:
    torch.manual_seed(seed)
    x: Tensor = BlockGibbs().step(rbm, state)[0].x
    return x


def wild_rbm() -> RBM:
    torch.manual_seed(0)
    rbm = RBM(6, 4)
    torch.nn.init.normal_(rbm.W, std=2.0)
    return rbm


@pytest.mark.parametrize("later", [False, True], ids=["from init", "from a step"])
def test_a_step_depends_on_the_state_and_the_generator_alone(later: bool) -> None:
    """Neither an earlier step from the same state nor a look at its hidden units changes it."""
    rbm = wild_rbm()
    state = BlockGibbs().init(rbm, rbm.domain.random(50))
    state = BlockGibbs().step(rbm, state)[0] if later else state
    first = stepped(rbm, state, 1)
    assert torch.equal(stepped(rbm, state, 1), first) and not torch.equal(stepped(rbm, state, 2), first)
    seen = state.hidden
    assert torch.equal(state.hidden, seen)
    assert torch.equal(stepped(rbm, state, 1), first)


def test_steps_from_one_state_have_hidden_units_of_their_own() -> None:
    """The mean of x after one step is that of p(x' | x), by enumeration of h, from many steps of one state."""
    rbm, n = wild_rbm(), 4000
    state = BlockGibbs().init(rbm, rbm.domain.random(1))
    torch.manual_seed(1)
    with torch.no_grad():
        mean = torch.cat([BlockGibbs().step(rbm, state)[0].x for _ in range(n)]).mean(0)
        p = rbm.hidden_given_visible(state.x).sigmoid()
        h = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 4)
        expected = (p * h + (1 - p) * (1 - h)).prod(1) @ rbm.visible_given_hidden(h).sigmoid()
    assert ((mean - expected).abs() < 5 * (expected * (1 - expected) / n).sqrt()).all()


def test_steps_go_on_from_hidden_units_that_are_given() -> None:
    rbm, x = wild_rbm(), torch.zeros(2000, 6)
    state = BlockGibbs().init(rbm, x, known=Drawn(torch.tensor([1.0, 0.0, 0.0, 1.0]).expand(2000, -1)))
    with torch.no_grad():
        expected = rbm.visible_given_hidden(state.hidden[:1]).sigmoid()[0]
    assert ((stepped(rbm, state, 1).mean(0) - expected).abs() < 5 * (expected * (1 - expected) / 2000).sqrt()).all()
