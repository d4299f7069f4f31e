from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from helpers_tier import cases
from helpers_trainer import quiet_trainer
from pytorch_lightning.callbacks import Callback, EMAWeightAveraging, GradientAccumulationScheduler, ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from ebmlab.callbacks import RunState
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import BlockGibbs


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


class Stop(Callback):
    """Fails before the n-th optimizer step, as a power cut would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        if trainer.global_step == self.step:
            raise InterruptedError


def run(setup, squares, callbacks, epochs, ckpt_path=None, **limits):
    learner, trainer = setup([*callbacks, RunState()], max_epochs=epochs, enable_checkpointing=True, **limits)
    trainer.fit(learner, datamodule=squares, ckpt_path=ckpt_path, weights_only=True)
    return learner


@cases("limits", {"epochs": {}, "steps too": {"max_steps": 1000}}, fast=("epochs",))
@pytest.mark.parametrize(
    ("every", "stop", "last_step"),
    [({"every_n_epochs": 1, "save_on_train_epoch_end": True}, 13, 12), ({"every_n_train_steps": 3}, 11, 9)],
    ids=["at the end of an epoch", "amid an epoch"],
)
def test_a_killed_and_resumed_run_ends_where_the_unbroken_one_does(
    setup, tmp_path, squares, every, stop, last_step, limits
):
    """Also with `max_steps`, with which plain Lightning would lose an epoch."""
    whole = run(setup, squares, [], epochs=6, **limits)

    def saving():
        return ModelCheckpoint(tmp_path / "ck", save_top_k=-1, **every)

    with pytest.raises(InterruptedError):
        run(setup, type(squares)(), [Stop(stop), saving()], epochs=6, **limits)
    paths = {torch.load(p, weights_only=True)["global_step"]: p for p in (tmp_path / "ck").iterdir()}
    assert max(paths) == last_step
    torch.manual_seed(12345)
    resumed = run(setup, type(squares)(), [saving()], epochs=6, ckpt_path=paths[last_step], **limits)
    assert resumed.trainer.global_step == whole.trainer.global_step == 24
    assert same(whole, resumed)


def test_without_it_the_runs_differ(setup, tmp_path, squares):
    """Shows that the test above depends on the random numbers that the callback restores."""
    whole = run(setup, squares, [], epochs=2)
    learner, trainer = setup([], max_epochs=1)
    trainer.fit(learner, datamodule=type(squares)())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    learner, trainer = setup([], max_epochs=2)
    trainer.fit(learner, datamodule=type(squares)(), ckpt_path=tmp_path / "a.ckpt", weights_only=True)
    assert not same(whole, learner)


def test_more_ranks_than_the_checkpoint_has(setup, tmp_path, squares, monkeypatch):
    learner, trainer = setup([RunState()], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    checkpoint = torch.load(tmp_path / "a.ckpt", weights_only=True)
    saved = checkpoint["run_state"]["cpu"]
    assert saved.shape == (1, len(torch.get_rng_state()))
    draws = []
    for rank in (0, 1, 2, 1):
        loop = type("Loop", (), {"is_resuming": True})
        fake = type(
            "Fake",
            (),
            {"world_size": 3, "global_rank": rank, "fit_loop": loop, "ckpt_path": None}
            | {"callbacks": [], "lr_scheduler_configs": [], "train_dataloader": None},
        )()
        callback = RunState()
        callback.on_load_checkpoint(fake, learner, checkpoint)
        with pytest.warns(UserWarning, match="of 1 ranks and this run has 3"):
            callback.on_train_start(fake, learner)
        if rank == 0:
            assert torch.equal(torch.get_rng_state(), saved[0])
        draws.append(torch.rand(()).item())
    assert len(set(draws[:3])) == 3
    assert draws[1] == draws[3]


def test_an_older_checkpoint_without_streams_warns(setup, tmp_path, squares):
    learner, trainer = setup([], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    learner, trainer = setup([RunState()], max_epochs=2)
    with pytest.warns(UserWarning, match="new random numbers"):
        trainer.fit(learner, datamodule=squares, ckpt_path=tmp_path / "a.ckpt", weights_only=True)


def test_every_rank_gets_its_own_stream(setup):
    learner, _ = setup([])
    states, draws = [], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        states.append(torch.get_rng_state())
        draws.append(torch.rand(3))
    checkpoint = {"run_state": {"cpu": torch.stack(states)}}
    for rank in (0, 1):
        loop = type("Loop", (), {"is_resuming": True})()
        fake = type(
            "Fake",
            (),
            {"world_size": 2, "global_rank": rank, "fit_loop": loop, "ckpt_path": None}
            | {"callbacks": [], "lr_scheduler_configs": [], "train_dataloader": None},
        )()
        callback = RunState()
        callback.on_load_checkpoint(fake, learner, checkpoint)
        callback.on_train_start(fake, learner)
        assert torch.equal(torch.rand(3), draws[rank])


@cases("average", [False, True], fast=[1])
@pytest.mark.parametrize(
    ("saves", "epochs"),
    [({"every_n_epochs": 2}, 3), ({"every_n_epochs": 10}, 3), ({"every_n_train_steps": 5}, 3)],
    ids=["after the last", "before the first", "amid an epoch"],
)
def test_the_last_checkpoint_is_that_of_the_end(setup, tmp_path, squares, average, saves, epochs):
    """The training after the last n-th epoch was lost, and Lightning's way out lost the weights behind averages."""

    def callbacks():
        last = ModelCheckpoint(tmp_path / "ck", save_last=True, save_on_train_epoch_end=True, **saves)
        return [*([EMAWeightAveraging(decay=0.9)] if average else []), last]

    whole = run(setup, squares, callbacks()[:-1], epochs=5)
    first = run(setup, type(squares)(), callbacks(), epochs=epochs)
    saved = torch.load(tmp_path / "ck" / "last.ckpt", weights_only=True)
    assert saved["global_step"] == first.trainer.global_step == 12
    assert all(torch.equal(saved["state_dict"][name], value) for name, value in first.state_dict().items())
    resumed = run(setup, type(squares)(), callbacks(), epochs=5, ckpt_path=tmp_path / "ck" / "last.ckpt")
    assert same(whole, resumed)


