"""`python -m ebmlab sweep`: a study by Optuna of how settings change a model's likelihood or FID."""

from __future__ import annotations

import math
import shlex
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

import yaml

from ebmlab.app.finished_run import Score
from ebmlab.app.own_configs import find_config
from ebmlab.app.run_folder import RUNS, check_name, config_name
from ebmlab.app.sweep_space import Space, read_space, sweep_parser
from ebmlab.app.sweep_trial import FIT, PAUSE, TrialFailed, run_fit
from ebmlab.drawing.figures import figure_png
from ebmlab.drawing.sweeps import Trial, draw_sweep
from ebmlab.errors import UserError, how_many, one_line, shown
from ebmlab.extras import require
from ebmlab.io.files import write_table, write_whole
from ebmlab.io.folders import make_folder

COUNTED = "counted"  # an attribute of trials that have ended by themselves, and not by a signal
HEARTBEAT = 60  # seconds; a trial that is silent for twice as long has died with its process
ATTEMPTS = 3  # to open the database
QUIET = ("--wandb=disabled", "--trainer.enable_progress_bar=false")


def sweep(given: Sequence[str]) -> None:
    """Runs trials until the study has as many as asked for, and writes its table and picture after each of them.

    Args:
        given: the words after `sweep`.

    Raises:
        UserError: an option, the space or the config is not valid, Optuna is missing, or every trial has failed.
    """
    options, handed_on = sweep_parser().parse_known_args(given)
    if options.trials < 1:
        raise UserError(f"sweep: --trials is {options.trials}, but must be at least 1")
    space = read_space(find_config(options.space))
    name = options.name or Path(options.space).stem
    check_name(name)
    optuna = _optuna()
    fit = ["--config", options.config, *QUIET, *handed_on]
    _try_out(space, fit)
    folder = RUNS / "sweeps" / name
    study = _study(optuna, options, name, folder, space, handed_on)
    runs = RUNS / config_name(["--config", options.config])

    def objective(trial: Any) -> float:
        if _before(study, trial.number) >= options.trials:
            raise OneTooMany
        run = _free(runs / f"{name}-{trial.number:04d}")
        return _scored(optuna, trial, space, fit, run=run, log=_log(folder, trial.number))

    while len(_trials(study)) < options.trials:
        if not _wait(optuna, study, options.trials):
            study.optimize(objective, n_trials=1, catch=(TrialFailed, OneTooMany))
            _write(study, space, folder)
    _write(study, space, folder)
    print(_summary(study, space, folder), flush=True)
    if failed := _failures(study, folder):
        if all(trial.state == "fail" for trial in _trials(study)):
            raise UserError(f"sweep: {failed}")
        print(shown(failed))


def _scored(optuna: Any, trial: Any, space: Space, fit: Sequence[str], *, run: Path, log: Path) -> float:
    """The score of a run with the trial's settings; raises `TrialFailed`, or `TrialPruned` where it was ended early."""

    def hear(score: Score) -> bool:
        if score.step == 0:  # that of the untrained model, which says nothing about the settings
            return False
        trial.report(score.value, score.step)
        return bool(trial.should_prune())

    settings = space.options(trial)
    print(f"trial {trial.number}: {' '.join(settings)}", file=sys.stderr, flush=True)
    try:
        score = run_fit([*fit, *settings, "--name", run.name], run, log, space.objective, hear)
    except TrialFailed as error:
        trial.set_user_attr("error", str(error))
        trial.set_user_attr(COUNTED, True)
        print(f"trial {trial.number} failed: {shown(str(error))}", file=sys.stderr, flush=True)
        raise
    except BaseException:  # a signal: the study can go on, and another trial takes the place of this one
        trial.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        raise
    trial.set_user_attr(COUNTED, True)
    if score is None:
        print(f"trial {trial.number} pruned", file=sys.stderr, flush=True)
        raise optuna.TrialPruned
    trial.set_user_attr("run", str(run))
    print(f"trial {trial.number}: {space.objective} {score}", file=sys.stderr, flush=True)
    return score.value


