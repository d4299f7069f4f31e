from __future__ import annotations

import math
import re
from functools import partial

import pytest
import torch
from pytorch_lightning.callbacks import Callback, EMAWeightAveraging, ModelCheckpoint

from ebmlab.callbacks import DivergenceGuard, RunState, SamplerMonitor
from ebmlab.callbacks.checkpoint_rollback import RolledBack
from ebmlab.callbacks.divergence_guard import MAX_LOST
from ebmlab.datamodules import Digits
from ebmlab.energies import GRBM, ResNet
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, FromNoise, ReplayBuffer
from ebmlab.samplers import DMALA, Langevin


class Spoil(Callback):
    """Puts NaN before a step into what `what` names."""

    def __init__(self, step: int, what: str) -> None:
        self.step, self.what = step, what

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self.step:
            if self.what == "data":
                batch[[1, 4], 0, 2, 2] = math.nan
            else:
                pl_module.energy.get_parameter(self.what).data[0] = math.inf


def test_bad_data_are_counted_and_the_checkpoint_named(setup, squares, tmp_path):
    checkpoint = ModelCheckpoint(tmp_path / "ck", filename="{step}", save_on_train_epoch_end=True)
    learner, trainer = setup([Spoil(5, "data"), DivergenceGuard(), checkpoint], max_epochs=3, enable_checkpointing=True)
    with pytest.raises(UserError) as error:
        trainer.fit(learner, datamodule=squares)
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith("step 5, epoch 1: 2 of the batch's 16 examples")
    assert message.endswith("step=4.ckpt")
    assert all(p.isfinite().all() for p in learner.parameters())
    assert [p.name for p in (tmp_path / "ck").iterdir()] == ["step=4.ckpt"]


def test_a_bad_parameter_is_named(setup, squares):
    learner, trainer = setup([Spoil(2, "mu"), DivergenceGuard()])
    with pytest.raises(
        UserError, match=r"step 2, epoch 0: parameter energy\.mu is not finite.*no checkpoint was saved"
    ):
        trainer.fit(learner, datamodule=squares)


