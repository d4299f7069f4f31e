"""One bar for a run, or a line now and then where there is no terminal."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import ClassVar

import pytest
from pytorch_lightning.callbacks import Timer

from ebmlab.callbacks import Progress, SampleGrid
from ebmlab.callbacks import progress as module


class Bar:
    """A tqdm bar that only remembers."""

    made: ClassVar[list[Bar]] = []

    def __init__(self, **options):
        self.options, self.n, self.open = options, options.get("initial", 0), True
        self.made.append(self)

    def set_postfix(self, metrics):
        self.metrics = metrics

    def update(self):
        self.n += 1

    def close(self):
        self.open = False


@pytest.fixture
def bars(monkeypatch):
    monkeypatch.setattr(Bar, "made", [])
    monkeypatch.setattr(module, "tqdm", Bar)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    return Bar.made


@pytest.fixture
def clock(monkeypatch):
    """Seconds pass at every look at the clock."""
    now = [0.0]

    def monotonic():
        now[0] += 4.0
        return now[0]

    monkeypatch.setattr(module.time, "monotonic", monotonic)
    return now


@pytest.mark.slow
def test_one_bar_counts_the_steps_of_the_whole_run(setup, squares, bars):
    settings = {"enable_progress_bar": True, "limit_val_batches": 1}
    learner, trainer = setup([Progress(), SampleGrid(num_samples=4)], max_epochs=3, **settings)
    trainer.fit(learner, datamodule=squares)
    (bar,) = bars
    assert (bar.options["total"], bar.options["smoothing"], bar.n) == (12, 0, 12)
    assert not bar.open and "energy_gap" in bar.metrics


def test_the_bar_is_closed_before_an_error_is_printed(setup, squares, bars, monkeypatch):
    learner, trainer = setup([Progress()], enable_progress_bar=True)
    monkeypatch.setattr(learner, "training_step", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trainer.fit(learner, datamodule=squares)
    assert [bar.open for bar in bars] == [False]


def test_the_time_that_is_left(monkeypatch, capfd):
    progress, seconds = Progress(), iter([0.0, 50.0, 50.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(progress, "get_metrics", lambda *_: {})
    monkeypatch.setattr(module, "planned_steps", lambda trainer: 110)
    trainer = SimpleNamespace(global_step=10, current_epoch=2, callbacks=[])
    progress.on_train_start(trainer, None)
    trainer.global_step = 30
    progress.on_train_batch_end(trainer, None)
    assert capfd.readouterr().err == "step 30 of 110, epoch 2, 0:03:20 left\n"  # 20 steps took 50 seconds


def test_no_less_than_no_time_is_left(monkeypatch, capfd):
    timer = Timer(duration={"seconds": 5})
    monkeypatch.setattr(timer, "time_remaining", lambda: -60.0)  # the last step was a long one
    progress, seconds = Progress(), iter([0.0, 65.0, 65.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(progress, "get_metrics", lambda *_: {})
    monkeypatch.setattr(module, "planned_steps", lambda trainer: 110)
    trainer = SimpleNamespace(global_step=0, current_epoch=0, callbacks=[timer])
    progress.on_train_start(trainer, None)
    trainer.global_step = 3
    progress.on_train_batch_end(trainer, None)
    assert capfd.readouterr().err == "step 3 of 110, epoch 0, 0:00:00 left\n"


def test_evaluations_before_the_first_step_are_no_part_of_the_time(monkeypatch, capfd):
    progress, seconds = Progress(), iter([0.0, 100.0, 110.0, 110.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(progress, "get_metrics", lambda *_: {})
    monkeypatch.setattr(module, "planned_steps", lambda trainer: 11)
    trainer = SimpleNamespace(global_step=0, current_epoch=0, callbacks=[])
    progress.on_train_start(trainer, None)
    progress.on_train_batch_start(trainer, None, None, 0)
    trainer.global_step = 1
    progress.on_train_batch_end(trainer, None)
    assert capfd.readouterr().err == "step 1 of 11, epoch 0, 0:01:40 left\n"


def test_without_a_terminal_a_line_now_and_then(setup, squares, clock, capfd):
    learner, trainer = setup([Progress()], max_epochs=25, enable_progress_bar=True)
    trainer.fit(learner, datamodule=squares)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("step ")]
    assert 10 < len(lines) < 45  # the run takes 1,000 seconds or so
    assert re.fullmatch(r"step 2 of 100, epoch 0, 0:\d\d:\d\d left", lines[0])
    assert re.fullmatch(r"step 9\d of 100, epoch 2\d, 0:00:\d\d left: .*energy_gap -?\d.*", lines[-1])
    assert [int(line.split()[1]) for line in lines] == sorted({int(line.split()[1]) for line in lines})


def test_the_steps_of_a_run_without_an_end_are_not_known(setup, squares, bars):
    learner, trainer = setup([Progress()], max_epochs=-1, max_time={"seconds": 1}, enable_progress_bar=True)
    trainer.fit(learner, datamodule=squares)
    assert bars[0].options["total"] is None


def test_the_options_in_configs_of_earlier_runs_are_accepted() -> None:
    Progress(refresh_rate=1, process_position=0, leave=False)
