"""AIS, data means and contrastive gradients on two communicating processes, without a trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_ranks import on_two_ranks
from torch import Tensor, distributed

from ebmlab.energies import RBM
from ebmlab.evaluation import ais, exact_log_z
from ebmlab.learners import AdaptiveDMALA, ContrastiveDivergence, FromData, PersistentACS, ReplayBuffer
from ebmlab.samplers import BlockGibbs

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Attribute '.*' is an instance of `nn.Module`")]


def make_rbm() -> RBM:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        rbm = RBM(8, 5)
        for p in rbm.parameters():
            p.normal_(0, 0.8)
    return rbm


def anneal(rank: int) -> dict[str, Any]:
    result = ais(make_rbm(), BlockGibbs(), num_chains=4001, num_temperatures=10)
    assert result.path is not None
    return {"weights": result.log_weights, "samples": result.samples, "path": result.path, "ess": result.ess}


def test_ais_over_two_ranks_is_ais(tmp_path: Path) -> None:
    """All ranks get the weights of all 4,001 chains; the weights are all different and unbiased."""
    first, second = on_two_ranks(anneal, tmp_path)
    assert torch.equal(first["weights"], second["weights"]) and torch.equal(first["path"], second["path"])
    assert float(first["path"][-1, 1]) == pytest.approx(first["ess"])
    assert len(first["samples"]) == 2001 and len(second["samples"]) == 2000
    weights = (first["weights"].flatten() - exact_log_z(make_rbm())).exp()
    assert len(weights) == 4001 and len(weights.unique()) > 3900
    for part in (weights, weights[:2001], weights[2001:]):
        assert abs(float((part.mean() - 1) / (part.std() / len(part) ** 0.5))) < 4


def resampled(rank: int) -> dict[str, Tensor]:
    result = ais(
        make_rbm(),
        BlockGibbs(),
        num_chains=9,
        num_temperatures=6,
        schedule="adaptive",
        num_replicates=301,
        resample=0.9,
    )
    assert result.families is not None and result.ladder is not None
    betas = torch.tensor(result.ladder.betas)
    return {"weights": result.log_weights, "families": result.families, "betas": betas}


def test_resampled_ais_over_two_ranks(tmp_path: Path) -> None:
    """Both ranks find the same temperatures. No family has chains of two replicates; each replicate's Z is unbiased."""
    first, second = on_two_ranks(resampled, tmp_path)
    assert all(torch.equal(first[name], second[name]) for name in first)
    families = first["families"]
    assert torch.equal(families // 9, torch.arange(301).unsqueeze(1).expand(-1, 9))
    assert len(families.unique()) < 301 * 9
    z = (first["weights"] - exact_log_z(make_rbm())).exp().mean(1)
    assert abs(float((z.mean() - 1) / (z.std() / len(z) ** 0.5))) < 4


REPEATS = 3000


def gradients(batch_size: int) -> Tensor:
    """Gradients in W of repeated training steps with one step of as many chains as data, `(REPEATS, 40)`."""
    rbm = make_rbm()
    learner = ContrastiveDivergence(rbm, BlockGibbs(), start=FromData())
    learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
    rows = []
    for _ in range(REPEATS):
        x = (torch.rand(batch_size, 8) < torch.linspace(0.2, 0.8, 8)).float()
        rows.append(torch.autograd.grad(learner.training_step(x, 0), rbm.W)[0].flatten())
    return torch.stack(rows)


def half_batches(rank: int) -> Tensor:
    """Gradients of half batches, averaged over both ranks as DDP does."""
    total = gradients(4)
    distributed.all_reduce(total)
    return total / 2


def test_two_half_batches_have_the_gradient_of_one_in_expectation(tmp_path: Path) -> None:
    two = on_two_ranks(half_batches, tmp_path)[0]
    torch.manual_seed(5)
    one = gradients(8)
    z = (two.mean(0) - one.mean(0)) / ((two.var(0) + one.var(0)) / REPEATS).sqrt()
    assert z.abs().max() < 4.2
    ratio = two.var(0) / one.var(0)  # it is 2 if both ranks draw the same chains
    assert ((ratio > 0.8) & (ratio < 1.25)).all()


def slots(rank: int) -> Tensor:
    buffer = ReplayBuffer(2000)
    buffer.draw(make_rbm(), 10, torch.zeros(10, 8))
    assert buffer.slots is not None
    return buffer.slots


def test_ranks_share_a_buffers_slots_and_fill_them_differently(tmp_path: Path) -> None:
    first, second = on_two_ranks(slots, tmp_path)
    assert len(first) == len(second) == 1000
    assert not torch.equal(first, second)


def filled(rank: int) -> Tensor:
    torch.manual_seed(0)  # before training all ranks have the seed of the run
    buffer = ReplayBuffer(2000)
    buffer.fill(make_rbm().random, make_rbm().domain)
    assert buffer.slots is not None
    return buffer.slots


def test_slots_that_are_filled_before_training_differ_from_rank_to_rank(tmp_path: Path) -> None:
    torch.manual_seed(0)
    assert torch.equal(torch.cat(on_two_ranks(filled, tmp_path)), make_rbm().random(2000).to(torch.int8))


def adapted(rank: int) -> list[float]:
    """Step sizes after each iteration, in a module that DDP does not wrap, as while gradients accumulate."""
    samplers: list[Any] = [AdaptiveDMALA(0.5), PersistentACS(tuning_steps=20, cycle_length=3, tune_every=1)]
    found = []
    for sampler in samplers:
        learner = ContrastiveDivergence(make_rbm(), sampler, start=FromData(), num_steps=4)
        for iteration in range(5):
            x = torch.randint(2, (16, 8)).float()
            chosen, x, num_steps = sampler.at_iteration(learner.energy, x, iteration, 4)
            chosen.sample(learner.energy, x, num_steps)
            found.append(float(sampler.step_size))
    return found


def test_step_sizes_that_adapt_are_the_same_on_all_ranks(tmp_path: Path) -> None:
    first, second = on_two_ranks(adapted, tmp_path)
    assert first == second and len(set(first)) > 3