def test_the_checkpoint_of_a_resumed_run_counts_before_it_writes_one(setup, squares, tmp_path):
    learner, trainer = setup([DivergenceGuard()], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    learner, trainer = setup([Spoil(5, "mu"), DivergenceGuard()], max_epochs=3)
    with pytest.raises(UserError, match=r"step 5, epoch 1: .* the last good checkpoint is .*a\.ckpt$"):
        trainer.fit(learner, datamodule=squares, ckpt_path=tmp_path / "a.ckpt", weights_only=True)


def test_a_sampler_that_runs_away_is_named_with_the_bound_it_breaks(setup, squares):
    learner = ContrastiveDivergence(GRBM(36, 12), Langevin(1e6), start=FromNoise(), num_steps=8)
    learner, trainer = setup([DivergenceGuard()], learner=learner)
    with pytest.raises(
        UserError, match=r"energy\.W.*negatives ran away.*step_size is 1e\+06 and must stay below .* = 2;"
    ):
        trainer.fit(learner, datamodule=squares)
    assert all(p.isfinite().all() for p in learner.parameters())


def test_spoiled_parameters_never_reach_a_checkpoint(setup, squares, tmp_path):
    learner, trainer = setup([DivergenceGuard()], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    learner.energy.b.data[3] = math.nan
    with pytest.raises(UserError, match=r"energy\.b is not finite.*no checkpoint was written"):
        trainer.save_checkpoint(tmp_path / "a.ckpt")
    assert not (tmp_path / "a.ckpt").exists()


def test_a_huge_gradient_passes_unless_its_norm_overflows(setup, squares):
    """Clipping divides by the norm, so that an infinite norm would make every step zero."""
    learner, trainer = setup([DivergenceGuard()])
    learner.energy.W.grad = torch.full_like(learner.energy.W, 1e15)
    DivergenceGuard().on_before_optimizer_step(trainer, learner, None)
    learner.energy.W.grad *= 1e15
    assert learner.energy.W.grad.isfinite().all()
    with pytest.raises(UserError, match=r"norm of the gradient overflows \(its largest entry is 1e\+30\)"):
        DivergenceGuard().on_before_optimizer_step(trainer, learner, None)


def test_an_average_that_is_not_finite_is_named_before_it_is_evaluated(setup, squares):
    averaging = EMAWeightAveraging(decay=0.5)

    class SpoilAverage(Callback):
        def on_train_batch_end(self, trainer, pl_module, *args):
            if trainer.global_step == 6:
                averaging._average_model.module.energy.W.data[0, 0] = math.nan

    learner, trainer = setup([averaging, DivergenceGuard(), SpoilAverage()])
    message = r"step 8, epoch 1: in the average of the weights parameter energy\.W is not finite.*no checkpoint"
    with pytest.raises(UserError, match=message):
        trainer.fit(learner, datamodule=squares)


def test_float16_that_loses_every_gradient_is_named_with_what_works(setup, squares):
    learner, trainer = setup([], precision="16-true")
    learner, guard = learner.half(), DivergenceGuard()
    learner.energy.W.grad = torch.zeros_like(learner.energy.W)
    with pytest.raises(UserError, match=r"set trainer\.precision to bf16-true"):
        for _ in range(40):
            guard.on_before_optimizer_step(trainer, learner, None)


@pytest.mark.parametrize("loss", [math.inf, -math.inf, math.nan])
def test_a_loss_that_is_not_finite_stops_the_run_though_all_gradients_are(setup, loss):
    learner, trainer = setup([])
    guard = DivergenceGuard()
    guard.on_before_backward(trainer, learner, torch.tensor(loss))
    with pytest.raises(UserError, match=rf"the loss \({loss}\) is not finite though data and parameters are"):
        guard.on_before_optimizer_step(trainer, learner, None)


@pytest.mark.parametrize("gap", [1e9, -1e9])
def test_negatives_may_drift_either_way(setup, gap):
    learner, trainer = setup([])
    learner.energies = torch.tensor(0.0), torch.tensor(gap)
    with pytest.raises(UserError, match=r"have drifted 1e\+09 apart"):
        DivergenceGuard().on_before_optimizer_step(trainer, learner, None)


def test_a_drift_is_seen_in_the_step_in_which_it_happens(setup, squares):
    """Whatever is logged, and when: here nothing before step 100."""

    class Jump(Callback):
        def on_train_batch_start(self, trainer, pl_module, *_):
            if trainer.global_step == 2:
                pl_module.energy.mu.data.fill_(1e4)

    learner, trainer = setup([Jump(), DivergenceGuard()], log_every_n_steps=100)
    with pytest.raises(UserError, match=r"^step 2, epoch 0: the energies of data \(.*have drifted"):
        trainer.fit(learner, datamodule=squares)


@pytest.mark.parametrize("entry", [math.inf, math.nan])
def test_a_loss_scaler_that_never_finds_a_scale_is_named(setup, entry):
    """Lightning's scaler skips a step whose gradients overflow and halves its scale. A few such steps are normal."""
    learner, trainer = setup([])
    trainer.precision_plugin.scaler = object()
    learner.energy.W.grad = torch.full_like(learner.energy.W, entry)
    guard = DivergenceGuard()
    for _ in range(MAX_LOST):
        guard.on_before_optimizer_step(trainer, learner, None)
    with pytest.raises(UserError, match="30 steps in a row changed nothing"):
        guard.on_before_optimizer_step(trainer, learner, None)


def test_the_guard_asks_the_device_once_per_step(setup, squares, monkeypatch):
    learner, trainer = setup([], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    calls = []
    for name in ("__float__", "tolist", "item"):
        original = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, lambda self, original=original: calls.append(1) or original(self))
    guard = DivergenceGuard()
    guard.on_before_backward(trainer, learner, torch.ones(()))
    guard.on_before_optimizer_step(trainer, learner, None)
    assert len(calls) == 1


def test_sampler_monitor_logs_absolute_step_sizes(setup, squares):
    learner, trainer = setup([SamplerMonitor()], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    log_var = learner.energy.log_var.detach()
    logged = {k.removeprefix("sampler/"): v.item() for k, v in trainer.callback_metrics.items() if "sampler" in k}
    assert logged["step_size"] == pytest.approx(0.3 * log_var.exp().mean().item())
    assert logged["log_var_mean"] == pytest.approx(log_var.mean().item())
    assert logged["log_var_min"] == pytest.approx(log_var.min().item())
    assert logged["log_var_max"] == pytest.approx(log_var.max().item())


def test_energies_that_drift_apart_stop_the_run(setup, tmp_path):
    """Learning rate 1: the step, the energies, the last checkpoint and a picture of the buffer."""
    torch.manual_seed(0)
    adam = partial(torch.optim.Adam, lr=1.0)
    learner = ContrastiveDivergence(
        ResNet((1, 8, 8), channels=4), DMALA(0.1), start=ReplayBuffer(200), num_steps=2, optimizer=adam
    )
    keep = ModelCheckpoint(tmp_path / "kept", every_n_train_steps=1)
    _, trainer = setup([DivergenceGuard(), keep], learner=learner, enable_checkpointing=True, max_epochs=100)
    with pytest.raises(UserError) as error:
        trainer.fit(learner, datamodule=Digits(binarize=True))
    message = str(error.value)
    assert re.match(
        r"step \d+, epoch \d+: the energies of data \(-?[\d.e+]+\) and negatives \(-?[\d.e+]+\) have", message
    )
    assert "kept" in message and "learning rate" in message and "\n" not in message
    [picture] = tmp_path.rglob("images/samples-diverged*.png")
    assert str(picture) in message
    assert all(p.isfinite().all() for p in learner.parameters())


def test_overflow_on_bits_is_blamed_on_the_learning_rate(setup, tmp_path):
    torch.manual_seed(0)
    sgd = partial(torch.optim.SGD, lr=1e18)
    learner = ContrastiveDivergence(ResNet((1, 8, 8), channels=4), DMALA(0.1), start=ReplayBuffer(200), optimizer=sgd)
    _, trainer = setup([DivergenceGuard(max_gap=math.inf)], learner=learner, max_epochs=100)
    with pytest.raises(UserError, match=r"learning rate .*energy of data .*, of negatives ") as error:
        trainer.fit(learner, datamodule=Digits(binarize=True))
    assert "ran away" not in str(error.value) and len(str(error.value)) < 700
    [picture] = tmp_path.rglob("images/samples-diverged*.png")
    assert str(picture) in str(error.value)


@pytest.mark.parametrize("max_gap", [0.0, -1.0, math.nan])
def test_max_gap_is_positive(max_gap):
    with pytest.raises(UserError, match="must be above 0"):
        DivergenceGuard(max_gap)


def test_large_penalties_are_not_mistaken_for_drifting_energies(setup):
    torch.manual_seed(0)
    learner = ContrastiveDivergence(ResNet((1, 8, 8), channels=4), DMALA(0.1), start=ReplayBuffer(200), energy_l2=1e4)
    _, trainer = setup([DivergenceGuard()], learner=learner, max_epochs=1, limit_train_batches=1)
    trainer.fit(learner, datamodule=Digits(binarize=True))


def test_examples_of_one_number_are_counted_too(setup):
    learner, trainer = setup([])
    guard = DivergenceGuard()
    guard.on_train_batch_start(trainer, learner, torch.tensor([1.0, math.nan, 2.0]), 0)
    guard.on_before_backward(trainer, learner, torch.tensor(math.nan))
    with pytest.raises(UserError, match="1 of the batch's 3 examples hold NaN"):
        guard.on_before_optimizer_step(trainer, learner, None)


class SpoilOnce(Callback):
    """Makes a parameter infinite before a step, and does so once in its life."""

    done = False

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == 5 and not self.done:
            pl_module.energy.W.data[0] = math.inf
            self.done = True


def test_a_trainer_in_python_goes_on_from_the_rollback(setup, squares, tmp_path):
    """Another trainer and learner resume from the checkpoint that the exception names."""
    spoil, path = SpoilOnce(), None
    for attempt in range(2):
        guard = DivergenceGuard(on_divergence="rollback", learning_rate_factor=0.1)
        saves = ModelCheckpoint(tmp_path / "ck", save_last=True, save_on_train_epoch_end=True)
        learner, trainer = setup([spoil, guard, RunState(), saves], max_epochs=3, enable_checkpointing=True)
        if attempt == 0:
            with pytest.raises(RolledBack) as back:
                trainer.fit(learner, datamodule=squares)
            path = back.value.checkpoint
        else:
            trainer.fit(learner, datamodule=squares, ckpt_path=path)
    assert trainer.global_step == 12 and all(p.isfinite().all() for p in learner.parameters())
    rows = (tmp_path / "run" / "rollbacks.csv").read_text().splitlines()
    assert len(rows) == 2 and rows[1].startswith("5,4,0.1,3,") and "energy.W is not finite" in rows[1]


def test_spoiled_data_are_not_rolled_back(setup, squares, tmp_path):
    """They would come again."""
    guard = DivergenceGuard(on_divergence="rollback")
    saves = ModelCheckpoint(tmp_path / "ck", save_last=True)
    learner, trainer = setup([Spoil(5, "data"), guard, RunState(), saves], max_epochs=3, enable_checkpointing=True)
    with pytest.raises(UserError, match="2 of the batch's 16 examples"):
        trainer.fit(learner, datamodule=squares)
    assert not (tmp_path / "run" / "rollbacks.csv").exists()


def test_a_validation_before_the_training_leaves_the_rollback_on(setup, squares, tmp_path):
    guard = DivergenceGuard(on_divergence="rollback")
    callbacks = [guard, RunState(), ModelCheckpoint(tmp_path / "kept")]
    settings = {"max_steps": 1, "max_epochs": 1, "limit_val_batches": 1}
    learner, trainer = setup(callbacks, enable_checkpointing=True, **settings)
    trainer.validate(learner, datamodule=squares, verbose=False)
    assert guard._rollback is None
    trainer.fit(learner, datamodule=squares)
    assert guard._rollback is not None
