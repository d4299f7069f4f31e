"""`python -m ebmlab sample`: runs a study from a config, and writes its tables and pictures."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import torch
from jsonargparse import ActionConfigFile, Namespace
from lightning_fabric import Fabric
from omegaconf import OmegaConf
from pytorch_lightning.loggers import WandbLogger

from ebmlab.app.config_files import NAMED
from ebmlab.app.loggers import make_loggers
from ebmlab.app.run_folder import CONFIG, RUNS, claim, config_name, new_run
from ebmlab.app.wandb_run import WandbMode, git_commit
from ebmlab.drawing.race_plots import write_overview, write_target
from ebmlab.errors import WHY, UserError, explained
from ebmlab.io.files import whole
from ebmlab.numerics.launch import launched_rank
from ebmlab.studies.columns import curve_labels
from ebmlab.studies.file_names import result_file
from ebmlab.studies.race import Result
from ebmlab.studies.report import write_tables, write_texts
from ebmlab.studies.study import Study

SAMPLERS = "samplers.yaml"  # the settings of all samplers of a run, those too that its last start left out
RUNTIME = {"config", "name", "resume", "accelerator", "devices", "wandb", "wandb_project"}  # no result depends on these


_SECTION = rf"--({'|'.join(NAMED)})"
_ENTRY = re.compile(rf"{_SECTION}\.([^=]+)")
_LEFT_OUT = re.compile(rf"{_SECTION}\.(.+)=(?:null|false)")  # names may hold "=", as "W = 0.5"


def sample(args: list[str], parser: Any) -> None:
    """Runs the study that `args` describe.

    Args:
        args: the command line without the word `sample`.
        parser: an empty parser.

    Raises:
        UserError: the settings are not valid, or the run folder is in use.
    """
    _add_options(parser)
    config = _parse(args, parser)
    with explained(
        f"--accelerator {config.accelerator} --devices {config.devices}: {WHY}", (RuntimeError, ValueError, TypeError)
    ):
        fabric = Fabric(accelerator=config.accelerator, devices=config.devices)
    experiment = config_name(args)
    folder = _folder(experiment, config)
    torch.manual_seed(config.seed)  # some targets have random weights
    objects = parser.instantiate_classes(config)
    study = Study(**{f.name: objects[f.name] for f in fields(Study)})
    study.check(fabric.world_size)
    settings = _settings(parser.dump(_portable(config)))
    earlier = _same(settings, folder, study) if config.resume else {}
    fabric.launch()
    if fabric.is_global_zero:
        with whole(folder / SAMPLERS) as path:
            OmegaConf.save({**earlier, **settings["samplers"]}, path)
        parser.save(_portable(config), folder / CONFIG, overwrite=True, skip_check=True)
    measures = study.measures or {}
    log_curves = {label for name, label in curve_labels(measures).items() if measures[name].log_scale}
    pictures: list[Path] = []

    def report(results: list[Result]) -> None:
        write_tables(results, folder)
        write_texts(results, folder)  # the newest is not the last if a sampler was added to a resumed run
        if len(results) % len(study.samplers) == 0:  # a target is done
            pictures.extend(write_target(results[-len(study.samplers) :], folder, log_curves))

    try:
        results = study.run(fabric, folder, report=report)
    except Exception:
        if fabric.is_global_zero and not (folder / "results").exists():
            shutil.rmtree(folder)  # it failed before the first result, so that no run has begun
        raise
    except KeyboardInterrupt:
        name = shlex.quote(folder.name)
        raise UserError(f"stopped; go on with the same command and --resume true --name {name}") from None
    if fabric.is_global_zero:
        pictures += write_overview(results, folder, log_curves, study.sweep)
        print("", write_tables(results, folder), f"  table      {folder / 'table.csv'}", sep="\n")
        print(*(f"  picture    {path}" for path in pictures), sep="\n")
        _to_wandb(config, folder, experiment, results, pictures)


def _add_options(parser: Any) -> None:
    parser.add_argument(
        "-c", "--config", action=ActionConfigFile, help="A study's config, such as configs/sampling/ising_5x5.yaml."
    )
    parser.add_class_arguments(Study)
    parser.add_argument("--name", type=str | None, default=None, help="Name of the run's folder. Default: the time.")
    parser.add_argument("--resume", type=bool, default=False, help="Continue the run called --name.")
    parser.add_argument(
        "--accelerator", type=str, default="auto", help="Where to run: cpu, gpu, ... (see Lightning Fabric)."
    )
    parser.add_argument("--devices", type=int, default=1, help="Number of devices to spread the chains over.")
    parser.add_argument("--wandb", type=WandbMode | None, help="W&B mode. Default: $WANDB_MODE, else offline.")
    parser.add_argument("--wandb_project", type=str | None, help="W&B project. Default: $WANDB_PROJECT, else ebmlab.")


def _parse(args: list[str], parser: Any) -> Namespace:
    """The config, without the entries that options such as `--samplers.GWG=null` leave out."""
    joined, rest = [], iter(args)
    for arg in rest:  # `--samplers.GWG null` becomes `--samplers.GWG=null`
        joined.append(f"{arg}={next(rest, '')}" if _ENTRY.fullmatch(arg) else arg)
    nulls = {arg: match.groups() for arg in joined if (match := _LEFT_OUT.fullmatch(arg))}
    try:
        config: Namespace = parser.parse_args([arg for arg in joined if arg not in nulls])
    except UserError:
        _check_entries(joined, parser)
        raise
    leave_out = {arg: (section, name) for arg, (section, name) in nulls.items() if name in (config[section] or {})}
    for arg, (section, name) in nulls.items():
        if arg not in leave_out and "." not in name:
            entries = ", ".join(config[section] or {}) or "none"
            raise UserError(f"{arg}: there is no {name} to leave out of {section}; the config has {entries}")
    if leave_out != nulls:  # the others set an option of an entry, such as `--samplers.LB.tuner=null`
        config = parser.parse_args([arg for arg in joined if arg not in leave_out])
    for section, name in set(leave_out.values()):
        del config[section][name]
    return config


def _check_entries(args: list[str], parser: Any) -> None:
    """Raises `UserError` for an option of an entry that the config lacks and that no other option makes."""
    given = {arg: match.groups() for arg in args if (match := _ENTRY.match(arg))}
    try:
        config = parser.parse_args([arg for arg in args if arg not in given])
    except UserError:  # which the first error may tell better
        return
    for arg, (section, path) in given.items():
        known, name = config[section] or {}, path.partition(".")[0]
        makes = {(section, f"{name}{end}") for end in ("", ".class_path", ".sampler", ".sampler.class_path")}
        if not any(path.startswith(f"{entry}.") for entry in known) and makes.isdisjoint(given.values()):
            close = difflib.get_close_matches(name, known, n=1)
            mend = f"did you mean {close[0]}?" if close else f"the config has {', '.join(known) or 'none'}"
            raise UserError(f"{arg.partition('=')[0]}: there is no {name} in {section}; {mend}")


def _portable(config: Namespace) -> Namespace:
    config = config.clone()
    config["name"], config["resume"] = None, False  # they apply to this start of the run only
    return config


def _settings(text: str) -> dict[str, Any]:
    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.create(text)))


def _same(now: dict[str, Any], folder: Path, study: Study) -> dict[str, Any]:
    """The settings of the samplers of a run that is resumed, those too that its last start left out.

    Raises:
        UserError: a setting is not the run's own. Samplers may be added or left out, and may change while they have no
            result.
    """
    then = _settings((folder / CONFIG).read_text())
    for key in now:
        if key in then.keys() - RUNTIME - {"samplers"} and now[key] != then[key]:
            raise UserError(
                f"--resume true: {key} differs from the run's own in {folder / CONFIG}; give this run another --name"
            )
    kept = folder / SAMPLERS  # earlier versions did not write it
    earlier: dict[str, Any] = _settings(kept.read_text()) if kept.exists() else then["samplers"]
    for name in now["samplers"].keys() & earlier.keys():
        done = any(result_file(folder, target, str(name)).exists() for target in study.targets)
        if done and now["samplers"][name] != earlier[name]:
            raise UserError(
                f"--resume true: samplers.{name} differs from that of the results in {folder / 'results'}; give this "
                "run another --name, or the sampler another name"
            )
    return earlier


def _folder(experiment: str, config: Namespace) -> Path:
    if not config.resume:
        folder = RUNS / experiment / str(config.name)
        if config.name is not None and (folder / CONFIG).exists() and "LOCAL_RANK" not in os.environ:
            raise UserError(f"{folder} exists already: go on with it by --resume true, or choose another --name")
        return new_run(experiment, config.name)
    folder = RUNS / experiment / str(config.name)
    if config.name is None:
        raise UserError("--resume true: say which run to go on with by --name")
    if not folder.is_dir():
        raise UserError(f"--resume true: no run {folder} to go on with; name one with --name")
    if not (folder / CONFIG).is_file():
        raise UserError(
            f"--resume true: {folder} has no {CONFIG}, so no study has begun there; leave --resume out to begin it, or "
            "name another run with --name"
        )
    if not launched_rank():
        claim(folder)
    return folder


def _to_wandb(config: Namespace, folder: Path, experiment: str, results: list[Result], pictures: list[Path]) -> None:
    for logger in make_loggers(folder, experiment, config.wandb, config.wandb_project):
        if not isinstance(logger, WandbLogger):
            continue
        columns = list(dict.fromkeys(key for r in results for key in r.row))
        rows = [[r.target, r.sampler, *(r.row.get(c) for c in columns)] for r in results]
        with warnings.catch_warnings(action="ignore"):  # W&B's own deprecations
            logger.log_hyperparams({**config.as_dict(), "git_commit": git_commit()})
            logger.log_table("table", columns=["target", "sampler", *columns], data=rows)
            for path in pictures:
                logger.log_image(path.stem, [str(path)])
            logger.experiment.finish()
