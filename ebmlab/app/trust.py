"""The code that a config may name: the library and the modules that the user named on the command line."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace, set_parsing_settings
from pytorch_lightning.cli import ReduceLROnPlateau

from ebmlab.app.class_paths import full_names
from ebmlab.app.named_callbacks import FLAG
from ebmlab.app.own_configs import find_config
from ebmlab.errors import UserError
from ebmlab.io.rebuilding import path_of

_PARTS = ("accelerators", "callbacks", "loggers", "plugins", "profilers", "strategies", "tuner")
LIBRARY = (
    *("ebmlab", "torch.nn", "torch.optim", "pytorch_lightning.cli.ReduceLROnPlateau"),
    *(f"{lightning}.{part}" for lightning in ("pytorch_lightning", "lightning.pytorch") for part in _PARTS),
    *(f"lightning_fabric.{part}" for part in ("accelerators", "plugins", "strategies")),
)
MADE_BY = {
    "optimizer": (torch.optim.Optimizer,),
    "lr_scheduler": (torch.optim.lr_scheduler.LRScheduler, ReduceLROnPlateau),
}
_DOTTED = re.compile(r"(?<![\w.-])([A-Za-z_]\w*)(?=\.[A-Za-z_])")
_granted: set[str] = set()


def trust_named(args: Sequence[str]) -> None:
    """Lets configs name classes of the library and of the modules that the command line names, and no others.

    A module counts as named if an argument, or a config file given by `--config`, names it. The config beside a
    checkpoint does not count, because it is trusted no more than the checkpoint.

    Args:
        args: the command line as the user typed it.
    """
    texts = list(args)
    for option, value in zip(args, [*args[1:], ""], strict=False):
        name, _, given = option.partition("=")
        if name in ("-c", "--config"):
            with suppress(OSError, ValueError):  # the parser reports these
                texts += _with_bases(find_config(given or value))
    texts = [full_names(text.removeprefix(f"{FLAG}.")) for text in texts]  # the flag names a class, not a module
    named = {match for text in texts for match in _DOTTED.findall(text)} - sys.stdlib_module_names
    named -= {entry.partition(".")[0] for entry in LIBRARY} | {"jsonargparse"}
    denied = ["*", "ebmlab.app", *(_granted - named)]
    set_parsing_settings(import_path_denylist=denied, import_path_allowlist=[*LIBRARY, *sorted(named)])
    _granted.update(named)


def check_class(path: Any, base: type) -> None:
    """Imports a class; raises `UserError` unless it is trusted and a subclass of `base`."""
    module, _, name = str(path).rpartition(".")
    if not any(f"{path}.".startswith(f"{entry}.") for entry in (*LIBRARY, *_granted)):
        raise UserError(denied(str(path)))
    found = getattr(__import__(module, fromlist=[name]), name, None)
    if not isinstance(found, type) or not issubclass(found, base):
        raise UserError(f"{path} is not a subclass of {base.__name__}")


def check_makers(model: Namespace) -> None:
    """Raises `UserError` unless the optimizer and its schedule are torch's classes or subclasses of them.

    Functions that make them are accepted only if the command line itself names their module.
    """
    for option, bases in MADE_BY.items():
        maker = (model.get("init_args") or {}).get(option)
        if isinstance(maker, functools.partial):
            maker = model.init_args[option] = as_config(maker)
        path = maker.get("class_path") if isinstance(maker, Namespace) else maker
        if path is None:
            continue
        found = path
        if isinstance(path, str):
            module, _, name = path.rpartition(".")
            found = getattr(__import__(module, fromlist=[name]), name, None)
        if isinstance(found, type) and issubclass(found, bases):
            continue
        owner = str(getattr(found, "__module__", "")).partition(".")[0]
        if isinstance(found, type) or not any(a.partition("=")[2].startswith(f"{owner}.") for a in sys.argv):
            raise UserError(f"model.{option} is {path}, but must be a subclass of {path_of(bases[0])}")


def as_config(maker: functools.partial[Any]) -> Namespace:
    """A learner's default, such as `partial(torch.optim.SGD, lr=0.01)`, in the form of a config."""
    init_args = Namespace(**maker.keywords)  # type: ignore[no-untyped-call]
    return Namespace(class_path=path_of(maker.func), init_args=init_args)  # type: ignore[no-untyped-call]


def denied(path: str) -> str:
    """The error message for a class path that is not trusted."""
    return (
        f"{path} is not part of ebmlab, torch.optim or Lightning, and the config beside a checkpoint must not name "
        "other code: if you trust it, name the config by --config"
    )


def _with_bases(path: Path, depth: int = 10) -> list[str]:
    """The texts of a config and of the configs that it is based on."""
    text = path.read_text()
    base = re.search(r"^base:\s*(\S+)", text, re.MULTILINE)
    if base is None or not depth:
        return [text]
    return [text, *_with_bases(find_config(base.group(1).strip("'\""), path.parent), depth - 1)]
