"""Block Gibbs leaves the joint law of (v, h) invariant; wrong conditionals are caught."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers_grbm import FAIL, PASS, ExactGRBM, invariance_p, last_state, make_grbm
from helpers_mutants import mutant
from torch import Tensor

from ebmlab.energies import GRBM
from ebmlab.samplers import BlockGibbs

MUTANTS = {
    "hidden units from the wrong logits": ("self.units.sample(self.logits)", "self.units.sample(-self.logits)"),
    "mean field in place of draws": ("self.units.sample(self.logits)", "(self.logits > 0).to(self.logits)"),
    "h given the v before": (
        "start(energy, cast(Bipartite, energy).sample_visible(state.hidden), settings)",
        "replace(start(energy, state.x, settings), x=energy.sample_visible(state.hidden))",
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
    old = BlockGibbs().init(grbm, x)
    new, _ = BlockGibbs().step(grbm, old)
    assert old.hidden is not None and new.hidden is not None
    with torch.no_grad():
        p = torch.sigmoid(x[0] / grbm.log_var.exp() @ grbm.W + grbm.b)
        residual = (new.x - old.hidden @ grbm.W.T - grbm.mu) / grbm.log_var.exp().sqrt()
    assert ((old.hidden.mean(0) - p) * (n / (p * (1 - p))).sqrt()).abs().max() < 5
    assert (residual.mean(0) * n**0.5).abs().max() < 5
    assert ((residual.square().mean(0) - 1) * (n / 2) ** 0.5).abs().max() < 5
    assert (residual.T @ (old.hidden - p) / (p * (1 - p)).sqrt()).abs().max() < 5 * n**0.5
