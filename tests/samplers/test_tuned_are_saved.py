"""A sampler that has been tuned is saved as it is, whatever it was made with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers_trainer import quiet_trainer
from torch import nn
from torch.utils.data import DataLoader

import ebmlab
from ebmlab.energies import Ising, RealMLP
from ebmlab.io.rebuilding import describe, rebuild
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import ACS, DMALA, HMC, AnyScale, Sampler, Tempered
from ebmlab.samplers.tuners import Preconditioner, SwapRate, TargetAcceptance, WarmUp


def ising() -> Ising:
    torch.manual_seed(0)
    energy = Ising.learnable(6)
    nn.init.normal_(energy.upper, std=0.3)
    return energy.requires_grad_(False)


def target_acceptance() -> Sampler:
    return TargetAcceptance(0.57).tune(DMALA(0.05), ising(), ising().random(50), num_steps=30)[0]


def preconditioned() -> Sampler:
    return Preconditioner().tune(DMALA(0.3), ising(), ising().random(50), num_steps=30)[0]


def ladder() -> Sampler:
    return SwapRate().tune(Tempered(DMALA(0.3), num_temperatures=4), ising(), ising().random(50), num_steps=30)[0]


def warmed_up() -> Sampler:
    torch.manual_seed(0)
    energy = RealMLP(3)
    return WarmUp(dense=True).tune(HMC(0.1, 3), energy, energy.random(20), num_steps=40)[0]


def with_edges() -> Sampler:
    sampler = AnyScale("edges", step_size=2.0)
    sampler.set_curvature(Ising.lattice(3, 0.2).edges())
    return sampler


def scheduled() -> Sampler:
    sampler = ACS(2.0, 0.5, cycle_length=4)
    sampler.step_sizes.mul_(3)
    return sampler


@pytest.mark.parametrize("tuned", [target_acceptance, preconditioned, ladder, warmed_up, with_edges, scheduled])
def test_what_is_made_again_has_the_same_numbers(tuned: Callable[[], Sampler]) -> None:
    sampler = tuned()
    again = rebuild(describe(sampler))
    assert type(again) is type(sampler)
    assert [name for name, _ in again.named_buffers()] == [name for name, _ in sampler.named_buffers()]
    for (name, now), (_, then) in zip(again.named_buffers(), sampler.named_buffers(), strict=True):
        torch.testing.assert_close(now, then, msg=name)


@pytest.mark.filterwarnings("ignore:.*val_dataloader.*")
@pytest.mark.filterwarnings("ignore:.*does not have many workers")
def test_a_checkpoint_has_the_tuned_sampler(tmp_path: Path) -> None:
    sampler = target_acceptance()
    learner = ContrastiveDivergence(ising().requires_grad_(), sampler)
    trainer = quiet_trainer(tmp_path, max_steps=1, limit_val_batches=0)
    trainer.fit(learner, DataLoader(ising().random(64), 32))  # type: ignore[arg-type]
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    for loaded in (
        ContrastiveDivergence.load_from_checkpoint(tmp_path / "a.ckpt"),
        ebmlab.load(tmp_path / "a.ckpt").learner,
    ):
        assert float(loaded.sampler.step_size) == float(sampler.step_size) != 0.05  # type: ignore[arg-type]
