"""`fit --model.energy.help CLASS`: the options of a class, whether or not a config is named."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from jsonargparse import ArgumentParser

from ebmlab.app.class_paths import full_names
from ebmlab.app.listing import FAMILIES
from ebmlab.app.trust import denied, found, is_trusted
from ebmlab.app.words import options
from ebmlab.errors import UserError

_MODULES = (*FAMILIES, "torch.optim", "torch.optim.lr_scheduler")


def class_help(given: Sequence[str]) -> str | None:
    """The help of the class that a word such as `--model.energy.help` asks for; None if there is no such word.

    Raises:
        UserError: no class is named, or there is no such class.
    """
    for option, value in options(given):
        if not option.startswith("--") or not option.endswith(".help"):
            continue
        path = full_names(value)
        if not path or path.startswith("-"):
            raise UserError(f"{option} needs a class, such as {option} ebmlab.energies.RBM (`ebmlab list` shows all)")
        kind = _class(path)
        if not isinstance(kind, type):
            raise UserError(f"{option}: there is no class {path} (`python -m ebmlab list` shows all)")
        place = option.removesuffix(".help").removeprefix("--")
        parser = ArgumentParser(prog=f"python -m ebmlab {given[0]} --{place} {path}", add_help=False)
        parser.add_class_arguments(kind, place, fail_untyped=False)
        return parser.format_help().rstrip()
    return None


def _class(path: str) -> object:
    if "." not in path:
        known = (getattr(importlib.import_module(module), path, None) for module in _MODULES)
        return next((kind for kind in known if kind is not None), None)
    if not is_trusted(path):
        raise UserError(denied(path))
    return found(path)
