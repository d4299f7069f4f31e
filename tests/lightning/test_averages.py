"""Averaged weights that have not begun, and the order of callbacks around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer
from pytorch_lightning.callbacks import EMAWeightAveraging, ModelCheckpoint
from torch import nn

from ebmlab.callbacks import (
    AnnealedSteps,
    CentredGradient,
    PeriodicEvaluation,
    RunState,
    SamplerMonitor,
    TrajectoryLikelihood,
)
from ebmlab.datamodules import Digits
from ebmlab.energies import GRBM, RBM
from ebmlab.errors import UserError
from ebmlab.learners import AdaptiveDMALA, ContrastiveDivergence, FromData, PersistentACS, ReplayBuffer
from ebmlab.samplers import BlockGibbs, GibbsLangevin


class Norms(PeriodicEvaluation):
    """The norm of the weights that are evaluated, and of those that are trained."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []
        self.trained: list[float] = []

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.trained.append(float(pl_module.energy.W.detach().norm()))  # type: ignore[union-attr, operator]
        super().on_train_epoch_end(trainer, pl_module)

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.seen.append(float(pl_module.energy.W.detach().norm()))  # type: ignore[union-attr, operator]


def fit(
    folder: Path, callbacks: list[Any], learner: Any = None, resume: str | None = None, **settings: Any
) -> ContrastiveDivergence:
    torch.manual_seed(0)
    learner = learner or ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=FromData())
    settings = {"limit_val_batches": 0, "log_every_n_steps": 1} | settings
    trainer = quiet_trainer(folder, callbacks=callbacks, **settings)
    trainer.fit(learner, Digits(binarize=isinstance(learner.energy, RBM), batch_size=100), ckpt_path=resume)
    return learner


