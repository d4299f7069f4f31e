"""The code that a config may name: the library, and the modules that the user named.

Modules are named by `--import` and by options whose values are class paths. A config given by `--config`, and its
bases, name them by their content. Nothing else names one: no file's name, and no config beside a checkpoint. The
classes that a text names are looked up here alone, so that nothing is imported before it is trusted.
"""

from __future__ import annotations

import functools
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace, set_parsing_settings

from ebmlab.app.class_paths import LIBRARY, full_names
from ebmlab.app.own_configs import BESIDE, find_config, is_text
from ebmlab.app.own_modules import find_in_working_directory, module_name
from ebmlab.app.words import options
from ebmlab.errors import UserError
from ebmlab.io.files import read_text
from ebmlab.io.rebuilding import path_of

MADE_BY = {"optimizer": torch.optim.Optimizer, "lr_scheduler": torch.optim.lr_scheduler.LRScheduler}
CALLBACKS = "--callbacks"
# options whose values may be class paths; the values of others, such as --ckpt_path and --output, are names of files
_BY_CLASS = re.compile(r"--(model|data|trainer|optimizer|lr_scheduler|targets|samplers|measures|import)([.+].*)?")
_DOTTED = re.compile(r"(?<![\w./-])([A-Za-z_]\w*)(?=\.[A-Za-z_])")
_granted: set[str] = set()
_earlier: set[str] = set()  # of other commands in this process


def trust_named(args: Sequence[str]) -> None:
    """Lets the user's configs and options name classes of the library and of the modules that they name themselves.

    If there are such modules, the working directory comes last on the path of modules, so that none in it hides
    another one.

    Args:
        args: the command line as the user typed it.
    """
    named = {module for text in _naming(args) for module in _DOTTED.findall(full_names(text))}
    named |= {module_name(value).partition(".")[0] for option, value in options(args) if option == "--import"}
    named -= sys.stdlib_module_names | {entry.partition(".")[0] for entry in LIBRARY} | {"jsonargparse"}
    set_parsing_settings(
        import_path_denylist=["*", "ebmlab.app", *(_earlier - named)],
        import_path_allowlist=[*LIBRARY, *sorted(named)],
    )
    _granted.clear()
    _granted.update(named)
    _earlier.update(named)
    if named:
        find_in_working_directory()


def is_trusted(path: str) -> bool:
    """Whether a class path is one of the library's, or of a module that the user named."""
    entries = (*LIBRARY, *_granted)
    return any(f"{path}.".startswith(f"{entry}.") for entry in entries) and not f"{path}.".startswith("ebmlab.app.")


def found(path: str) -> Any:
    """What a class path names, imported if it is trusted; None if it is not, or there is nothing of that name."""
    if not is_trusted(path):
        return None
    try:
        return pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError):
        return None


def check_class(path: Any, base: type) -> None:
    """Imports a class; raises `UserError` unless it is trusted and a subclass of `base`."""
    if not is_trusted(str(path)):
        raise UserError(denied(str(path)))
    kind = found(str(path))
    if not isinstance(kind, type) or not issubclass(kind, base):
        raise UserError(f"{path} is not a subclass of {base.__name__}")


def check_makers(model: Namespace) -> None:
    """Raises `UserError` unless the optimizer and its schedule are torch's classes or subclasses of them.

    Functions that make them are accepted only if the command line itself names their module.
    """
    for option, base in MADE_BY.items():
        maker = (model.get("init_args") or {}).get(option)
        if isinstance(maker, functools.partial):
            maker = model.init_args[option] = as_config(maker)
        path = maker.get("class_path") if isinstance(maker, Namespace) else maker
        if path is None:
            continue
        kind = found(path) if isinstance(path, str) else path
        if isinstance(kind, type) and issubclass(kind, base):
            continue
        owner = str(getattr(kind, "__module__", "")).partition(".")[0]
        named = [value for option, value in options(sys.argv) if _BY_CLASS.fullmatch(option)]
        if isinstance(kind, type) or not any(value.startswith(f"{owner}.") for value in named):
            raise UserError(f"model.{option} is {path}, but must be a subclass of {path_of(base)}")


def as_config(maker: functools.partial[Any]) -> Namespace:
    """A learner's default, such as `partial(torch.optim.SGD, lr=0.01)`, in the form of a config."""
    init_args = Namespace(**maker.keywords)  # type: ignore[no-untyped-call]
    return Namespace(class_path=path_of(maker.func), init_args=init_args)  # type: ignore[no-untyped-call]


def denied(path: str) -> str:
    """The error message for a class path that is not trusted."""
    return (
        f"{path} is not part of ebmlab, torch.optim or Lightning, and the config beside a checkpoint must not name "
        "other code: if you trust it, name the config by --config, or for predict its module by --import "
        f"{path.partition('.')[0]}"
    )


def _naming(args: Sequence[str]) -> Iterator[str]:
    """The texts of a command line that may name modules: those of configs, class paths, and names of callbacks."""
    for option, value in options(args):
        if option in ("-c", "--config") and not value.startswith(BESIDE):
            with suppress(OSError, ValueError, UserError):  # the parser reports these
                yield from _with_bases(value)
        elif option.startswith(f"{CALLBACKS}."):
            yield option.removeprefix(f"{CALLBACKS}.")
        elif _BY_CLASS.fullmatch(option):
            yield value


def _with_bases(config: str | Path, beside: Path | None = None, depth: int = 10) -> Iterator[str]:
    """The texts of a config and of the configs that it is based on."""
    path = None if isinstance(config, str) and is_text(config) else find_config(config, beside)
    yield (text := str(config) if path is None else read_text(path))
    base = re.search(r"^base:\s*(\S+)", text, re.MULTILINE)
    if base is not None and depth:
        yield from _with_bases(Path(base.group(1).strip("'\"")), path.parent if path else None, depth - 1)
