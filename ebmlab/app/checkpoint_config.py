"""What is taken of a config that lies beside a checkpoint, and may be a stranger's.

A config that this user's ebmlab has written, unchanged since, is the user's own and counts as a whole. Of any other one
three settings are taken, by a closed schema: the seed, the model and the data. They name classes of ebmlab's own tables
and parts of torch that train them, with numbers and words. Paths and downloads are left out of the data. The trainer,
callbacks, loggers, W&B and all the rest come from options, from a config named by `--config`, or from defaults.
"""

from __future__ import annotations

import inspect
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytorch_lightning.callbacks

from ebmlab.app.class_paths import LIBRARY, full_names
from ebmlab.app.interpolation import absolute_names
from ebmlab.app.plain_yaml import as_mapping, plain_yaml
from ebmlab.app.sources import public
from ebmlab.app.trust import denied
from ebmlab.data.interface import Data
from ebmlab.errors import UserError
from ebmlab.io import rebuilding as recipes
from ebmlab.io.files import read_given
from ebmlab.io.old_names import bring_up_to_date

TABLES = ("ebmlab", "torch", "pytorch_lightning.cli.ReduceLROnPlateau")  # whose parts a model may name
NOT_DATA = ("root", "path", "train", "val", "test", "download")  # options of datamodules that are paths or reach out
_SETTING = re.compile(r"\$\{setting:[A-Za-z_][\w.]*\}|\$\{event_size:\d?\}")
_WORDS = re.compile(r"[\w-][\w /+-]{0,99}")  # also an alphabet that begins with the letter of a gap
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def beside(path: Path) -> dict[str, Any]:
    """The settings that are taken of a config beside a checkpoint: `seed_everything`, `model` and `data`.

    Raises:
        UserError: it cannot be read, names code outside of the tables, or one of the three is not plain.
    """
    config = plain_yaml(absolute_names(full_names(read_given(path, str(path)))), path)
    config = as_mapping(config, path, "`model`, or name the config that the checkpoint was trained with by --config")
    if not isinstance(config.get("model"), dict | str):
        raise UserError(f"{path} has no model: name the config that the checkpoint was trained with by --config")
    bring_up_to_date(config)
    _check_named(config)
    taken = {"model": _plain(config["model"], f"{path}: model")}
    if config.get("data") is not None:
        taken["data"] = _data(config["data"], path)
    if isinstance(config.get("seed_everything"), int):
        taken["seed_everything"] = config["seed_everything"]
    return taken


def check_given(taken: dict[str, Any], path: Path, options: dict[str, str]) -> None:
    """Raises `UserError` if the data need a path, which the options do not give."""
    data = taken.get("data")
    if data is None or "--data" in options:
        return
    parameters = inspect.signature(recipes.imported(data["class_path"])).parameters
    for name in NOT_DATA:
        needed = name in parameters and parameters[name].default is inspect.Parameter.empty
        if needed and not options.keys() & {f"--data.{name}", f"--data.init_args.{name}"}:
            raise UserError(
                f"{path}: data.{name} says where data lie, which is yours to say: add --data.{name}, or name the "
                "config by --config if you trust it"
            )


def _check_named(node: Any) -> None:
    """Raises `UserError` if a config names other code anywhere, also where it would not be taken."""
    if isinstance(node, dict):
        if "class_path" in node and not _is_known(str(node["class_path"])):
            raise UserError(denied(str(node["class_path"])))
        node = list(node.values())
    for part in node if isinstance(node, list) else ():
        _check_named(part)


def _is_known(path: str) -> bool:
    kind = path.rpartition(".")[2]
    takes_functions = getattr(pytorch_lightning.callbacks, kind, None) is pytorch_lightning.callbacks.LambdaCallback
    return not takes_functions and any(f"{path}.".startswith(f"{entry}.") for entry in LIBRARY)


def _plain(value: Any, where: str) -> Any:
    """A value of the closed schema; raises `UserError` for any other one."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list):
        return [_plain(part, where) for part in value]
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, dict) and "class_path" in value:
        path, extra = str(value["class_path"]), value.keys() - {"class_path", "init_args", "dict_kwargs"}
        if extra:
            raise UserError(f"{where}: {path} has {', '.join(map(str, extra))} beside its class_path and init_args")
        recipes.find(_of_tables(path))
        given = {key: value[key] for key in ("init_args", "dict_kwargs") if value.get(key) is not None}
        return {"class_path": path} | {key: _plain(options, where) for key, options in given.items()}
    if isinstance(value, dict):
        return {_key(key, where): _plain(part, f"{where}.{key}") for key, part in value.items()}
    raise UserError(f"{where} is {value!r}, but must be a number, a word, or a class with such options")


def _text(value: str, where: str) -> Any:
    if _SETTING.fullmatch(value):
        return value
    if _CLASS.fullmatch(value):
        recipes.find(_of_tables(value))
        return {"class_path": value}
    with suppress(ValueError):
        return float(value)
    if not _WORDS.fullmatch(value) or os.path.lexists(value):  # the parser would read a file of that name
        raise UserError(
            f"{where} is {value[:60]!r}, but a config beside a checkpoint gives numbers and words alone: if you trust "
            "it, name the config by --config"
        )
    return value


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str) or not key.isidentifier() or key.startswith("_"):
        raise UserError(f"{where}: {str(key)[:60]!r} is no name of an option")
    return key


def _of_tables(path: str) -> str:
    if not any(f"{path}.".startswith(f"{entry}.") for entry in TABLES):
        raise UserError(denied(path))
    return path


def _data(section: Any, path: Path) -> dict[str, Any]:
    """A datamodule of ebmlab's with numbers and words, without paths; what it may download the user has to say."""
    section = {"class_path": section} if isinstance(section, str) else section
    name = str(section.get("class_path")) if isinstance(section, dict) else ""
    known = {source.path for source in public("ebmlab.datamodules").values()}
    known |= {f"ebmlab.datamodules.{kind}" for kind in public("ebmlab.datamodules")}
    if name not in known:
        raise UserError(denied(name) if name else f"{path}: data is no class_path with init_args")
    kind = recipes.imported(name)
    if not (isinstance(kind, type) and issubclass(kind, Data)):
        raise UserError(f"{path}: data is {name}, which is no datamodule")
    options = {**(section.get("init_args") or {}), **(section.get("dict_kwargs") or {})}
    taken = {key: _plain(value, f"{path}: data.{key}") for key, value in options.items() if key not in NOT_DATA}
    if "download" in inspect.signature(kind).parameters:
        taken["download"] = False
    return {"class_path": name, "init_args": taken}
