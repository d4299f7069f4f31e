"""A study survives failing runs, signals and company, and never judges by what is no score."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers_errors import refused
from helpers_tier import cases
from PIL import Image

from ebmlab.app import sweep as module
from ebmlab.app import sweep_trial
from ebmlab.app.cli import main
from ebmlab.app.finished_run import Score
from ebmlab.app.sweep import sweep
from ebmlab.app.sweep_space import read_space, sweep_parser
from ebmlab.app.sweep_trial import TrialFailed, run_fit
from ebmlab.drawing.figures import figure_png
from ebmlab.drawing.sweeps import Trial, draw_sweep
from ebmlab.errors import UserError

optuna = pytest.importorskip("optuna")
ROOT = Path(__file__).parents[2]
SPACES = {path.stem: path for path in sorted((ROOT / "configs" / "sweeps").glob("*.yaml"))}
SPACE = "objective: fid/classifier\nspace: {rate: {low: 1.0e-4, high: 1.0, log: true}, kind: [good, bad]}"
# Stands in for `fit`: logs a FID of three steps, which depends on the options, and obeys `kind`.
FIT = """
import sys, time
from pathlib import Path

options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
if "--print_config" in sys.argv:
    if "nonsense" in options:
        sys.exit("error: there is no option nonsense")
    if options.get("kind") == "misspelt":
        sys.exit("error: there is no kind misspelt")
    given = "init_args: {extractor: %s}" % options["extractor"] if "extractor" in options else ""
    print("trainer: {callbacks: [{class_path: callbacks.%s, %s}]}" % (options.get("callback", "FID"), given))
    sys.exit()
folder = Path("runs", "exp", sys.argv[sys.argv.index("--name") + 1])
folder.mkdir(parents=True)
(folder / "config.yaml").write_text("{}")
kind, fid = options.get("kind"), 10 + float(options.get("rate", 0))
if kind == "bad":
    sys.exit("warming up\\nerror: the energy is not finite")
rows = "step,fid/classifier,ais/log_likelihood,ais/trusted\\n"
if kind == "late bloomer":
    rows += f"0,{1000 + fid},-90.0,1\\n"
    (folder / "metrics.csv").write_text(rows)
    time.sleep(0.3)
for step in (1, 2, 3):
    rows += f"{step},{fid / step if kind != 'nan' else 'nan'},-90.0,{int(kind != 'doubtful')}\\n"
    (folder / "metrics.csv").write_text(rows if kind != "silent" else "step,train/loss\\n1,2.0\\n")
    if kind == "slow":
        time.sleep(60)
    if kind == "late":
        time.sleep(0.1)
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, str]]]:
    """Runs a sweep of the stand-in, and returns its table."""
    monkeypatch.chdir(tmp_path)
    Path("fit.py").write_text(FIT)
    Path("exp.yaml").write_text("{}")
    Path("space.yaml").write_text(SPACE)
    for where in (module, sweep_trial):
        monkeypatch.setattr(where, "FIT", [sys.executable, "fit.py"])
    monkeypatch.setattr(sweep_trial, "PAUSE", 0.01)
    monkeypatch.setattr(module, "ATTEMPTS", 1)

    def call(*options: str, space: str = SPACE, seed: int = 0) -> list[dict[str, str]]:
        Path("space.yaml").write_text(space)
        sweep(["--config", "exp.yaml", "--space", "space.yaml", "--name=s", f"--seed={seed}", *options])
        return table()

    return call


