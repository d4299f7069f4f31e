"""The replay buffer: which chains are drawn, where they are written back, and which states it may hold."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest
import pytorch_lightning as pl
import torch
from helpers_memory import peak_of_tensors
from helpers_trainer import quiet_trainer

from ebmlab.callbacks import RunState
from ebmlab.datamodules.tensor_loader import TensorLoader
from ebmlab.domains import Binary, Domain, Ordinal, Real, Spin
from ebmlab.energies import RBM, Energy, Ising
from ebmlab.errors import UserError
from ebmlab.io.packed_bits import unpacked
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import BlockGibbs, Gibbs

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no"),
]


class On(Energy):
    """An energy of which only the domain is used."""

    def __init__(self, domain: Domain) -> None:
        super().__init__()
        self.domain = domain


@pytest.mark.parametrize(
    ("domain", "dtype"),
    [(Binary(5), torch.int8), (Spin(5), torch.int8), (Ordinal(5, 451), torch.int32), (Real(5), torch.float32)],
    ids=str,
)
def test_zero_steps_leave_it_unchanged(domain: Domain, dtype: torch.dtype) -> None:
    """States that have not moved return to their slots, bit for bit."""
    torch.manual_seed(0)
    buffer, x = ReplayBuffer(16), domain.random(6)
    buffer.put_back(buffer.draw(On(domain), len(x), x))
    assert buffer.slots is not None and buffer.slots.dtype == dtype
    before = buffer.slots.clone()
    for _ in range(50):
        start = buffer.draw(On(domain), len(x), x)
        assert start.dtype == x.dtype
        buffer.put_back(start)
    assert torch.equal(buffer.slots, before)


def test_every_slot_is_visited_and_ends_go_where_the_chains_came_from() -> None:
    torch.manual_seed(0)
    domain, buffer = Real(1), ReplayBuffer(12)
    buffer.slots = torch.arange(12.0).view(12, 1)
    seen: set[int] = set()
    for _ in range(40):
        x = buffer.draw(On(domain), 4, torch.zeros(4, 1))
        numbers = (x % 100).flatten().int().tolist()
        assert len(set(numbers)) == 4, "distinct slots"
        seen |= set(numbers)
        buffer.put_back(x + 100)
    assert seen == set(range(12))
    assert torch.equal(buffer.slots.flatten() % 100, torch.arange(12.0))
    assert buffer.slots.sum() == torch.arange(12.0).sum() + 100 * 40 * 4


def test_reinitialised_chains_are_as_many_as_asked_for() -> None:
    torch.manual_seed(0)
    domain, data = Binary(3), torch.ones(4000, 3)
    for rate in (0.0, 0.05, 1.0):
        buffer = ReplayBuffer(4000, reinitialize=rate, init="data")
        buffer.slots = torch.zeros(4000, 3, dtype=torch.int8)
        share = buffer.draw(On(domain), len(data), data).mean()
        assert abs(float(share) - rate) <= 4 * (rate * (1 - rate) / 4000) ** 0.5
    noise = ReplayBuffer(4000).draw(On(domain), len(data), data)
    assert abs(float(noise.mean()) - 0.5) < 4 * 0.5 / 12_000**0.5


@pytest.mark.slow
def test_persistent_chains_learn_couplings() -> None:
    """PCD on 9 spins with exact data redraws 3 spins per step, too few for chains that start from noise."""
    torch.manual_seed(0)
    true = Ising.lattice(3, 0.3, field=0.2)
    everything = true.domain.enumerate()
    data = everything[(-true(everything).double()).softmax(0).multinomial(20_000, replacement=True)]
    learner = ContrastiveDivergence(Ising.learnable(9), Gibbs(block_size=3), start=ReplayBuffer(1000), num_steps=3)
    learner.log_dict = learner.log = lambda *_, **__: None  # type: ignore[method-assign, assignment]
    optimizer = torch.optim.Adam(learner.parameters(), lr=0.02)
    for k in range(300):
        optimizer.param_groups[0]["lr"] = 0.02 if k < 200 else 0.004
        optimizer.zero_grad()
        learner.training_step(data[torch.randint(len(data), (1000,))], k).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    energy = learner.energy
    assert isinstance(energy, Ising)
    assert (energy.coupling - true.coupling).square().mean().sqrt() < 0.04


class Deal(pl.Callback):
    """Records the buffer's slots when training continues."""

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: object) -> None:
        chains = pl_module.start
        assert isinstance(chains, ReplayBuffer)
        if not hasattr(self, "slots"):
            self.slots = None if chains.slots is None else chains.slots.clone()


def fit(folder: Path, epochs: int, **settings: object) -> tuple[pl.Trainer, ContrastiveDivergence, Deal]:
    torch.manual_seed(0)
    learner = ContrastiveDivergence(RBM(6, 4), BlockGibbs(), start=ReplayBuffer(20), num_steps=2)
    deal = Deal()
    trainer = quiet_trainer(folder, max_epochs=epochs, callbacks=[RunState(), deal])
    data = torch.randint(2, (40, 6), generator=torch.Generator().manual_seed(1)).float()
    trainer.fit(learner, TensorLoader(data, 10), **settings)  # type: ignore[arg-type]
    return trainer, learner, deal


