"""Reads configs: a file states its difference from its `base`, and refers to callbacks by name."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import math
from enum import Enum
from functools import reduce
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ActionConfigFile, Namespace, get_loader
from pytorch_lightning.cli import LightningArgumentParser

from ebmlab.app.checkpoint_config import beside
from ebmlab.app.class_paths import full_names
from ebmlab.app.interpolation import absolute_names
from ebmlab.app.merging import merge
from ebmlab.app.named_callbacks import change_callbacks
from ebmlab.app.own_configs import BESIDE, find_config, is_text, own_names
from ebmlab.app.plain_yaml import as_mapping, checked_yaml
from ebmlab.errors import UserError, one_line
from ebmlab.io.files import read_text
from ebmlab.io.old_names import bring_up_to_date

BASE = "base"
CALLBACKS = "callbacks"
NAMED = ("targets", "samplers", "measures")  # sections of a study in which null removes an entry of what came before

# enumerations are the defaults of some callbacks; the parser's own texts of configs need this too
yaml.SafeDumper.add_multi_representer(Enum, lambda dumper, value: dumper.represent_str(value.name))


class ConfigFile(ActionConfigFile):
    """The option `--config`: the name of a file, whose bases are read too, or the text of a config."""

    @staticmethod
    def apply_config(parser: LightningArgumentParser, cfg: Namespace, dest: str, value: str) -> None:
        """Merges the config's settings into `cfg`, over those that it has so far.

        Raises:
            UserError: the file, one of its bases or one of its callbacks does not exist or is not valid.
        """
        path, config = _file_or_text(value)
        for section in NAMED:
            if isinstance(config.get(section), dict):
                before = {name: _plain(entry) for name, entry in (cfg.get(section) or {}).items()}
                config[section] = merge(before, config[section])
        _leave_out(config)
        changes = config.pop(CALLBACKS, None) if "trainer" in cfg else None
        if isinstance(config.get("trainer"), dict) and CALLBACKS in config["trainer"]:
            cfg["trainer.callbacks"] = None  # jsonargparse would merge two lists of one length entry by entry
        with contextlib.chdir(path.parent if path else "."):  # paths in a config are relative to it
            _apply(parser, cfg, dest, config)
            if changes is not None:
                entries = [entry.as_dict() for entry in cfg["trainer.callbacks"] or []]
                cfg["trainer.callbacks"] = None
                _apply(parser, cfg, dest, {"trainer": {CALLBACKS: change_callbacks(entries, changes)}})


def inline(config: dict[str, Any]) -> str:
    """The text of a config on one line, which `--config` accepts in place of a file's name."""
    text: str = yaml.safe_dump(config, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf)
    return text.strip()


def _plain(entry: Any) -> Any:
    return entry.as_dict() if isinstance(entry, Namespace) else entry


def _apply(parser: LightningArgumentParser, cfg: Namespace, dest: str, config: dict[str, Any]) -> None:
    ActionConfigFile.apply_config(parser, cfg, dest, inline(config))


def read_config(path: Path) -> dict[str, Any]:
    r"""The settings of a config file, merged over those of its base, which may have a base itself.

    Args:
        path: a YAML file. `base: FILE`, relative to it, names the config whose settings it changes.

    Raises:
        UserError: a file is missing or not a config, or a config is its own base.
    """
    config = _file(path)
    _leave_out(config)
    return config


def identity(value: str) -> str:
    """A fingerprint of the settings that a config and its bases state, whatever their order and comments.

    Args:
        value: what `--config` takes: the name of a file, or the text of a config.
    """
    stated = json.dumps(_file_or_text(value)[1], sort_keys=True, default=str)
    return hashlib.sha256(stated.encode()).hexdigest()[:16]


def _file(path: Path) -> dict[str, Any]:
    return _on_its_bases(load_config(_read(path, "--config"), str(path)), path)


def _leave_out(config: dict[str, Any]) -> None:
    """Removes the entries of a study that are null."""
    for section in NAMED:
        if isinstance(entries := config.get(section), dict):
            config[section] = {name: entry for name, entry in entries.items() if entry is not None}