def table() -> list[dict[str, str]]:
    with Path("runs/sweeps/s/trials.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_failing_runs_do_not_end_a_study_and_the_same_command_goes_on(
    study: Callable[..., list[dict[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    first = study("--trials=5", "--pruner=none")
    assert len(first) == 5 and {row["state"] for row in first} == {"complete", "fail"}
    for row in first:
        expected = "" if row["kind"] == "bad" else str((10 + float(row["rate"])) / 3)
        assert row["fid/classifier"] == expected and (row["state"] == "fail") == (row["kind"] == "bad")
    best = min((row for row in first if row["state"] == "complete"), key=lambda row: float(row["fid/classifier"]))
    told = capsys.readouterr()
    assert (
        f"in trial {best['trial']}: runs/exp/s-000{best['trial']}" in told.out and f"--rate {best['rate']}" in told.out
    )
    assert "failed: the energy is not finite" in told.err
    second = study("--trials=7", "--pruner=none")
    assert second[:5] == first and len(second) == 7
    assert study("--trials=7", "--pruner=none") == second  # there is nothing left to do
    with Image.open("runs/sweeps/s/study.png") as picture:
        assert picture.size[0] > 1000


@pytest.mark.slow
def test_a_sweep_whose_trials_all_fail_has_failed(
    study: Callable[..., list[dict[str, str]]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when there is nothing left to do. One trial with a score suffices for success; the failed ones are told."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("space.yaml").write_text(SPACE.replace("[good, bad]", "[bad]"))
    words = ["sweep", "--config", "exp.yaml", "--space", "space.yaml", "--name=s", "--trials=2"]
    for _ in range(2):
        with pytest.raises(SystemExit) as stop:
            main(words)
        told = capsys.readouterr()
        *_, line = told.err.splitlines()
        assert stop.value.code == 2 and "2 trials: 0 complete, 0 pruned, 2 failed" in told.out
        assert line == (
            "error: sweep: 2 of 2 trials failed, the last of them (trial 1) by: the energy is not finite: see "
            "runs/sweeps/s/trial-0001.log"
        )
    assert "error: the energy is not finite" in Path("runs/sweeps/s/trial-0001.log").read_text()
    Path("fit.py").write_text(FIT.replace('"bad"', '"worse"'))  # from now on they succeed
    main([*words[:-1], "--trials=3"])
    *_, line = capsys.readouterr().out.splitlines()
    assert line.startswith("2 of 3 trials failed, the last of them (trial 1) by: the energy is not finite: see ")


@pytest.mark.slow
def test_a_study_is_not_continued_with_another_question(study: Callable[..., list[dict[str, str]]]) -> None:
    study("--trials=1")
    for options, space, said in (
        ((), SPACE.replace("1.0,", "0.5,"), "the study s was begun with another space"),
        (("--callbacks.FID.num_samples=9",), SPACE, "the study s was begun with other options of fit"),
        ((), SPACE.replace("fid/classifier", "fid/inception"), "the study s was begun with another objective"),
    ):
        with pytest.raises(UserError, match=said):
            study(*options, space=space)
    Path("exp.yaml").write_text("model: {num_steps: 9}")
    with pytest.raises(UserError, match="the study s was begun with another config: choose another --name"):
        study("--trials=2")
    assert len(table()) == 1


@pytest.mark.slow
def test_a_study_goes_on_with_the_same_settings_in_other_words_and_if_it_is_old(
    study: Callable[..., list[dict[str, str]]],
) -> None:
    Path("exp.yaml").write_text("model: {num_steps: 9}\nseed_everything: 0")
    study("--trials=1")
    Path("base.yaml").write_text("# the same settings\nseed_everything: 0\nmodel: {num_steps: 8}")
    Path("exp.yaml").write_text("base: base.yaml\nmodel: {num_steps: 9}")
    assert len(study("--trials=2")) == 2
    with contextlib.closing(sqlite3.connect("runs/sweeps/s/study.db")) as database, database:
        removed = database.execute("DELETE FROM study_user_attributes WHERE key = 'config'")
        assert removed.rowcount == 1  # older versions did not remember the config
    Path("exp.yaml").write_text("model: {num_steps: 7}")
    assert len(study("--trials=3")) == 3


@pytest.mark.slow
def test_runs_of_a_study_that_was_deleted_give_no_scores(study: Callable[..., list[dict[str, str]]]) -> None:
    space = SPACE.replace("[good, bad]", "[good]")
    study("--trials=2", space=space)
    shutil.rmtree("runs/sweeps")
    rows = study("--trials=2", space=space, seed=1)
    assert [row["fid/classifier"] for row in rows] == [str((10 + float(row["rate"])) / 3) for row in rows]
    assert sorted(path.name for path in Path("runs/exp").iterdir()) == ["s-0000", "s-0000-2", "s-0001", "s-0001-2"]


@pytest.mark.slow
def test_a_trial_that_fails_late_has_no_score(study: Callable[..., list[dict[str, str]]]) -> None:
    Path("fit.py").write_text(FIT + "sys.exit('error: the energy is not finite')")
    with pytest.raises(UserError, match="1 of 1 trials failed"):
        study("--trials=1", space=SPACE.replace("[good, bad]", "[late]"))
    (row,) = table()
    loaded = optuna.load_study(study_name="s", storage="sqlite:///runs/sweeps/s/study.db")
    assert loaded.trials[0].intermediate_values  # it had been heard of
    assert (row["state"], row["fid/classifier"]) == ("fail", "")


@pytest.mark.slow
def test_bad_runs_are_pruned(study: Callable[..., list[dict[str, str]]]) -> None:
    """With four trials done, one whose first score is above their median ends at once."""
    study("--trials=4", space=SPACE.replace(", bad", ""))
    loaded = optuna.load_study(study_name="s", storage="sqlite:///runs/sweeps/s/study.db")
    loaded.enqueue_trial({"rate": 0.9999, "kind": "good"})
    rows = study("--trials=5", space=SPACE.replace(", bad", ""))
    assert rows[-1]["state"] == "pruned" and rows[-1]["rate"] == "0.9999"
    assert [row["state"] for row in rows[:4]] == ["complete"] * 4


@pytest.mark.slow
def test_the_score_of_the_untrained_model_prunes_nothing(study: Callable[..., list[dict[str, str]]]) -> None:
    """It says nothing about the settings: here it is the worst of all, and the trained model is the best."""
    space = SPACE.replace("good, bad", "late bloomer")
    study("--trials=4", space=space)
    loaded = optuna.load_study(study_name="s", storage="sqlite:///runs/sweeps/s/study.db")
    loaded.enqueue_trial({"rate": 0.9999, "kind": "late bloomer"})
    rows = study("--trials=5", space=space)
    assert all(0 not in trial.intermediate_values for trial in loaded.trials)
    assert [row["state"] for row in rows[:4]] == ["complete"] * 4
    ended = loaded.trials[-1].intermediate_values
    assert ended and min(ended) > 0, "the last trial was trained before it was judged"


def test_settings_are_chosen_together_in_every_version(study: Callable[..., list[dict[str, str]]], monkeypatch) -> None:
    made: list[dict[str, object]] = []
    sampler = optuna.samplers.TPESampler
    monkeypatch.setattr(optuna.samplers, "TPESampler", lambda **options: made.append(options) or sampler(**options))
    study("--trials=1")
    assert made[-1]["multivariate"] is True and made[-1]["constant_liar"] is True


@pytest.mark.parametrize(
    ("kind", "objective", "said"),
    [
        ("nan", "fid/classifier", "fid/classifier is nan at 3"),
        ("silent", "fid/classifier", "fid/classifier was not logged"),
        ("doubtful", "ais/log_likelihood", "ais/log_likelihood is not to be trusted"),
        ("bad", "fid/classifier", "the energy is not finite"),
    ],
)
def test_a_run_without_a_score_that_counts_has_failed(
    kind: str, objective: str, said: str, study: Callable[..., Any]
) -> None:
    heard: list[Score] = []

    def hear(score: Score) -> bool:
        heard.append(score)
        return False

    with pytest.raises(TrialFailed, match=re.escape(said)):
        run_fit(["--name", "a", f"--kind={kind}"], Path("runs/exp/a"), Path("a.log"), objective, hear)
    assert heard == []


@pytest.mark.slow
def test_a_signal_leaves_a_study_that_goes_on(study: Callable[..., list[dict[str, str]]], tmp_path: Path) -> None:
    """The run is told to end too; it does not count, so that another takes its place."""
    Path("space.yaml").write_text(SPACE.replace("[good, bad]", "[slow]"))
    program = (
        "from ebmlab.app import sweep, sweep_trial; from ebmlab.app.signals import stoppable;"
        "import sys; sweep.FIT = sweep_trial.FIT = [sys.executable, 'fit.py']\n"
        "with stoppable(str): sweep.sweep(['--config=exp.yaml', '--space=space.yaml', '--name=s', '--trials=1'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL)
    while not list(Path("runs/exp").glob("*/metrics.csv")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait() != 0
    asked = optuna.load_study(study_name="s", storage="sqlite:///runs/sweeps/s/study.db")
    assert [trial.state.name for trial in asked.trials] == ["FAIL"]
    Path("fit.py").write_text(FIT.replace("time.sleep(60)", "pass"))
    rows = study("--trials=1", space=SPACE.replace("[good, bad]", "[slow]"))
    assert [row["state"] for row in rows] == ["complete"] and rows[0]["trial"] == "1"


@pytest.mark.slow
def test_two_processes_share_a_study(study: Callable[..., list[dict[str, str]]]) -> None:
    Path("space.yaml").write_text(SPACE.replace(", bad", ""))
    program = (
        "from ebmlab.app import sweep, sweep_trial; import sys; sweep_trial.PAUSE = 0.01;"
        "sweep.FIT = sweep_trial.FIT = [sys.executable, 'fit.py']\n"
        "sweep.sweep(['--config=exp.yaml', '--space=space.yaml', '--name=s', '--trials=8'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    both = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    rows = table()
    assert len(rows) in (8, 9)  # both may have been at work on the last one
    assert len({row["rate"] for row in rows}) == len(rows) == len(list(Path("runs/exp").iterdir()))


def test_what_is_wrong_is_said_in_one_line_before_anything_runs(
    study: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for options, space, said in (
        (["--trials=0"], SPACE, "--trials is 0"),
        ([], SPACE.replace("fid/classifier", "train/loss"), "a contrastive loss or an energy does not say how good"),
        ([], SPACE.replace("fid/classifier", "val/energy"), "objective is 'val/energy'"),
        ([], "space: {rate: [1]}", "objective is None"),
        ([], "objective: fid/x", "must have an objective and a space"),
        ([], SPACE + "\ntrials: 3", "and nothing else"),
        ([], SPACE.replace("1.0e-4", "0.0"), "must be numbers, above 0, for its logarithm is taken, low below high"),
        ([], SPACE.replace("high: 1.0", "high: 0.0"), "low below high"),
        ([], SPACE.replace("[good, bad]", "[]"), "choices are numbers"),
        ([], SPACE.replace("[good, bad]", "good"), "must be a list of choices"),
        ([], SPACE.replace("log: true", "integer: true"), "must be whole numbers"),
        (["--nonsense=1"], SPACE, "there is no option nonsense"),
        ([], SPACE.replace("[good, bad]", "[2, good, misspelt]"), "there is no kind misspelt"),
        (["--callback=AIS"], SPACE, "add --callbacks.FID true"),
        (
            ["--extractor=inception"],
            SPACE,
            "the objective is fid/classifier, but FID's extractor is inception: add --callbacks.FID.extractor "
            "classifier, or set the objective to fid/inception",
        ),
        (["--storage=nodatabase://x"], SPACE, "cannot be used as the database"),
        (["--name=a/b"], SPACE, "must be the name of a folder"),
        (["--space=missing.yaml"], SPACE, "missing.yaml cannot be read"),
    ):
        with refused(re.escape(said)):
            study(*options, space=space)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match=re.escape("pip install 'ebmlab[sweep]'")):
        study()
    assert not Path("runs/exp").exists()


def test_a_range_is_tried_out_by_a_value_that_a_trial_may_have(tmp_path: Path) -> None:
    """Its ends may be whole where few of its numbers are: a setting that takes whole numbers refuses the others."""
    path = tmp_path / "space.yaml"
    path.write_text("objective: fid/x\nspace: {a: {low: 10, high: 60}, b: {low: 10, high: 60, integer: true}, c: [7]}")
    (options,) = read_space(path).tried_options()
    real, whole, choice = (float(option.partition("=")[2]) for option in options)
    assert 10 < real < 60 and not real.is_integer() and whole == 10 and choice == 7


def test_every_text_that_may_be_chosen_is_tried_out(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("objective: fid/x\nspace: {a: [A, B, C], b: [1, D, E], c: [2, 3], d: [null, true]}")
    rest = ["--c=2", "--d=null"]
    assert read_space(path).tried_options() == [
        ["--a=A", "--b=D", *rest],
        ["--a=B", "--b=E", *rest],
        ["--a=C", "--b=D", *rest],
    ]


def test_the_objective_says_the_direction(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    for objective, direction, callback in (
        ("ais/log_likelihood", "maximize", "AIS"),
        ("ais/bits_per_dim", "minimize", "AIS"),
        ("fid/inception", "minimize", "FID"),
    ):
        path.write_text(f"objective: {objective}\nspace: {{model.num_steps: {{low: 1, high: 9, integer: true}}}}")
        space = read_space(path)
        assert (space.direction, space.callback) == (direction, callback)
        assert space.tried_options() == [["--model.num_steps=1"]]
        assert space.options(optuna.trial.FixedTrial({"model.num_steps": 4})) == ["--model.num_steps=4"]


@pytest.mark.parametrize("path", SPACES.values(), ids=SPACES)
def test_the_configs_for_wandb_are_spaces_too(path: Path) -> None:
    space, config = read_space(path), yaml.safe_load(path.read_text())
    assert space.parameters.keys() == config["parameters"].keys() and space.direction == f"{config['metric']['goal']}"
    assert set(space.scales.values()) <= {"log", "linear", "choices"} and "log" in space.scales.values()
    for name, ways in config["parameters"].items():
        if "min" in ways:
            assert (space.parameters[name]["low"], space.parameters[name]["high"]) == (ways["min"], ways["max"])


@pytest.mark.slow
@cases(
    "path", {path.stem: path for path in sorted((ROOT / "configs" / "sweeps").glob("*.yaml"))}, fast=["grbm_digits_fid"]
)
def test_the_command_of_wandbs_agent_runs(
    path: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command is put together by W&B's own agent; only its program, mode and length differ here."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    config = yaml.safe_load(path.read_text())
    chosen = {name: ways.get("min", ways.get("values", [None])[0]) for name, ways in config["parameters"].items()}
    made = create_sweep_command_args({"args": {name: {"value": value} for name, value in chosen.items()}})
    command = create_sweep_command(config["command"])
    place = command.index("${args}")
    words = [*command[:place], *made["args"], *command[place + 1 :]]
    assert words[:4] == ["${env}", "${interpreter}", "-m", "ebmlab"] and "--wandb=online" in words
    words = [word.replace("=configs/", f"={ROOT}/configs/") for word in words[4:] if not word.startswith("--wandb")]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ebmlab"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("EBMLAB_CACHE", str(cache))
    monkeypatch.setenv("EBMLAB_RUN_FOLDER", "")
    words += ["--wandb=disabled", "--trainer.fast_dev_run=true", "--trainer.accelerator=cpu", "--name=a"]
    main(words)
    with pytest.raises(SystemExit):
        main([*words, "--print_config"])
    model = yaml.safe_load(capsys.readouterr().out.partition("seed_everything")[2].partition("\n")[2])["model"][
        "init_args"
    ]
    assert model["num_steps"] == chosen["model.num_steps"]
    assert model["sampler"]["init_args"]["step_size"] == chosen["model.sampler.step_size"]


def test_the_space_and_the_options_of_the_page(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "sweeps.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    (tmp_path / "space.yaml").write_text(block)
    assert read_space(tmp_path / "space.yaml").scales == {
        "model.sampler.step_size": "log",
        "model.num_steps": "linear",
        "data.batch_size": "choices",
    }
    lines = re.findall(r"^python -m ebmlab sweep (.*)$", text, re.M)
    assert len(lines) == 2
    for line in lines:
        options, handed_on = sweep_parser().parse_known_args(line.split())
        assert options.trials == 20 and handed_on in ([], ["--trainer.max_epochs", "20"])
        assert (ROOT / options.config).is_file()


def test_the_picture_has_a_panel_for_each_setting() -> None:
    trials = [Trial(0, "complete", 5.0, {"rate": 0.1, "kind": "a.B"}), Trial(1, "complete", 7.0, {"rate": 1.0})]
    trials += [Trial(2, "pruned", 9.0, {"rate": 0.5, "kind": None}), Trial(3, "fail", None, {"rate": 0.2})]
    for higher, best in ((False, [5.0, 5.0]), (True, [5.0, 7.0])):
        first, rate, kind = draw_sweep(trials, "fid", higher, {"rate": "log", "kind": "choices"}).axes
        assert list(first.lines[0].get_ydata()) == best and first.get_legend().get_title().get_text() == "1 failed"
        assert (rate.get_xscale(), kind.get_xscale()) == ("log", "linear") and len(rate.collections) == 2


def test_choices_stand_in_their_order_and_without_modules() -> None:
    choices = [(20, "a.b.DMALA"), (5, "a.b.ACS"), (10, "a.b.DMALA")]
    trials = [Trial(i, "complete", float(i), {"steps": n, "kind": kind}) for i, (n, kind) in enumerate(choices)]
    _, steps, kind = draw_sweep(trials, "fid", False, {"steps": "choices", "kind": "choices"}).axes
    assert [text.get_text() for text in steps.get_xticklabels()] == ["5", "10", "20"]
    assert steps.collections[0].get_offsets()[:, 0].tolist() == [2, 0, 1]
    assert [text.get_text() for text in kind.get_xticklabels()] == ["ACS", "DMALA"]


def test_the_picture_of_trials_without_scores_says_how_many_have_failed() -> None:
    trials = [Trial(i, "fail", None, {"rate": 0.1}) for i in range(2)]
    first, _ = draw_sweep(trials, "fid", False, {"rate": "log"}).axes  # a warning would be an error
    assert first.get_legend().get_title().get_text() == "2 failed"
    figure_png(first.figure)


@pytest.mark.slow
def test_two_sweeps_at_once_keep_to_the_number_of_trials(study: Callable[..., list[dict[str, str]]]) -> None:
    """Both begin while one is missing, and one of them has to give way."""
    study("--trials=1", space="objective: fid/classifier\nspace: {rate: {low: 0.0, high: 1.0}, kind: [late]}")
    start = threading.Barrier(2)

    def take_part(seed: int) -> None:
        start.wait()
        sweep(["--config", "exp.yaml", "--space", "space.yaml", "--name=s", f"--seed={seed}", "--trials=2"])

    threads = [threading.Thread(target=take_part, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [row["state"] for row in table()] == ["complete", "complete"]