def test_gradients_accumulate_as_before_after_a_stop_amid_an_epoch(setup, tmp_path, squares):
    """Lightning sets a changing accumulation when an epoch begins, so that the rest of this one took more steps."""

    def changing():
        return GradientAccumulationScheduler({0: 1, 1: 2})

    whole = run(setup, squares, [changing()], epochs=3)

    def saving():
        return ModelCheckpoint(tmp_path / "ck", "{step}", every_n_train_steps=1, save_top_k=-1)

    run(setup, type(squares)(), [changing(), saving()], epochs=3)
    resumed = run(setup, type(squares)(), [changing(), saving()], epochs=3, ckpt_path=tmp_path / "ck" / "step=5.ckpt")
    assert resumed.trainer.global_step == whole.trainer.global_step == 8
    assert same(whole, resumed)


@pytest.mark.parametrize("batches", [3, 2])
def test_a_checkpoint_amid_an_accumulation_is_warned_of(setup, tmp_path, squares, batches):
    """The gradients of the batches before it are lost, so that the resumed run differs."""
    saving = ModelCheckpoint(tmp_path / "ck", save_on_train_epoch_end=False)
    limits = {"limit_val_batches": 1, "val_check_interval": batches, "accumulate_grad_batches": 2}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run(setup, squares, [saving], epochs=2, **limits)
    told = [str(warning.message) for warning in said if "amid the 2 whose gradients accumulate" in str(warning.message)]
    assert bool(told) == (batches == 3)


BITS = torch.tensor([[[1, 0, 1], [0, 0, 1]]]).repeat(5, 1, 1)  # five slots of two replicas


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
@pytest.mark.parametrize("slots", [BITS, BITS[:, 0]], ids=["replicas", "states"])
def test_slots_of_the_buffer_are_states_or_replicas_of_the_domain(slots, dtype):
    """In any numeric type; one other number anywhere is refused before training."""
    learner = ContrastiveDivergence(RBM(3, 2), BlockGibbs(), start=ReplayBuffer(5))
    slots = slots.to(dtype, copy=True)
    checkpoint = {"run_state": {"cpu": torch.get_rng_state().unsqueeze(0)}, "replay_buffer": slots}
    RunState().on_load_checkpoint(None, learner, checkpoint)
    slots.view(-1)[-1] = 2
    with pytest.raises(
        UserError, match=r"the checkpoint's replay buffer is damaged: .* must be 0 or 1; take an earlier"
    ):
        RunState().on_load_checkpoint(None, learner, checkpoint)
    with pytest.raises(UserError, match="the checkpoint's replay buffer is damaged"):
        RunState().on_load_checkpoint(None, learner, checkpoint | {"replay_buffer": slots[..., :2]})
    RunState().on_load_checkpoint(None, pl.LightningModule(), checkpoint)  # whose domain nobody knows


@pytest.mark.parametrize("wrong", [[0.0, 2.0], [0.0, float("nan")], [0.0, 1.0, 1.0]], ids=str)
def test_hidden_units_of_the_buffer_are_units_of_the_energy(wrong: list[float]) -> None:
    learner = ContrastiveDivergence(RBM(3, 2), BlockGibbs(), start=ReplayBuffer(5))
    checkpoint = {"run_state": {"cpu": torch.get_rng_state().unsqueeze(0)}, "replay_buffer": BITS[:, 0]}
    checkpoint["replay_buffer_hidden"] = torch.zeros(len(BITS), 2)
    RunState().on_load_checkpoint(None, learner, checkpoint)
    checkpoint["replay_buffer_hidden"] = torch.zeros(len(BITS) - 1, 2)
    with pytest.raises(UserError, match="the checkpoint's replay buffer is damaged: its hidden units are 1 too few"):
        RunState().on_load_checkpoint(None, learner, checkpoint)
    checkpoint["replay_buffer_hidden"] = torch.tensor([wrong]).expand(len(BITS), -1)
    with pytest.raises(UserError, match=r"the checkpoint's replay buffer is damaged: .*; take an earlier"):
        RunState().on_load_checkpoint(None, learner, checkpoint)


@pytest.mark.filterwarnings("ignore:You defined a `validation_step`")
@pytest.mark.parametrize("kept", [60, 40])
def test_data_of_another_number_of_samples_are_warned_of(kept: int, tmp_path: Path) -> None:
    rows = (torch.rand(60, 16, generator=torch.Generator().manual_seed(5)) < 0.5).float()
    learner = ContrastiveDivergence(RBM(16, 4), BlockGibbs(), start=ReplayBuffer(40))
    trainer = quiet_trainer(tmp_path, max_epochs=1, limit_val_batches=0, callbacks=[RunState()])
    trainer.fit(learner, DataLoader(TensorDataset(rows), 10))
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    trainer = quiet_trainer(tmp_path, max_epochs=2, limit_val_batches=0, callbacks=[RunState()])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        loader = DataLoader(TensorDataset(rows[:kept]), 10)
        trainer.fit(learner, loader, ckpt_path=tmp_path / "a.ckpt", weights_only=True)
    told = [str(each.message) for each in seen if "samples to train on" in str(each.message)]
    assert [text.split(":")[0] for text in told] == [
        "there are 40 samples to train on, and when the checkpoint was written there were 60"
    ] * (kept == 40)
