"""The sampler's step falls over training, and only there."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from pytorch_lightning.callbacks import Callback, EMAWeightAveraging, GradientAccumulationScheduler, LambdaCallback

from ebmlab.callbacks import AnnealedSteps, SamplerMonitor, ShortChains, TrajectoryLikelihood
from ebmlab.datamodules import Digits
from ebmlab.energies import GRBM, RBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, PersistentACS, RatioMatching, ReplayBuffer
from ebmlab.samplers import BlockGibbs, GibbsLangevin, Sampler


class Spy(GibbsLangevin):
    """Keeps the step sizes that chains start with."""

    def __init__(self) -> None:
        super().__init__(0.2)
        self.seen: list[float] = []

    def init(self, *args: Any, **kwargs: Any) -> Any:
        self.seen.append(float(self.step_size))
        return super().init(*args, **kwargs)


def learner(sampler: Sampler | None = None) -> ContrastiveDivergence:
    return ContrastiveDivergence(GRBM(64, 4), Spy() if sampler is None else sampler)


def expected(steps: int, total: int, end: float) -> list[float]:
    return [0.2 * (end + (1 - end) * (1 + math.cos(math.pi * t / total)) / 2) for t in range(steps)]


@pytest.mark.parametrize("end", [0.0, 0.25])
def test_steps_fall_on_a_cosine_and_are_whole_outside_of_training(setup: Any, end: float) -> None:
    model, trainer = setup([AnnealedSteps(end)], learner=learner(), max_steps=6, max_epochs=-1)
    trainer.fit(model, datamodule=Digits())
    assert model.sampler.seen == pytest.approx(expected(6, 6, end))
    assert float(model.sampler.step_size) == pytest.approx(0.2)


@pytest.mark.parametrize("first", [True, False])
def test_likelihoods_along_the_training_see_the_whole_step(setup: Any, first: bool) -> None:
    class Reads(TrajectoryLikelihood):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[float] = []

        def setup(self, *_: Any, **__: Any) -> None: ...

        def on_train_start(self, *_: Any) -> None: ...

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            self.seen.append(float(pl_module.sampler.step_size))

        def on_train_end(self, *_: Any) -> None: ...

    reads = Reads()
    callbacks = [reads, AnnealedSteps()] if first else [AnnealedSteps(), reads]
    model, trainer = setup(callbacks, learner=learner(), max_steps=4, max_epochs=-1)
    trainer.fit(model, datamodule=Digits())
    assert reads.seen == pytest.approx([0.2] * 4)


@pytest.mark.parametrize("callback", [AnnealedSteps, ShortChains])
def test_a_finished_run_that_gets_more_steps_says_what_happens(setup: Any, tmp_path: Path, callback: Any) -> None:
    """Steps that had become small grew again, and chains became short again, without a word."""
    model, trainer = setup([callback()], learner=learner(), max_steps=6, max_epochs=-1)
    trainer.fit(model, datamodule=Digits())
    trainer.save_checkpoint(tmp_path / "end.ckpt")
    again, trainer = setup([callback()], learner=learner(), max_steps=8, max_epochs=-1)
    with pytest.warns(UserWarning, match=f"{callback.__name__}: the run has 8 steps now, and had 6"):
        trainer.fit(again, datamodule=Digits(), ckpt_path=tmp_path / "end.ckpt")
    assert trainer.global_step == 8


def test_steps_are_small_at_the_end_if_gradients_accumulate_from_an_epoch_on(setup: Any) -> None:
    changing = GradientAccumulationScheduler({0: 1, 1: 2})
    model, trainer = setup([AnnealedSteps(), changing], learner=learner(), max_epochs=3, limit_train_batches=4)
    trainer.fit(model, datamodule=Digits())
    assert trainer.global_step == 8
    batches = [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    assert model.sampler.seen == pytest.approx([expected(8, 8, 0)[t] for t in batches])


def test_a_second_training_has_a_length_of_its_own(setup: Any) -> None:
    callback = AnnealedSteps()
    for total in (6, 4):
        model, trainer = setup([callback], learner=learner(), max_steps=total, max_epochs=-1)
        trainer.fit(model, datamodule=Digits())
        assert model.sampler.seen == pytest.approx(expected(total, total, 0))


def test_a_resumed_run_goes_on_from_its_step(setup: Any, tmp_path: Path) -> None:
    class Keep(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 4:
                trainer.save_checkpoint(tmp_path / "at.ckpt")

    model, trainer = setup([AnnealedSteps(), Keep()], learner=learner(), max_steps=6, max_epochs=-1)
    trainer.fit(model, datamodule=Digits())
    again, trainer = setup([AnnealedSteps()], learner=learner(), max_steps=6, max_epochs=-1)
    trainer.fit(again, datamodule=Digits(), ckpt_path=tmp_path / "at.ckpt")
    assert again.sampler.seen == pytest.approx(expected(6, 6, 0)[4:])


def test_an_interrupted_step_leaves_the_whole_step_size(setup: Any) -> None:
    class Stop(Callback):
        def on_before_optimizer_step(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 3:
                raise RuntimeError("stopped")

    model, trainer = setup([AnnealedSteps(), Stop()], learner=learner(), max_steps=6, max_epochs=-1)
    with pytest.raises(RuntimeError, match="stopped"):
        trainer.fit(model, datamodule=Digits())
    assert model.sampler.seen == pytest.approx(expected(4, 6, 0))
    assert float(model.sampler.step_size) == pytest.approx(0.2)


def test_wrong_use_is_refused(setup: Any) -> None:
    with pytest.raises(UserError, match="end is 2"):
        AnnealedSteps(2)
    model, trainer = setup([AnnealedSteps()], learner=learner(BlockGibbs()))
    with pytest.raises(UserError, match="BlockGibbs has no step_size"):
        trainer.fit(model, datamodule=Digits())
    model, trainer = setup([AnnealedSteps()], learner=RatioMatching(RBM(64, 4)))
    with pytest.raises(UserError, match="RatioMatching has no negative chains"):
        trainer.fit(model, datamodule=Digits(binarize=True))
    began: list[Any] = []  # files are written when training begins
    beginning = LambdaCallback(on_train_start=lambda trainer, _: began.append(trainer))
    model, trainer = setup([beginning, AnnealedSteps()], learner=learner(), max_epochs=-1)
    with pytest.raises(UserError, match="training has no end"):
        trainer.fit(model, datamodule=Digits())
    assert not began


def test_samplers_that_change_their_own_steps_are_refused(setup: Any) -> None:
    binary = ContrastiveDivergence(RBM(64, 4), PersistentACS(cycle_length=4), start=ReplayBuffer(100))
    model, trainer = setup([AnnealedSteps()], learner=binary)
    with pytest.raises(UserError, match="PersistentACS chooses its own step size"):
        trainer.fit(model, datamodule=Digits(binarize=True))


@pytest.mark.parametrize("first", [True, False])
def test_averaged_weights_have_the_whole_step(setup: Any, first: bool) -> None:
    average, annealed = EMAWeightAveraging(decay=0.5), AnnealedSteps()
    callbacks = [average, annealed] if first else [annealed, average]
    model, trainer = setup(callbacks, learner=learner(GibbsLangevin(0.2)), max_steps=6, max_epochs=-1)
    trainer.fit(model, datamodule=Digits())
    assert float(model.sampler.step_size) == pytest.approx(0.2)


@pytest.mark.parametrize("first", [True, False])
def test_the_monitor_logs_the_step_of_the_batch_and_nothing_changes_places(setup: Any, first: bool) -> None:
    class Seen(SamplerMonitor):
        seen: ClassVar[list[float]] = []

        def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
            super().on_train_batch_end(trainer, *args)
            self.seen.append(float(trainer.callback_metrics["sampler/step_size"]))

    Seen.seen, monitor, annealed = [], Seen(), AnnealedSteps()
    callbacks = [monitor, annealed] if first else [annealed, monitor]
    energy = GRBM(64, 4)  # whose variances are 1 and stay so: its step unit is 1
    model = ContrastiveDivergence(energy, GibbsLangevin(0.2), optimizer=partial(torch.optim.SGD, lr=0.0))
    model, trainer = setup(callbacks, learner=model, max_steps=4, max_epochs=-1)
    trainer.fit(model, datamodule=Digits())
    assert monitor.seen == pytest.approx(expected(4, 4, 0))
    assert [c for c in trainer.callbacks if c in callbacks] == callbacks
