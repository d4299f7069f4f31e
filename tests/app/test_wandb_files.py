"""What a run sends to W&B, read back from the file that an offline run leaves for `wandb sync`."""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from helpers_trainer import quiet_trainer
from wandb.proto import wandb_internal_pb2

from ebmlab.app.loggers import make_loggers
from ebmlab.app.wandb_run import WandbOptions, WandbRun, score_tables, wandb_run
from ebmlab.errors import UserError

BLOCK = 2**15  # the file is a log in blocks, each record in one or several parts with a header of 7 bytes


def records(folder: Path) -> Iterator[Any]:
    """The records of the only offline run under a folder."""
    paths = list(folder.glob("wandb/offline-run-*/*.wandb"))
    assert len(paths) <= 1
    data, place, part = b"".join(path.read_bytes() for path in paths), 7, b""  # none is there before its first record
    while place + 7 <= len(data):
        if BLOCK - place % BLOCK < 7:
            place += BLOCK - place % BLOCK
            continue
        size, kind = struct.unpack("<HB", data[place + 4 : place + 7])
        part += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            record = wandb_internal_pb2.Record()
            record.ParseFromString(part)
            yield record
            part = b""


class Sent:
    """The history by metric, the summary, the run's own record, and how metrics are summarised."""

    def __init__(self, folder: Path) -> None:
        self.history: dict[str, list[Any]] = {}
        self.summary: dict[str, Any] = {}
        self.modes: dict[str, str] = {}
        self.run: Any = None
        self.artifacts: list[str] = []
        wandb.finish()  # a background process writes the file, and an exit record at its end
        while not any(record.HasField("exit") for record in records(folder)):
            time.sleep(0.1)
        for record in records(folder):
            kind = record.WhichOneof("record_type")
            for item in record.history.item if kind == "history" else ():
                key = item.key or "/".join(item.nested_key)
                self.history.setdefault(key, []).append(json.loads(item.value_json))
            for item in record.summary.update if kind == "summary" else ():
                self.summary[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
            if kind == "run":
                self.run = record.run
            if kind == "metric":
                chosen = record.metric.summary
                self.modes[record.metric.name] = "max" if chosen.max else "min" if chosen.min else ""
            if kind == "request" and record.request.WhichOneof("request_type") == "log_artifact":
                self.artifacts.append(record.request.log_artifact.artifact.type)
            if kind == "artifact":
                self.artifacts.append(record.artifact.type)


def of(sent: Sent, key: str) -> dict[str, list[Any]]:
    """The parts of a picture, a histogram or a table, by name."""
    return {k.removeprefix(f"{key}/"): v for k, v in sent.history.items() if k.startswith(f"{key}/")}


@pytest.mark.slow
def test_a_run_says_what_it_shows(run: Callable[..., None]) -> None:
    Path("mine.py").write_text("answer = 42\n")
    run(
        *("fit", "--wandb=offline", "--name=a", "--trainer.max_epochs=1", "--callbacks.ParameterImages=false"),
        *("--callbacks.FID.num_samples=20", "--callbacks.FID.num_steps=1"),
        *("--callbacks.EnergyHistograms.num_samples=30", "--callbacks.EnergyHistograms.num_rows=4"),
        *("--wandb_run.tags=[small,test]", "--wandb_run.notes=why", "--wandb_run.watch=gradients"),
        *("--wandb_run.save_code=true", "--wandb_run.entity=me", "--callbacks.SampleGrid.every_n_epochs=1"),
    )
    folder = Path("runs/grbm_digits/a")
    sent = Sent(folder)
    assert (list(sent.run.tags), sent.run.notes, sent.run.job_type) == (["small", "test"], "why", "train")
    assert (sent.run.entity, sent.run.run_group) == ("me", "grbm_digits")
    captions = of(sent, "samples/grid")["captions"]
    assert captions[0] == ["step 0, GibbsLangevin, 2 steps"] and len(captions) == 2
    histograms = of(sent, "energies/negatives")
    assert set(histograms["_type"]) == {"histogram"} and all(sum(bins) == 30 for bins in histograms["values"])
    table = of(sent, "energies/samples")
    assert set(table["_type"]) == {"table-file"} and set(table["nrows"]) == {12}
    assert of(sent, "tables/fid")["_type"] == ["table-file"]
    assert sent.modes["fid/classifier"] == "min" and sent.modes["ais/trusted_log_likelihood"] == "max"
    values = sent.history["fid/classifier"]
    assert sent.summary["fid/classifier"] == {"min": min(values)} and len(values) > 1
    assert any(key.startswith("gradients/") for key in sent.history)
    assert "code" in sent.artifacts
    assert list(folder.glob("wandb/offline-run-*/files/media/table/energies/samples*.table.json"))


@pytest.fixture
def logger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., WandbRun]:
    monkeypatch.chdir(tmp_path)

    def call(**options: Any) -> WandbRun:
        found = wandb_run(tmp_path, "e", "offline", None, False, WandbOptions(**options))
        assert found is not None
        return found

    return call


