"""The files that a command writes: together, and never over what it reads."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ebmlab.errors import UserError
from ebmlab.io.files import whole
from ebmlab.io.folders import check_is_local


@contextmanager
def together(*paths: Path) -> Iterator[list[Path]]:
    """Like `whole` for several files, of which either all are written or none. A link stays, and its file is replaced.

    Raises:
        UserError: one of them is a folder.
    """
    for path in paths:
        if path.is_dir():
            raise UserError(f"{path} is a folder: name a file")
    with ExitStack() as stack:
        temporary = [stack.enter_context(whole(path.resolve() if path.is_symlink() else path)) for path in paths]
        try:
            yield temporary
        except OSError as error:
            begun = [path for path, part in zip(paths, temporary, strict=True) if part.exists()]
            if error.errno and error.filename is None and begun:
                error.filename = str(begun[-1])  # a full disk names no file
            raise


def check_writable(path: Path) -> None:
    """Raises `UserError` if no file can be written there, before hours of work whose result would be lost."""
    target = (path.resolve() if path.is_symlink() else path).absolute()
    folder = next(above for above in target.parents if above.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UserError(f"{path} cannot be written ({reason}): name another file", option="output") from error


def keep_apart(outputs: Iterable[Path], inputs: Iterable[str | Path]) -> None:
    """Raises `UserError` if a file that is to be written is one that is read, or an address."""
    read = [Path(name).expanduser() for name in inputs]
    for path in outputs:
        check_is_local(path)
        if path.exists() and any(other.exists() and path.samefile(other) for other in read):
            raise UserError(f"{path} is read, and would be overwritten: name another file", option="output")
