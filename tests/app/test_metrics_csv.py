"""metrics.csv has every row, no matter when the run was killed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import pytorch_lightning as pl
from helpers_trainer import quiet_trainer

from ebmlab.app.finished_run import read_run
from ebmlab.app.loggers import MetricsCSV
from ebmlab.callbacks import PeriodicEvaluation
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import BlockGibbs


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def log(logger: MetricsCSV, first: int, last: int) -> None:
    for step in range(first, last):
        logger.log_metrics({"train/loss": 10.0 * step}, step)
        if step % 3 == 2:
            logger.log_metrics({"fid": float(step)}, step)


@pytest.mark.parametrize("late", [False, True])
def test_a_killed_run_has_the_rows_of_one_that_was_not(late: bool, tmp_path: Path) -> None:
    """The run is killed at step 8 and its checkpoint is of step 5. A metric of step 5 may come after the checkpoint."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder, parts in ((whole, [(0, 12)]), (killed, [(0, 8), (6, 12)])):
        folder.mkdir()
        for first, last in parts:
            logger = MetricsCSV(folder)
            for step in range(first, last):
                log(logger, step, step + 1)
                if step == 5:
                    logger.flush()  # as when a checkpoint is written
                    assert rows(folder)[-1]["fid"] == "5.0"
                    if late:
                        logger.log_metrics({"epoch_mean": 1.0}, 5)
        if last == 12:
            logger.finalize("success")
    assert rows(whole) == rows(killed)
    assert [row["step"] for row in rows(whole)] == [str(step) for step in range(12)]


def test_values_of_an_earlier_step_are_put_in_its_row(tmp_path: Path) -> None:
    """An evaluation after step 4 is logged at 4, and Lightning's means over the epoch follow at 3."""
    logger = MetricsCSV(tmp_path)
    for step, metrics in ((1, {"a": 1.0}), (4, {"fid": 7.0}), (3, {"mean": 2.0}), (4, {"a": 4.0}), (9, {"a": 9.0})):
        logger.log_metrics(metrics, step)
    logger.finalize("success")
    assert [(row["step"], row["a"], row["fid"], row["mean"]) for row in rows(tmp_path)] == [
        *(("1", "1.0", "", ""), ("3", "", "", "2.0"), ("4", "4.0", "7.0", ""), ("9", "9.0", "", ""))
    ]


class Own(PeriodicEvaluation):
    """An evaluation of a user's own, with a metric by a name that nothing knows."""

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        steps = float(trainer.global_step)
        self.log_metrics(trainer, pl_module, {"own/mean": steps, f"own/after_{steps:g}": steps})


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:The number of training batches")
def test_evaluations_of_ones_own_stand_at_the_number_of_steps_taken(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("{}")
    for epochs, resume in ((1, None), (2, tmp_path / "a.ckpt")):
        learner = ContrastiveDivergence(RBM(64, 4), BlockGibbs(), start=FromNoise(), num_steps=1)
        settings = {"max_epochs": epochs, "limit_train_batches": 2, "limit_val_batches": 0, "log_every_n_steps": 1}
        trainer = quiet_trainer(tmp_path, logger=MetricsCSV(tmp_path), callbacks=[Own()], **settings)
        trainer.fit(learner, Digits(binarize=True), ckpt_path=resume)
        trainer.save_checkpoint(tmp_path / "a.ckpt")
    run = read_run(tmp_path)
    assert [(score.step, score.value) for score in run.logged["own/mean"]] == [(0, 0), (2, 2), (4, 4)]
    assert [run.logged[f"own/after_{n}"][0].step for n in (0, 2, 4)] == [0, 2, 4]  # also after resuming
    assert [score.step for score in run.logged["train/energy_gap"]] == [1, 2, 3, 4]
    assert run.steps == 4


def test_a_resumed_run_keeps_what_was_evaluated_at_its_first_step(tmp_path: Path) -> None:
    logger = MetricsCSV(tmp_path)
    logger.log_metrics({"fid": 7.0}, 4)
    logger.flush()  # a checkpoint is written
    logger.log_metrics({"a": 1.0}, 5)
    logger.flush()
    resumed = MetricsCSV(tmp_path)
    resumed.log_metrics({"a": 4.0}, 4)
    resumed.finalize("success")
    assert rows(tmp_path) == [{"step": "4", "fid": "7.0", "a": "4.0"}]


def test_a_row_that_was_cut_short_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("step,train/loss\n0,1.0\n1,2.0\n2,3")
    logger = MetricsCSV(tmp_path)
    logger.log_metrics({"train/loss": 5.0}, 3)
    logger.finalize("success")
    assert [row["step"] for row in rows(tmp_path)] == ["0", "1", "3"]


def test_a_metric_that_is_logged_twice_is_written_once(tmp_path: Path) -> None:
    logger = MetricsCSV(tmp_path)
    logger.log_metrics({"a": 1.0}, 1)
    logger.flush()
    before = (tmp_path / "metrics.csv").stat().st_ino
    logger.log_metrics({"a": 1.0}, 1)
    logger.finalize("success")
    assert (tmp_path / "metrics.csv").stat().st_ino == before  # nothing new: not rewritten
    assert rows(tmp_path) == [{"step": "1", "a": "1.0"}]


def test_a_file_that_is_deleted_in_mid_run_comes_back_with_a_header(tmp_path: Path) -> None:
    logger = MetricsCSV(tmp_path)
    log(logger, 0, 3)
    logger.flush()
    (tmp_path / "metrics.csv").unlink()
    log(logger, 3, 6)
    logger.finalize("success")
    assert [(row["step"], row["train/loss"]) for row in rows(tmp_path)] == [("3", "30.0"), ("4", "40.0"), ("5", "50.0")]


def test_a_long_file_is_read_and_written_at_its_end_alone(tmp_path: Path) -> None:
    """Rows of 3,000 steps, of which every tenth is flushed and gets further values, its own or, from step 5, late."""
    logger = MetricsCSV(tmp_path)
    logger.log_metrics({"a": 0.5, "mean": 1.0, "late": 2.0}, 0)
    expected = {0: {"step": "0", "a": "0.5", "mean": "1.0", "late": "2.0"}}
    path = tmp_path / "metrics.csv"
    for step in range(1, 3000):
        logger.log_metrics({"a": step / 8}, step)
        expected[step] = {"step": str(step), "a": str(step / 8), "mean": "", "late": ""}
        if step % 10 == 0:
            logger.flush()
            head = path.read_bytes()[:-2000]
            file = path.stat().st_ino
            logger.log_metrics({"mean": step / 4}, step)
            expected[step]["mean"] = str(step / 4)
            logger.flush()
            if step > 5:
                logger.log_metrics({"late": 7.25}, step - 5)
                expected[step - 5]["late"] = "7.25"
            assert path.read_bytes().startswith(head) and path.stat().st_ino == file
    logger.log_metrics({"late": 1.5}, 3)  # far from the end
    expected[3]["late"] = "1.5"
    logger.log_metrics({"a": 1.0}, 2999)  # shorter than before
    expected[2999]["a"] = "1.0"
    logger.finalize("success")
    assert rows(tmp_path) == list(expected.values())