def test_only_likelihoods_that_are_to_be_trusted_are_trusted(logger: Callable[..., WandbRun], tmp_path: Path) -> None:
    found = logger()
    found.log_metrics({"ais/log_likelihood": -90.0, "ais/bits_per_dim": 0.5, "ais/trusted": 1.0}, 10)
    found.log_metrics({"ais/log_likelihood": -50.0, "ais/bits_per_dim": 0.2, "ais/trusted": 0.0}, 20)
    (tmp_path / "metrics.csv").write_text(
        "step,train/loss,ais/log_likelihood,ais/std_error,ais/trusted\n9,1.0,,,\n10,,-90.0,0.2,1.0\n20,,-50.0,,0.0\n"
    )
    (tmp_path / "fid.csv").write_text("step,extractor,fid\n10,inception,9.5\n")
    assert score_tables(tmp_path) == {
        "likelihoods": (
            ["step", "log_likelihood", "std_error", "trusted"],
            [[10.0, -90.0, 0.2, 1.0], [20.0, -50.0, None, 0.0]],
        ),
        "fid": (["step", "extractor", "fid"], [[10.0, "inception", 9.5]]),
    }
    found.finalize("success")
    sent = Sent(tmp_path)
    assert sent.history["ais/log_likelihood"] == [-90.0, -50.0]
    assert sent.history["ais/trusted_log_likelihood"] == [-90.0] and sent.history["ais/trusted_bits_per_dim"] == [0.5]
    assert of(sent, "tables/likelihoods")["nrows"] == [2] and of(sent, "tables/fid")["nrows"] == [1]


def test_options(logger: Callable[..., WandbRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_TAGS", "first,small")
    init = logger(tags=["mine"], job_type="trial")._wandb_init
    assert (init["tags"], init["job_type"]) == (["first", "small", "mine"], "trial")
    evaluation = wandb_run(tmp_path / "test", "e", "offline", None, True)
    assert evaluation is not None and evaluation._wandb_init["job_type"] == "test"
    with pytest.raises(UserError, match="add --wandb online"):
        logger(log_model=True)


def test_tensorboard_gets_the_same(run: Callable[..., None]) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(
        *("fit", "--tensorboard=true", "--name=t", "--trainer.max_epochs=1", "--callbacks.FID=false"),
        *("--callbacks.ParameterImages=false", "--callbacks.EnergyHistograms.num_samples=30"),
    )
    events = EventAccumulator("runs/grbm_digits/t/tensorboard")
    events.Reload()
    tags = events.Tags()
    assert {"samples/grid", "samples/chain", "energies/histogram"} <= set(tags["images"])
    assert {"energies/train", "energies/negatives"} <= set(tags["histograms"]) and "train/energy_gap" in tags["scalars"]


def test_tensorboard_that_is_missing_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UserError, match=r"pip install 'ebmlab\[tensorboard\]'"):
        make_loggers(tmp_path, "e", "disabled", None, tensorboard=True)


def test_wandb_that_fails_when_a_run_begins_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user without a home. One warning says so, and W&B is not asked again."""
    asked = []

    def no_home(*_: Any, **__: Any) -> None:
        asked.append(1)
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(wandb, "init", no_home)
    run = wandb_run(tmp_path, "e", "offline", None, evaluates=False)
    assert run is not None
    with pytest.warns(UserWarning, match="W&B failed .*Could not determine home directory.*training goes on") as said:
        run.log_hyperparams({"a": 1})
        run.begin(quiet_trainer(tmp_path))
        run.log_metrics({"train/loss": 1.0}, 1)
    assert len(asked) == len(said) == 1
