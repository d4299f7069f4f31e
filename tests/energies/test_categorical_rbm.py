"""The RBM of sequences against sums over hidden units, Bayes' rule and enumeration, and what learners need of it."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from ebmlab.energies import CategoricalRBM, Clamped, tempered
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, exact_log_z, exact_mean, exact_samples
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import BlockGibbs, Gibbs
from ebmlab.testing import assert_gradient, assert_invariant

TIGHT = {"rtol": 1e-10, "atol": 1e-10}


def machine(num_hidden: int = 2, num_sites: int = 3) -> CategoricalRBM:
    torch.manual_seed(0)
    energy = CategoricalRBM(num_sites, 3, num_hidden=num_hidden).double()
    for p in energy.parameters():
        torch.nn.init.normal_(p)
    return energy


def hidden(num_hidden: int) -> Tensor:
    return torch.tensor(list(itertools.product([0.0, 1.0], repeat=num_hidden)), dtype=torch.float64)


def table(energy: CategoricalRBM) -> Tensor:
    """E(v, h) of all v and h, from the parameters alone."""
    v, rows = energy.domain.enumerate().argmax(-1), []
    for state in v.tolist():
        weights = sum(energy.W[i, a] for i, a in enumerate(state)) + energy.b_h
        bias = sum(energy.b_v[i, a] for i, a in enumerate(state))
        rows.append(-bias - hidden(energy.num_hidden) @ weights)
    return torch.stack(rows).detach()


def test_energies_written_down() -> None:
    energy = CategoricalRBM(2, 3, num_hidden=2)
    with torch.no_grad():
        energy.W.copy_(torch.arange(12.0).view(2, 3, 2) / 10)
        energy.b_v.copy_(torch.arange(6.0).view(2, 3) / 10)
        energy.b_h.copy_(torch.tensor([0.5, -0.5]))
    v, h = energy.domain.from_index(torch.tensor([[1, 2]])), torch.tensor([[1, 0]])
    assert energy.joint_energy(v, h).item() == pytest.approx(-(0.2 + 1.0 + 0.1 + 0.5 + 0.5))
    expected = -0.6 - sum(torch.nn.functional.softplus(torch.tensor(t)).item() for t in (1.7, 0.9))
    assert energy(v).item() == pytest.approx(expected, abs=1e-6)


def test_the_joint_energy_gives_marginals_and_conditionals() -> None:
    energy, joint = machine(), -table(machine())
    v, h = energy.domain.enumerate().double(), hidden(2)
    for k, state in enumerate(h):
        torch.testing.assert_close(energy.joint_energy(v, state.expand(27, 2)), -joint[:, k], **TIGHT)
    torch.testing.assert_close(energy(v), -joint.logsumexp(1), **TIGHT)
    torch.testing.assert_close(torch.sigmoid(energy.hidden_given_visible(v)), joint.softmax(1) @ h, **TIGHT)
    expected = (joint.softmax(0).T @ v.flatten(1)).view(4, 3, 3)
    torch.testing.assert_close(energy.mean_visible(h), expected, **TIGHT)
    drawn = energy.sample_visible(h[1:2].expand(50_000, -1))
    energy.domain.validate(drawn)
    assert (drawn.mean(0) - expected[1]).abs().max() < 0.012


@pytest.mark.parametrize("num_hidden", [1, 7])
def test_log_z_and_means_by_whichever_sum_is_shorter(num_hidden: int) -> None:
    energy = machine(num_hidden)
    joint = -table(energy)
    assert exact_log_z(energy).item() == pytest.approx(joint.logsumexp((0, 1)).item(), rel=1e-12)
    law = joint.flatten().softmax(0).view_as(joint).sum(1)
    expected = (law @ energy.domain.enumerate().double().flatten(1)).view(3, 3)
    torch.testing.assert_close(exact_mean(energy), expected, **TIGHT)
    assert (exact_samples(energy, 20_000).mean(0) - expected).abs().max() < 0.02


def test_block_gibbs_keeps_the_law_by_its_transition_matrix() -> None:
    assert_invariant(BlockGibbs(), machine())
    assert_invariant(BlockGibbs(), tempered(machine(), 0.5))
    given = machine().domain.from_index(torch.tensor([[2, 0, 1]]))[0]
    assert_invariant(BlockGibbs(), Clamped(machine(), given, mask=torch.tensor([False, True, False])))


@pytest.mark.parametrize("sampler", [BlockGibbs(), Gibbs()])
def test_annealing_finds_log_z(sampler: BlockGibbs | Gibbs) -> None:
    energy = machine(num_hidden=4, num_sites=5)
    found = ais(energy, sampler, num_chains=2000, num_temperatures=100)
    assert found.log_z == pytest.approx(float(exact_log_z(energy)), abs=0.1)


@pytest.mark.parametrize("density", ["marginal", "joint"])
def test_contrastive_divergence_at_equilibrium_follows_the_likelihood(density: str) -> None:
    energy = machine()
    x = energy.domain.random(400).double()
    learner = ContrastiveDivergence(energy, Gibbs(block_size=3), start=FromNoise(), density=density)
    assert_gradient(learner, x)


def test_set_base_gives_the_frequencies_while_there_are_no_weights() -> None:
    energy, mean = CategoricalRBM(2, 3, num_hidden=4), torch.tensor([[0.2, 0.3, 0.5], [0.98, 0.01, 0.01]])
    torch.nn.init.zeros_(energy.W)
    energy.set_base(mean)
    torch.testing.assert_close(exact_mean(energy).float(), mean)
    with pytest.raises(UserError, match="a mean of 5 numbers"):
        energy.set_base(torch.zeros(5))


def test_sizes_are_positive() -> None:
    with pytest.raises(UserError, match="num_values is 0, but must be at least 1"):
        CategoricalRBM(3, 0, num_hidden=2)
