"""Files that are written whole or not at all, and that tell when they were damaged since."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch

from ebmlab.errors import UserError, one_line

_SEAL = b"\nebmlab sha256 "  # at the end of a file of `save`, before the 64 digits of its checksum
_SEAL_SIZE = len(_SEAL) + 64
_TEMPORARY = re.compile(r"\.\d+\..+")


class Damaged(Exception):
    """A file that `save` wrote does not hold what was written; the message says what is wrong in a line."""


@contextmanager
def whole(path: Path, sync: bool = False) -> Iterator[Path]:
    """Yields a temporary path beside `path`, and moves what was written there to `path` if nothing failed.

    Args:
        path: the file; folders that lack are made, and removed again if the file is not written.
        sync: return only when the file would survive a power failure.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp(), "a.txt")
        >>> with whole(path) as temporary:
        ...     temporary.write_text("text") and path.exists()
        False
        >>> path.read_text()
        'text'
    """
    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield temporary
        if sync:
            _sync(temporary)
        os.replace(temporary, path)
        if sync:
            with suppress(OSError):  # some file systems cannot sync a folder
                _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        with suppress(OSError):  # somebody else's file is in it by now
            for folder in made:
                folder.rmdir()
        raise
    finally:
        temporary.unlink(missing_ok=True)


def remove_temporaries(folder: Path) -> None:
    """Deletes what processes that were killed in `whole` left in a folder and its subfolders."""
    for path in folder.rglob(".*"):
        if _TEMPORARY.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def save(content: Any, path: Path, sync: bool = False) -> None:
    """Like `torch.save`, but whole or not at all, and with a checksum at the end of the file.

    Raises:
        OSError: the file cannot be written; one that was there before is still there.
    """
    with whole(path, sync) as temporary, temporary.open("wb") as file:
        hashed: Any = _Hashed(file)
        try:
            torch.save(content, hashed)
        except RuntimeError as error:  # torch's own, when a write has failed
            raise hashed.failure or error from error
        file.write(_SEAL + hashed.digest.hexdigest().encode())


def load(path: Path, **options: Any) -> Any:
    """Like `torch.load` of plain data (`weights_only`), but a file that was damaged is refused.

    Of files without one, which others wrote, the checksums of the zip archive count, which torch does not look at.

    Raises:
        Damaged: the checksum differs, or the file is cut short or none of torch's.
        OSError: the file cannot be read.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp(), "a.pt")
        >>> save({"x": torch.ones(2)}, path)
        >>> load(path)["x"]
        tensor([1., 1.])
    """
    _check(path)
    try:
        return torch.load(path, weights_only=True, **options)
    except OSError:
        raise
    except Exception as error:  # torch raises half a dozen types here
        first = (str(error).splitlines() or [""])[0].split(". ")[0][:120]
        raise Damaged(f"{type(error).__name__}: {first}") from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a checkpoint safely, tensors on the CPU.

    Raises:
        UserError: there is no such file, or it is not a checkpoint, or it is damaged.
    """
    if not path.is_file():
        raise UserError(f"--ckpt_path {path}: no such file; give a .ckpt file, or `last` for the newest run's")
    try:
        checkpoint = load(path, map_location="cpu")
    except (Damaged, OSError) as error:
        raise UserError(
            f"{path} cannot be read as a checkpoint ({one_line(error)}): it is damaged or not a checkpoint; use "
            "another file of that run"
        ) from error
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise UserError(f"{path} is not a Lightning checkpoint: it has no state_dict")
    return checkpoint


class _Hashed:
    """A file that is written through a hash; keeps the `OSError` that torch would hide."""

    def __init__(self, file: BinaryIO) -> None:
        self.digest = hashlib.sha256()
        self.failure: OSError | None = None
        self._file = file

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.failure = error
            raise

    def flush(self) -> None:
        self._file.flush()


def _check(path: Path) -> None:
    """Raises `Damaged` unless the checksum at the end of a file fits; of a file without, those of the zip archive."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END) - _SEAL_SIZE
        file.seek(max(size, 0))
        seal = file.read()
        file.seek(0)
        if not seal.startswith(_SEAL):
            if file.read(2) == b"PK":
                _check_zip(path, seal)
            return
        file.seek(0)
        digest = hashlib.sha256()
        while size > 0:
            data = file.read(min(size, 2**20))
            digest.update(data)
            size -= len(data) or size
    if seal[len(_SEAL) :] != digest.hexdigest().encode():
        raise Damaged("its checksum differs from that of what was written")


def _check_zip(path: Path, end: bytes) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
        raise Damaged(one_line(error)) from error
    if bad is not None or end[-22:-18] != b"PK\5\6":  # no comment behind the archive's directory
        raise Damaged(f"the checksum of {bad} differs" if bad else "its end is not that of a zip archive")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