@pytest.mark.parametrize("version", ["packed", "of before"])
def test_a_resumed_run_keeps_its_buffer(version: str, tmp_path: Path) -> None:
    _, whole, _ = fit(tmp_path, 4)
    trainer, half, _ = fit(tmp_path / "half", 2)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    content = torch.load(tmp_path / "half.ckpt", weights_only=True)
    assert content["replay_buffer"]["bits"].nbytes == 15  # 20 slots of 6 bits
    states = unpacked(content["replay_buffer"])
    assert torch.equal(states, half.start.slots)  # type: ignore[attr-defined]
    if version == "of before":  # a byte for each bit
        torch.save(content | {"replay_buffer": states}, tmp_path / "half.ckpt")
    _, resumed, deal = fit(tmp_path / "resumed", 4, ckpt_path=str(tmp_path / "half.ckpt"))
    assert torch.equal(deal.slots, half.start.slots)  # type: ignore[attr-defined, arg-type]
    assert torch.equal(resumed.start.slots, whole.start.slots)  # type: ignore[attr-defined]
    for a, b in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(a, b)


def test_wrong_use() -> None:
    with pytest.raises(UserError, match=r"size is 5, 5 slots on each rank, but a step runs 8 chains: make it larger"):
        ReplayBuffer(5).draw(On(Binary(3)), 8, torch.zeros(8, 3))
    for options, message in (
        ({"size": 0}, "size is 0"),
        ({"reinitialize": 1.5}, "reinitialize is 1.5"),
        ({"init": "ones"}, 'init is "ones"'),
    ):
        with pytest.raises(UserError, match=message):
            ReplayBuffer(**options)  # type: ignore[arg-type]


def test_initial_mean_draws_bits_with_the_datas_means() -> None:
    torch.manual_seed(0)
    buffer, mean = ReplayBuffer(20_000, init="mean"), torch.tensor([0.0, 0.2, 0.5, 1.0])
    with pytest.raises(UserError, match="DataMean"):
        buffer.draw(On(Binary(4)), 3, torch.ones(3, 4))
    buffer.mean = mean
    buffer.draw(On(Binary(4)), 3, torch.ones(3, 4))
    error = (buffer.slots.float().mean(0) - mean).abs()
    assert (error <= 4 * (mean * (1 - mean) / 20_000).sqrt()).all()
    with pytest.raises(UserError, match="draws bits"):
        ReplayBuffer(5, init="mean").check(Spin(4), 3)
    with pytest.raises(UserError, match="size is 5, 5 slots on each rank, but a step runs 6 chains"):
        ReplayBuffer(5).check(Spin(4), 6)


@pytest.mark.parametrize("init", ["noise", "mean"])
def test_filling_a_large_buffer_takes_no_more_than_twice_its_memory(
    init: Literal["noise", "mean"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """States are drawn in parts, each with numbers of its own, and become bytes at once."""
    monkeypatch.setattr("ebmlab.learners.replay_buffer.DRAWN", 2**15)
    torch.manual_seed(0)
    buffer, energy, data = ReplayBuffer(20_000, init=init), On(Binary(100)), torch.ones(3, 100)
    buffer.mean = torch.full((100,), 0.5)

    def filled() -> None:
        buffer.slots = None
        buffer.draw(energy, 3, data)

    assert peak_of_tensors(filled) < 2 * 20_000 * 100
    assert buffer.slots is not None and buffer.slots.dtype == torch.int8
    each = buffer.slots.float().mean(0)
    assert ((each - 0.5).abs() < 4.5 * 0.5 / 20_000**0.5).all()
    assert len(buffer.slots.unique(dim=0)) == 20_000  # of 2^100 states: no part is a copy of another


def _trainer(rank: int, world: int) -> pl.Trainer:
    """A trainer before its first fit that takes itself for one rank of some."""

    class Rank(pl.Trainer):
        global_rank, world_size = rank, world

    return Rank(barebones=True, accelerator="cpu")


def test_another_size_on_resuming_is_warned_of() -> None:
    learner = SimpleNamespace(start=ReplayBuffer(30), device=torch.device("cpu"))
    trainer, callback = _trainer(0, 1), RunState()
    with pytest.warns(UserWarning, match="written without it"):
        callback.on_load_checkpoint(trainer, learner, {"replay_buffer": torch.zeros(12, 1)})  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match=r"has 12 slots .* now 30,"):
        callback.on_train_start(trainer, learner)  # type: ignore[arg-type]


def test_a_buffer_survives_two_ranks_one_rank_two_ranks() -> None:
    """After each change of the number of ranks every state is in exactly one slot."""
    states = torch.arange(12.0).view(12, 1)
    checkpoint = {"replay_buffer": states, "run_state": None}
    for world in (2, 1, 2):
        parts = []
        for rank in range(world):
            buffer, callback = ReplayBuffer(12), RunState()
            learner = SimpleNamespace(start=buffer, device=torch.device("cpu"))
            trainer = _trainer(rank, world)
            with pytest.warns(UserWarning, match="written without it"):
                callback.on_load_checkpoint(trainer, learner, checkpoint)  # type: ignore[arg-type]
            callback.on_train_start(trainer, learner)  # type: ignore[arg-type]
            parts.append(buffer.slots)
        assert [len(part) for part in parts] == [12 // world] * world
        checkpoint["replay_buffer"] = torch.cat(parts)  # as `RunState` gathers the ranks
        assert torch.equal(checkpoint["replay_buffer"], states)
