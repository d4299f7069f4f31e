"""Says in a line which package is broken, if one cannot be imported."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ebmlab.app.failures import is_memory
from ebmlab.errors import UserError, one_line

_OURS = Path(__file__).parents[1]
_PACKAGES = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
_PYTHON = Path(sysconfig.get_path("stdlib"))


@contextmanager
def loading() -> Iterator[None]:
    """The body imports modules.

    Raises:
        UserError: a package is missing or broken, or a file of the user's has its name.
    """
    try:
        yield
    except Exception as error:  # a broken package raises any type
        if is_memory(error):
            raise
        raise UserError(_reason(error)) from error


def _reason(error: Exception) -> str:
    """Which package cannot be imported: the innermost that is neither Python's nor ours."""
    said = one_line(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"the package {error.name.partition('.')[0]} is missing: install ebmlab again ({said})"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        for folder in _PACKAGES:
            if path.is_relative_to(folder):
                return f"{path.relative_to(folder).parts[0]} cannot be loaded ({said}): install it again"
        if path.is_file() and not path.is_relative_to(_PYTHON) and not path.is_relative_to(_OURS):
            return f"{path} is loaded in place of a package of that name ({said}): rename it"
    return f"a package cannot be loaded ({said}): install ebmlab again"
