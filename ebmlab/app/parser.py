"""The parser of every command."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml
from jsonargparse import ActionConfigFile, Namespace, dict_to_namespace, get_loader, set_loader
from pytorch_lightning.cli import LightningArgumentParser

from ebmlab.app.class_paths import full_names
from ebmlab.app.config_errors import parser_message
from ebmlab.app.config_files import ConfigFile, inline
from ebmlab.app.interpolation import absolute_names
from ebmlab.app.named_callbacks import take_flags
from ebmlab.app.plain_yaml import as_mapping, plain_yaml
from ebmlab.app.trust import as_config
from ebmlab.app.words import options
from ebmlab.errors import UserError
from ebmlab.io.files import read_given

MODE = "omegaconf+"
# reads the files that a config names
set_loader(MODE, lambda text: get_loader("yaml")(full_names(text)), (yaml.YAMLError,))


class Parser(LightningArgumentParser):
    """Reads configs with bases, callbacks by name and settings by their full names; reports errors in one line.

    Options are not abbreviated: what reads the command line before the parser knows their whole names alone.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"prog": "python -m ebmlab", "allow_abbrev": False, **kwargs})

    def add_argument(self, *args: Any, **kwargs: Any) -> Any:
        """As in the base class, but a config may have bases."""
        if kwargs.get("action") is ActionConfigFile:
            kwargs["action"] = ConfigFile
        return super().add_argument(*args, **kwargs)

    def parse_args(self, args: Sequence[str] | None = None, *rest: Any, **kwargs: Any) -> Namespace:  # type: ignore[override]
        """As in the base class; flags for callbacks by name become one more config, after all others."""
        for option, value in options(sys.argv[1:] if args is None else args):
            if option == "--data":
                _check_class(value)
            if option in _PARTS and value.endswith((".yaml", ".yml")):
                _check_part(option, Path(value))
        others, changes = take_flags([full_names(absolute_names(a)) for a in (sys.argv[1:] if args is None else args)])
        others += ["--config", inline({"callbacks": changes})] if changes else []
        return super().parse_args(others, *rest, **kwargs)

    def _check_value_key(self, action: Any, value: Any, key: str, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """Keeps `${event_size:}` where another class takes the option: what it means is known at the end.

        Of an option that holds it, such as an energy, jsonargparse asks this with an empty config.
        The options of a command are checked one by one, so not once more as a whole.
        """
        is_open = value.startswith("${") if isinstance(value, str) else not cfg and "${" in str(value)
        if action is self._subcommands_action or is_open:
            return dict_to_namespace(value) if isinstance(value, dict) else value
        return super()._check_value_key(action, value, key, cfg, *args, **kwargs)

    def _apply_actions(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """As in the base class, but defaults are filled in once: by the parser of the command, which is asked first."""
        if "skip_fn" in kwargs and self._subcommands_action is not None:
            return cfg
        return super()._apply_actions(cfg, *args, **kwargs)

    def dump(self, namespace: Namespace, *args: Any, **kwargs: Any) -> str:
        """As in the base class, but optimizers that are a learner's default are written like those of a config.

        What was parsed has been checked, and is not checked again.
        """
        namespace = namespace.clone()
        for key, value in list(namespace.items()):
            if isinstance(value, functools.partial) and isinstance(value.func, type):
                namespace[key] = as_config(value)
        text: str = super().dump(namespace, *args, **(kwargs | {"skip_validation": True}))
        return text

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        if re.search(r"required: \S*(data|model)\b", message):
            message = "name a config: --config configs/grbm_digits.yaml (`python -m ebmlab list` shows all)"
            message += ", or a run: --ckpt_path runs/CONFIG/NAME" * (sys.argv[1:2] != ["fit"])
            if "--ckpt_path" in dict(options(sys.argv[1:])):
                message = (
                    "no data are known, for the run names none: add --data, such as --data Arrays --data.path FILE"
                )
        if sys.argv[1:2] == ["sample"] and "required: targets" in message:
            message = "name a config: --config sampling/ising_5x5 (`python -m ebmlab list configs` shows all)"
        if sys.argv[1:2] == ["sample"] and "--ckpt_path" in message:
            message = "sample compares samplers on a target; predict --ckpt_path RUN draws from a trained model"
        if not self.exit_on_error:  # the parser tries out one of several types
            super().error(message, ex)
        raise UserError(parser_message(message)) from ex


_PARTS = {
    "--model": "`class_path: ebmlab.learners.RatioMatching`",
    "--data": "`class_path: datamodules.Digits`",
    "--trainer": "`max_epochs: 3`",
}


def _check_part(option: str, path: Path) -> None:
    """Raises `UserError` unless this is a file of options; jsonargparse would take its name for a class."""
    text = read_given(path, f"{option} {path}")
    as_mapping(plain_yaml(text, path), f"{option} {path}", _PARTS[option])


def _check_class(value: str) -> None:
    """Raises `UserError` for a file or folder of data where their class belongs; the parser would print its content."""
    from ebmlab.app.known_classes import known

    path = Path(value)
    if path.exists() and path.suffix not in (".yaml", ".yml") and value not in known("ebmlab.datamodules"):
        kind = "ImageFolder --data.root" if path.is_dir() else "Arrays --data.path"
        raise UserError(f"--data is {value}, but must be a class: write --data {kind} {value}")
