"""Tempering in training: replicas keep their laws from one training step to the next, by enumeration."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from helpers_finite import Exact
from helpers_grbm import FAIL, PASS
from helpers_trainer import quiet_trainer
from torch import Tensor, nn

from ebmlab.callbacks import RunState
from ebmlab.datamodules.tensor_loader import TensorLoader
from ebmlab.domains import Binary
from ebmlab.energies import RBM, Energy
from ebmlab.energies.paths.tempering import tempered
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import BlockGibbs, Sampler, Tempered
from ebmlab.testing import chi_square_p

LADDER = (1.0, 0.6, 0.25)
CHAINS = 30_000


def make_rbm() -> RBM:
    torch.manual_seed(0)
    rbm = RBM(4, 3).double()
    for p in rbm.parameters():
        nn.init.normal_(p, std=1.5)
    return rbm


class ColdBuffer(ReplayBuffer):
    """Forgets the hot replicas, which then start at the cold ones in each training step."""

    def put_back(self, x: Tensor) -> None:
        super().put_back(x[:, 0])


class TurnedBuffer(ReplayBuffer):
    """Puts the replicas back in the wrong order."""

    def put_back(self, x: Tensor) -> None:
        super().put_back(x.flip(1))


def make_learner(energy: Energy, sampler: Sampler, buffer: ReplayBuffer) -> ContrastiveDivergence:
    learner = ContrastiveDivergence(energy, sampler, start=buffer, num_steps=2)
    learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
    return learner


def smallest_p(buffer: ReplayBuffer) -> float:
    """The smallest p-value, over neighbouring temperatures, that replicas are independent exact draws.

    They start so, and take part in three training steps whose gradient is not used.
    """
    rbm = make_rbm()
    laws = [Exact(tempered(rbm, beta)) for beta in LADDER]
    buffer.slots = torch.stack([law.sample(CHAINS) for law in laws], 1).to(torch.int8)
    learner = make_learner(rbm, Tempered(BlockGibbs(), LADDER), buffer)
    for _ in range(3):
        learner.training_step(Binary(4).random(CHAINS).double(), 0)
    smallest = 1.0
    for k, (cold, hot) in enumerate(itertools.pairwise(laws)):
        cells = cold.number(buffer.slots[:, k]) * 16 + hot.number(buffer.slots[:, k + 1])
        pair = torch.outer(cold.probabilities, hot.probabilities).flatten()
        smallest = min(smallest, chi_square_p(torch.bincount(cells, minlength=256), pair))
    return smallest


def test_replicas_keep_their_laws_from_step_to_step() -> None:
    assert smallest_p(ReplayBuffer(CHAINS)) > PASS
    assert smallest_p(TurnedBuffer(CHAINS)) < FAIL


def share_of_ones(sampler: Sampler, buffer: ReplayBuffer) -> float:
    """In chains that start at all ones, after 60 training steps whose gradient is not used.

    The model has two equally likely modes, all units on and all units off.
    """
    torch.manual_seed(0)
    rbm = RBM(12, 12)
    with torch.no_grad():
        rbm.W.fill_(0.8)
        rbm.b_v.copy_(-rbm.W.sum(1) / 2)
        rbm.b_h.copy_(-rbm.W.sum(0) / 2)
    learner = make_learner(rbm, sampler, buffer)
    for _ in range(60):
        learner.training_step(torch.ones(200, 12), 0)
    cold = buffer.cold(rbm.domain)
    assert cold is not None
    return float(cold.float().mean())


@pytest.mark.slow
def test_kept_replicas_cross_a_barrier() -> None:
    assert share_of_ones(BlockGibbs(), ReplayBuffer(200, init="data")) > 0.95
    sampler = Tempered(BlockGibbs(), num_temperatures=5)
    assert share_of_ones(sampler, ColdBuffer(200, init="data")) > 0.95
    assert 0.35 < share_of_ones(sampler, ReplayBuffer(200, init="data")) < 0.65


def test_negatives_are_the_cold_replicas() -> None:
    """The gradient in b_v is the difference of the means of data and cold replicas."""
    rbm, buffer = make_rbm(), ReplayBuffer(50, init="data")
    learner = make_learner(rbm, Tempered(BlockGibbs(), LADDER), buffer)
    data = Binary(4).random(50).double()
    learner.training_step(data, 0).backward()
    assert buffer.slots is not None and buffer.slots.shape == (50, 3, 4)
    assert rbm.b_v.grad is not None
    torch.testing.assert_close(rbm.b_v.grad, buffer.slots[:, 0].double().mean(0) - data.mean(0))
    assert buffer.slots[:, 0].ne(buffer.slots[:, 2]).any()


def test_new_chains_start_all_replicas_at_one_state() -> None:
    rbm, buffer = make_rbm(), ReplayBuffer(50, reinitialize=1.0)
    buffer.slots = torch.zeros(50, 3, 4)
    x = buffer.draw(rbm, 20, torch.ones(20, 4))
    assert x.shape == (20, 3, 4) and x.any() and torch.equal(x[:, 0], x[:, 2])


def fit(folder: Path, sampler: Sampler, epochs: int, ckpt_path: Path | None = None) -> ContrastiveDivergence:
    torch.manual_seed(0)
    learner = ContrastiveDivergence(RBM(6, 4), sampler, start=ReplayBuffer(20), num_steps=2)
    trainer = quiet_trainer(folder, max_epochs=epochs, callbacks=[RunState()])
    data = torch.randint(2, (40, 6), generator=torch.Generator().manual_seed(1)).float()
    trainer.fit(learner, TensorLoader(data, 10), ckpt_path=ckpt_path, weights_only=True)
    trainer.save_checkpoint(folder / "last.ckpt")
    return learner


@pytest.mark.filterwarnings("ignore")
def test_replicas_are_resumed(tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", Tempered(BlockGibbs(), LADDER), 4)
    fit(tmp_path / "half", Tempered(BlockGibbs(), LADDER), 2)
    half = tmp_path / "half" / "last.ckpt"
    resumed = fit(tmp_path / "resumed", Tempered(BlockGibbs(), LADDER), 4, half)
    assert torch.equal(whole.energy.W, resumed.energy.W)
    assert torch.equal(whole.start.slots, resumed.start.slots)
    plain = fit(tmp_path / "plain", BlockGibbs(), 4, half)
    assert plain.start.slots.shape == (20, 6)
    with pytest.raises(UserError, match="the chains have 3 replicas, but there are 2 betas"):
        fit(tmp_path / "shorter", Tempered(BlockGibbs(), LADDER[:2]), 4, half)