def _try_out(space: Space, fit: Sequence[str]) -> None:
    """Raises `UserError` unless `fit` takes the settings, and the config has the callback that logs the objective."""
    for options in space.tried_options():
        command = [*FIT, *fit, *options, "--print_config"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            raise UserError((lines or [done.stderr])[-1].removeprefix("error: "))
    callbacks = yaml.safe_load(done.stdout)["trainer"]["callbacks"] or []
    entries = [entry for entry in callbacks if entry["class_path"].endswith(f".{space.callback}")]
    if not entries:
        raise UserError(
            f"sweep: {space.objective} is logged by the callback {space.callback}, which the config lacks: add "
            f"--callbacks.{space.callback} true"
        )
    wanted = space.objective.removeprefix("fid/")
    found = [entry.get("init_args", {}).get("extractor", wanted) for entry in entries]
    if space.callback == "FID" and wanted not in found:
        raise UserError(
            f"sweep: the objective is {space.objective}, but FID's extractor is {' and '.join(found)}: add "
            f"--callbacks.FID.extractor {wanted}, or set the objective to fid/{found[0]}"
        )


def _free(run: Path) -> Path:
    """The run's folder, or one beside it if runs of another study are left: their scores are not the trial's."""
    others = (run.with_name(f"{run.name}-{i}") for i in count(2))
    return next(folder for folder in chain([run], others) if not folder.exists())


def _optuna() -> Any:
    require("sweep", "optuna")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of heartbeats, and options of samplers
    return optuna


def _study(optuna: Any, options: Any, name: str, folder: Path, space: Space, handed_on: Sequence[str]) -> Any:
    """The study of that name, which is made if there is none yet."""
    from ebmlab.app.config_files import identity

    make_folder(folder)
    url = options.storage or f"sqlite:///{folder.absolute() / 'study.db'}"
    storage = _storage(optuna, url)
    study = optuna.create_study(storage=storage, study_name=name, direction=space.direction, load_if_exists=True)
    seed = None if options.seed is None else options.seed + len(study.trials)
    # the defaults of Optuna 5; those of 4 take each setting by itself, and forget the trials that still run
    study.sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
    median = optuna.pruners.MedianPruner(n_startup_trials=4)
    study.pruner = median if options.pruner == "median" else optuna.pruners.NopPruner()
    known = dict(study.user_attrs)
    asked = {
        "objective": space.objective,
        "space": space.parameters,
        "options": list(handed_on),
        "config": identity(options.config),
    }
    for key, value in asked.items():
        if known.get(key, value) != value:
            other = "other options of fit" if key == "options" else f"another {key}"
            raise UserError(f"sweep: the study {name} was begun with {other}: choose another --name")
        study.set_user_attr(key, value)
    return study


def _storage(optuna: Any, url: str) -> Any:
    """The database. Of several processes that make its tables at the same time, one succeeds and the others wait."""
    from sqlalchemy.exc import SQLAlchemyError

    patience = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
    for attempt in range(ATTEMPTS):
        try:
            return optuna.storages.RDBStorage(url, engine_kwargs=patience, heartbeat_interval=HEARTBEAT)
        except (ImportError, ValueError, OSError, SQLAlchemyError, optuna.exceptions.OptunaError) as error:
            if attempt == ATTEMPTS - 1:
                raise UserError(f"sweep: {url} cannot be used as the database: {one_line(error)}") from error
            time.sleep(attempt)


class OneTooMany(Exception):
    """Another process has begun the last trial at the same time."""


def _before(study: Any, number: float) -> int:
    """How many of the trials with a smaller number count, or may count: other processes run them."""
    earlier = (trial for trial in study.trials if trial.number < number)
    return sum(COUNTED in trial.user_attrs or trial.state.name == "RUNNING" for trial in earlier)


def _wait(optuna: Any, study: Any, wanted: int) -> bool:
    """Waits a moment if the missing trials are run by other processes, one of which may die; whether that is so."""
    if _before(study, math.inf) < wanted:
        return False
    optuna.storages.fail_stale_trials(study)
    time.sleep(PAUSE)
    return True


def _failures(study: Any, folder: Path) -> str | None:
    """How many trials have failed, why the last of them did and where its output is; None if none has failed."""
    counted = [trial for trial in study.trials if COUNTED in trial.user_attrs]
    failed = [trial for trial in counted if trial.state.name == "FAIL"]
    if not failed:
        return None
    last = failed[-1]
    reason, log = last.user_attrs["error"], str(_log(folder, last.number))
    where = "" if log in reason else f": see {log}"
    return f"{len(failed)} of {len(counted)} trials failed, the last of them (trial {last.number}) by: {reason}{where}"


def _log(folder: Path, number: int) -> Path:
    """What the run of a trial prints."""
    return folder / f"trial-{number:04d}.log"


def _trials(study: Any) -> list[Trial]:
    return [
        Trial(trial.number, trial.state.name.lower(), _value(trial), dict(trial.params))
        for trial in study.trials
        if COUNTED in trial.user_attrs
    ]


def _value(trial: Any) -> float | None:
    """The trial's score; of a pruned one the last that it had. A failed one has none, whatever it logged before."""
    if trial.state.name == "PRUNED":
        return next(reversed(trial.intermediate_values.values()), None)
    value: float | None = trial.value
    return value


def _write(study: Any, space: Space, folder: Path) -> None:
    """The table of all trials, and the picture."""
    trials = _trials(study)
    rows = [{"trial": t.number, "state": t.state, space.objective: t.value} | t.settings for t in trials]
    write_table(folder / "trials.csv", ["trial", "state", space.objective, *space.parameters], rows)
    if trials:
        figure = draw_sweep(trials, space.objective, space.direction == "maximize", space.scales)
        write_whole(folder / "study.png", figure_png(figure))


def _summary(study: Any, space: Space, folder: Path) -> str:
    trials = _trials(study)
    states = [trial.state for trial in trials]
    words = {"complete": "complete", "pruned": "pruned", "fail": "failed"}
    counts = ", ".join(f"{states.count(state)} {word}" for state, word in words.items())
    lines = [f"{how_many(len(trials), 'trial')}: {counts}"]
    if "complete" in states:
        best = study.best_trial
        lines.append(
            f"  best       {space.objective} {best.value:.5g} in trial {best.number}: {best.user_attrs['run']}"
        )
        lines += [f"             --{name} {shlex.quote(str(value))}" for name, value in best.params.items()]
    return "\n".join([*lines, f"  table      {folder / 'trials.csv'}", f"  picture    {folder / 'study.png'}"])
