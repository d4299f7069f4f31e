"""Modules of the user's own code, which `--import` names."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable

from ebmlab.errors import UserError
from ebmlab.io.rebuilding import granted


def module_name(name: str) -> str:
    """The name itself; raises `UserError` unless it is that of a module."""
    if not all(part.isidentifier() for part in name.split(".")) or name.endswith(".py"):
        meant = re.sub(r"\W+", ".", name.removesuffix(".py")).strip(".") or "my_module"
        raise UserError(f"--import is {name!r}, but must be the name of a module, such as {meant} for {meant}.py")
    return name


def find_in_working_directory() -> None:
    """Lets modules of the working directory be imported. It comes last, so that none in it hides another one."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)


def import_for_checkpoints(names: Iterable[str]) -> None:
    """Imports modules, whose classes checkpoints may name from then on.

    Raises:
        UserError: a name is none of a module.
    """
    for name in map(module_name, names):
        find_in_working_directory()
        importlib.import_module(name)
        granted.add(name)