def load_config(text: str, source: str, such: str = "`trainer: {max_epochs: 3}`") -> dict[str, Any]:
    """The mapping in a config's text, without its base.

    Args:
        text: YAML.
        source: name of the text in error messages.
        such: an example of what it may hold, for them too.

    Raises:
        UserError: it is not YAML, not a mapping, or has a key twice.
    """
    with checked_yaml(text, source):
        config = as_mapping(get_loader("yaml")(full_names(absolute_names(text))), source, such)
    bring_up_to_date(config)
    if odd := [key for key in config if not isinstance(key, str)]:
        raise UserError(f"{source}: {odd[0]!r} is no option, such as trainer: options have names")
    _check_sections(config, source)
    if isinstance(changes := config.get(CALLBACKS), dict):
        config[CALLBACKS] = {name: _meant(change) for name, change in changes.items()}
    return config


def _check_sections(config: dict[str, Any], source: str) -> None:
    """Raises `UserError` for a section of another kind, such as `data: 3`, which the parser does not explain."""
    for section in ("model", "data"):
        if not isinstance(value := config.get(section), dict | str | None):
            raise UserError(
                f"{source}: {section} is {value!r}, but must be a class path, or class_path with init_args, or options"
            )
    if odd := _odd_class_path(config):
        raise UserError(f"{source}: class_path is {odd[0]!r}, but must be the dotted name of a class")
    trainer = config.get("trainer", {})
    if not isinstance(trainer, dict):
        raise UserError(f"{source}: trainer is {trainer!r}, but must be options such as `{{max_epochs: 3}}`")
    for key in (CALLBACKS, f"{CALLBACKS}+"):
        entries = trainer.get(key)
        if isinstance(entries, dict) and "class_path" not in entries:
            raise UserError(f"{source}: trainer.{key} is a list; options by name belong in a section `callbacks:`")
        for entry in entries if isinstance(entries, list) else []:
            if not (isinstance(entry, str) or (isinstance(entry, dict) and isinstance(entry.get("class_path"), str))):
                raise UserError(f"{source}: trainer.{key}: {entry!r} is neither a class path nor has a class_path")


def _odd_class_path(node: Any) -> list[Any]:
    """The first value of a `class_path` that is no text, in a list; an empty list if there is none."""
    if isinstance(node, dict) and not isinstance(node.get("class_path", ""), str):
        return [node["class_path"]]
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return next(filter(None, map(_odd_class_path, parts)), [])


def _meant(change: Any) -> Any:
    """The options that a change stands for: {} for true, and for false None, which drops the callback."""
    return {} if change is True else None if change is False else change


def _file_or_text(value: str) -> tuple[Path | None, dict[str, Any]]:
    if value.startswith(BESIDE):
        return None, beside(Path(value.removeprefix(BESIDE)))
    if is_text(value):
        return None, _on_its_bases(load_config(value, "--config"), None)
    path = find_config(value)
    return path, _file(path)


def _on_its_bases(config: dict[str, Any], path: Path | None) -> dict[str, Any]:
    seen = [path.resolve()] if path else []
    layers = [config]
    while BASE in layers[0]:
        base, source = layers[0].pop(BASE), path or "--config"
        if not isinstance(base, str):
            raise UserError(f"{source}: base is {base!r}, but must be the name of a config file")
        path = find_config(base, path.parent if path else None)
        if path.resolve() in seen:
            raise UserError(f"{source}: base {base} leads back to {path}: a config cannot be its own base")
        seen.append(path.resolve())
        layers.insert(0, load_config(_read(path, f"{source}: base"), str(path)))
    merged: dict[str, Any] = reduce(merge, layers)
    return merged


def _read(path: Path, asker: str) -> str:
    try:
        return read_text(path)
    except FileNotFoundError as error:
        near = {p.name: str(p) for p in path.parent.glob("*.yaml")}
        near = {Path(name).name: name for name in own_names()} | near
        close = difflib.get_close_matches(path.name, near, 1, 0.75)
        hint = f"; did you mean {near[close[0]]}?" if close else " (`python -m ebmlab list` shows the configs)"
        raise UserError(f"{asker} {path}: no such file{hint}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{asker} {path} cannot be read as a config: {one_line(error)}") from error