class Validated(pl.Callback):
    """The norms of the weights that are validated, and of those that training goes on from."""

    def __init__(self) -> None:
        self.seen: list[float] = []
        self.trained: list[float] = []

    def on_validation_batch_start(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        self.seen.append(float(pl_module.energy.W.detach().norm()))

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.trained.append(float(pl_module.energy.W.detach().norm()))


def test_until_the_average_begins_the_trained_weights_are_validated(tmp_path: Path) -> None:
    norms, ema = Validated(), EMAWeightAveraging(decay=0.9, update_starting_at_step=6)
    settings = {"limit_train_batches": 3, "limit_val_batches": 1, "num_sanity_val_steps": 0}
    fit(tmp_path, [norms, ema], max_epochs=4, **settings)
    assert norms.seen[:2] == norms.trained[:2], "6 steps"
    assert norms.seen[3] != norms.trained[3]


def test_until_the_average_begins_the_trained_weights_are_evaluated(tmp_path: Path) -> None:
    norms, ema = Norms(), EMAWeightAveraging(decay=0.9, update_starting_at_step=6)
    fit(tmp_path, [ema, norms], max_epochs=4, limit_train_batches=3)
    assert norms.seen[1:3] == norms.trained[:2], "6 steps"
    assert norms.seen[3] != norms.trained[2] and norms.seen[4] != norms.trained[3]


@pytest.mark.parametrize("weights_only", [False, True])
@pytest.mark.parametrize("starts", [0, 6])
def test_a_checkpoint_holds_the_weights_that_are_evaluated(starts: int, weights_only: bool, tmp_path: Path) -> None:
    """Before the average it held the initial weights, and without a state of training never the average."""
    norms, ema = Norms(), EMAWeightAveraging(decay=0.9, update_starting_at_step=starts)
    saves = ModelCheckpoint(tmp_path / "ck", "{epoch}", save_top_k=-1, save_weights_only=weights_only)
    options = {"enable_checkpointing": True, "max_epochs": 4, "limit_train_batches": 3}
    fit(tmp_path, [ema, norms, saves], **options)
    files = [torch.load(tmp_path / "ck" / f"epoch={i}.ckpt", weights_only=True) for i in range(4)]
    assert [float(file["state_dict"]["energy.W"].norm()) for file in files] == norms.seen[1:]


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`")
def test_a_run_that_no_longer_averages_goes_on_from_the_trained_weights(tmp_path: Path) -> None:
    options = {"enable_checkpointing": True, "limit_train_batches": 3}
    saves = ModelCheckpoint(tmp_path, "{epoch}", save_last=True)
    fit(tmp_path, [EMAWeightAveraging(decay=0.9), RunState(), saves], max_epochs=2, **options)
    whole = fit(tmp_path, [], max_epochs=4, limit_train_batches=3)
    with pytest.warns(UserWarning, match="goes on from the trained weights and drops their average"):
        resumed = fit(tmp_path, [RunState()], resume=str(tmp_path / "last.ckpt"), max_epochs=4, limit_train_batches=3)
    assert torch.equal(resumed.energy.W, whole.energy.W)  # type: ignore[union-attr, arg-type]


EPOCHS_ONLY = {"update_every_n_steps": 0}


@pytest.mark.parametrize(
    ("late", "in_time", "when"),
    [
        ({"update_starting_at_step": 12}, {"update_starting_at_step": 11}, "begins at step 12 of 12, after training"),
        (
            {"update_starting_at_epoch": 4, **EPOCHS_ONLY},
            {"update_starting_at_epoch": 3, **EPOCHS_ONLY},
            "begins at epoch 4 of 4, after training",
        ),
        (
            EPOCHS_ONLY,
            {"update_starting_at_step": 12, "update_starting_at_epoch": 3},
            "averages neither after steps nor after epochs",
        ),
    ],
)
def test_an_average_that_never_begins_is_refused(
    late: dict[str, int], in_time: dict[str, int], when: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=f"{when},? and would put the"):
        fit(tmp_path, [EMAWeightAveraging(**late)], max_epochs=4, limit_train_batches=3)
    average = EMAWeightAveraging(**in_time)
    fit(tmp_path, [average], max_epochs=4, limit_train_batches=3)
    assert average._average_model is not None and int(average._average_model.n_averaged) == 1


def test_an_epoch_that_delays_no_average_is_refused(tmp_path: Path) -> None:
    """Lightning averages from the first step on where only the epoch is given."""
    with pytest.raises(UserError, match="update_starting_at_epoch is 2, but Lightning averages after every step from"):
        fit(tmp_path, [EMAWeightAveraging(update_starting_at_epoch=2)], max_epochs=4, limit_train_batches=3)


@pytest.mark.slow
def test_the_trajectory_ends_with_the_trained_weights_in_any_order(tmp_path: Path) -> None:
    """Its last point is made at the end of training, when Lightning puts the average in their place."""
    last = []
    for ema in ([], [EMAWeightAveraging(decay=0.99)]):
        trajectory = TrajectoryLikelihood(num_chains=20, num_steps=5, every_n_steps=20)
        torch.manual_seed(0)
        learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=FromData())
        trainer = quiet_trainer(tmp_path, callbacks=[*ema, trajectory], max_steps=30, log_every_n_steps=10)
        trainer.fit(learner, Digits(binarize=True, batch_size=100))
        last.append(float(trainer.callback_metrics["trajectory/log_z"]))
    assert last[0] == last[1]


@pytest.mark.parametrize("first", [0, 1])
def test_the_monitor_sees_the_step_size_of_the_batch_in_any_order(first: int, tmp_path: Path) -> None:
    seen: list[float] = []

    class Learner(ContrastiveDivergence):
        def on_train_batch_end(self, *_: Any) -> None:
            seen.append(float(self.trainer.callback_metrics["sampler/step_size"]))

    callbacks = [SamplerMonitor(), AnnealedSteps()]
    callbacks.insert(1 - first, callbacks.pop())
    fit(tmp_path, callbacks, Learner(GRBM(64, 8), GibbsLangevin(0.1)), max_steps=4)
    assert seen[0] == pytest.approx(0.1, rel=0.01) and seen == sorted(seen, reverse=True) and seen[-1] < 0.02


@pytest.mark.parametrize("accumulate", [1, 4])
def test_accumulated_gradients_are_one_iteration(accumulate: int, tmp_path: Path) -> None:
    """Step sizes are searched and adapted once, and the first step has the ordinary gradient."""
    settings = {"max_steps": 3, "accumulate_grad_batches": accumulate}
    acs = PersistentACS(cycle_length=4, tune_every=5, tuning_steps=20)
    fit(tmp_path, [], ContrastiveDivergence(RBM(64, 8), acs, start=ReplayBuffer(200), num_steps=4), **settings)
    assert acs.found[0] == 1
    dmala = AdaptiveDMALA(0.1)
    fit(tmp_path, [], ContrastiveDivergence(RBM(64, 8), dmala, start=ReplayBuffer(200), num_steps=4), **settings)
    largest = torch.tensor(0.1 * (1 - dmala.rate) / (dmala.rate * (1 - dmala.rate)))
    assert 0.1 < dmala.step_size <= 0.1 * (3 * largest).exp()  # three times all accepted
    settings["max_steps"] = 1
    ordinary, centred = (fit(tmp_path, callbacks, **settings) for callbacks in ([], [CentredGradient()]))
    assert torch.equal(ordinary.energy.W, centred.energy.W)  # type: ignore[arg-type]
    settings["max_steps"] = 2
    ordinary, centred = (fit(tmp_path, callbacks, **settings) for callbacks in ([], [CentredGradient()]))
    assert not torch.equal(ordinary.energy.W, centred.energy.W)  # type: ignore[arg-type]


def test_after_a_rollback_an_iteration_adapts_again() -> None:
    rbm, x = RBM(8, 3), torch.zeros(20, 8)
    acs, dmala = PersistentACS(tuning_steps=20), AdaptiveDMALA(0.1)
    for again in (False, True):
        for _ in range(2):  # the second batch of an iteration changes nothing
            acs.at_iteration(rbm, x, 1, 10)
            for _ in dmala.at_iteration(rbm, x, 1, 3)[0].chain(rbm, x, 3):
                pass
        assert acs.found[0] == 1
        if not again:
            step_size = float(dmala.step_size)
            acs.load_state_dict(PersistentACS(tuning_steps=20).state_dict())
            dmala.load_state_dict(AdaptiveDMALA(0.1).state_dict())
            assert acs.found[0] == 0 and float(dmala.step_size) < step_size
    assert float(dmala.step_size) > 0.1


def test_buffers_are_not_averaged(tmp_path: Path) -> None:
    """A step size that adapts is state: the checkpoint and the sampler hold the last one, as without an average."""
    steps: dict[bool, list[float]] = {}
    for average in (False, True):
        ema = [EMAWeightAveraging(decay=0.9, update_every_n_steps=3)] if average else []
        saves = ModelCheckpoint(tmp_path / str(average), "last", save_top_k=-1)
        torch.manual_seed(0)
        learner = ContrastiveDivergence(RBM(64, 8), AdaptiveDMALA(0.02, rate=0.5), start=ReplayBuffer(100))
        options = {"enable_checkpointing": True, "max_epochs": 1, "limit_train_batches": 11}
        fit(tmp_path, [*ema, saves], learner, **options)
        file = torch.load(tmp_path / str(average) / "last.ckpt", weights_only=True)
        names = [name for name in file["state_dict"] if "step_size" in name]
        assert names
        steps[average] = [float(learner.sampler.step_size), *(float(file["state_dict"][name]) for name in names)]
    assert steps[True] == steps[False] and steps[True][0] != 0.02


class Growing(EMAWeightAveraging):
    """Its decay n / (n + 1) makes it the mean of all weights so far."""

    def setup(self, *args: Any, **kwargs: Any) -> None:
        super().setup(*args, **kwargs)
        assert self._average_model is not None
        self._average_model.avg_fn = lambda mine, weights, n: mine + (weights - mine) / (n + 1)


def test_an_average_may_have_its_own_rule(tmp_path: Path) -> None:
    seen = list[torch.Tensor]()

    class Steps(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
            seen.append(cast(RBM, pl_module.energy).W.detach().clone())

    learner = fit(tmp_path, [Steps(), Growing()], max_epochs=1, limit_train_batches=5)
    assert len(seen) == 5 and not torch.equal(seen[0], seen[-1])
    torch.testing.assert_close(cast(RBM, learner.energy).W.detach(), torch.stack(seen).mean(0))


class Odd(ContrastiveDivergence):
    """It has a complex parameter."""

    def __init__(self) -> None:
        super().__init__(RBM(64, 8), BlockGibbs(), start=FromData())
        self.phase = nn.Parameter(torch.zeros(2, dtype=torch.complex64), requires_grad=False)

    def on_train_batch_end(self, *args: Any) -> None:
        self.phase.data += 1j


def test_complex_parameters_are_averaged(tmp_path: Path) -> None:
    average = EMAWeightAveraging(decay=0.5)
    learner = fit(tmp_path, [average], Odd(), max_epochs=1, limit_train_batches=3)
    assert cast(Odd, learner).phase.tolist() == [1.25j, 1.25j]


@pytest.mark.filterwarnings("ignore:You're using the WeightAveraging callback, but loading a checkpoint outside")
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`")
def test_a_checkpoint_is_evaluated_alike_after_the_training_and_in_a_new_process(tmp_path: Path) -> None:
    def test(trainer: pl.Trainer, learner: ContrastiveDivergence) -> float:
        data = Digits(binarize=True, batch_size=100)
        trainer.test(learner, data, ckpt_path=str(tmp_path / "last.ckpt"), verbose=False)
        return float(trainer.callback_metrics["test/energy"])

    torch.manual_seed(0)
    learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=FromData())
    callbacks = [EMAWeightAveraging(decay=0.9), ModelCheckpoint(tmp_path, "last")]
    options = {"limit_val_batches": 0, "enable_checkpointing": True, "max_epochs": 2}
    trainer = quiet_trainer(tmp_path, callbacks=callbacks, **options)
    trainer.fit(learner, Digits(binarize=True, batch_size=100))
    ended = learner.energy.W.detach().clone()  # Lightning leaves the average there
    after = test(trainer, learner)
    assert torch.equal(learner.energy.W, ended)
    anew = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=FromData())
    assert test(quiet_trainer(tmp_path), anew) == after
