"""Files that are written completely or not at all, with a checksum that shows later damage.

Functions that need torch import it themselves, so that `compare` answers without it.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ebmlab.errors import WHY, UserError, explained, one_line
from ebmlab.io.folders import make_folder

_SEAL = b"\nebmlab sha256 "  # `save` ends each file with this and the 64 digits of its checksum
_SEAL_SIZE = len(_SEAL) + 64
_LONGEST = 2**24  # bytes of a text
LONG = 200  # bytes of a name; with what a temporary one begins with, longer ones could be too long for a file system
_TEMPORARY = re.compile(r"\.ebmlab-(\d+)\..+")


class Damaged(Exception):
    """A file does not hold what was written to it. The message is one line that says what is wrong."""


@contextmanager
def whole(path: Path, sync: bool = False) -> Iterator[Path]:
    """Yields a temporary path beside `path`; a file written there is renamed to `path`, or deleted if anything fails.

    A file that is replaced hands its mode on. If `path` is a link to a file in another folder, that file is replaced. A
    link within the folder, such as that of a last checkpoint to the newest, is replaced itself.

    Args:
        path: the file; missing folders are created, and removed again if the file is not written.
        sync: return only when the file would survive a power failure.
    """
    target = path.resolve() if path.is_symlink() else path
    if target.parent != path.parent.resolve() and path.is_symlink():
        path = target
    mode = stat.S_IMODE(path.stat().st_mode) if path.is_file() and not path.is_symlink() else None
    made = make_folder(path.parent)
    name = path.name if len(os.fsencode(path.name)) < LONG else f"{zlib.crc32(os.fsencode(path.name))}{path.suffix}"
    temporary = path.with_name(f".ebmlab-{os.getpid()}.{name}")
    try:
        yield temporary
        if mode is not None:
            temporary.chmod(mode)
        if sync:
            _sync(temporary)
        os.replace(temporary, path)
        if sync:
            with suppress(OSError):  # some file systems cannot sync a folder
                _sync(path.parent)
    except BaseException as error:
        if (
            isinstance(error, OSError)
            and error.errno
            and (error.filename is None or str(temporary) in (error.filename, error.filename2))
        ):
            error.filename = str(path)  # a full disk names no file
            if error.filename2 is not None:
                error.filename2 = None
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        with suppress(OSError):  # another process may have put a file into the folder meanwhile
            for folder in made:
                folder.rmdir()
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a text or bytes to a file completely or not at all; see `whole`."""
    with whole(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes a .csv file completely or not at all: a line with the columns, and one for each row."""
    with whole(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def check_regular(path: Path) -> None:
    """Raises `UserError` for a pipe, a socket or a device: to read one may take for ever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"{path} is a pipe or a device, but must be a file")


def read_text(path: Path, pipes: bool = False) -> str:
    """The text of a file that a user or a stranger has written, in UTF-8.

    Args:
        path: the file.
        pipes: read a pipe, too.

    Raises:
        UserError: it is a pipe or a device, or holds more than 16 MiB.
        OSError: it cannot be read.
        UnicodeDecodeError: it is no text.
    """
    if not pipes:
        check_regular(path)
    with path.open("rb") as file:
        content = file.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise UserError(f"{path} has more than {_LONGEST >> 20} MiB, which no config or table of settings has")
    return content.decode().replace("\r\n", "\n")


def read_given(path: Path, named: str) -> str:
    """`read_text` of a file that a command was given; raises `UserError` whatever is wrong with it.

    Args:
        path: the file.
        named: what messages call it.
    """
    with explained(f"{named} cannot be read: {WHY}", (OSError, UnicodeDecodeError)):
        return read_text(path)


def remove_temporaries(folder: Path) -> None:
    """Deletes the temporary files that killed processes left in a folder and its subfolders; `whole` makes them."""
    for path in folder.rglob(".ebmlab-*"):
        if (found := _TEMPORARY.fullmatch(path.name)) and path.is_file() and not _runs(int(found[1])):
            path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Whether another process of this number is alive."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def save(content: Any, path: Path, sync: bool = False) -> None:
    """Like `torch.save`, but the file is written completely or not at all, and ends with a checksum.

    Raises:
        OSError: the file cannot be written; an older file of that name is left as it was.
    """
    import torch

    with whole(path, sync) as temporary, temporary.open("wb") as file:
        hashed: Any = _Hashed(file)
        try:
            torch.save(content, hashed)
        except RuntimeError as error:  # torch raises this in place of the OSError of a failed write
            raise hashed.failure or error from error
        file.write(_SEAL + hashed.digest.hexdigest().encode())


def load(path: Path, **options: Any) -> Any:
    """Like `torch.load` of plain data (`weights_only`), but refuses a damaged file.

    A file that `save` did not write has no checksum of ours. The checksums inside the zip archive are compared in its
    place; torch does not compare them.

    Raises:
        Damaged: the checksum differs, or the file is cut short or not one that `torch.save` wrote.
        OSError: the file cannot be read.
    """
    import torch

    _check(path)
    try:
        return torch.load(path, weights_only=True, **options)
    except OSError:
        raise
    except Exception as error:  # torch raises half a dozen types here
        first = (str(error).splitlines() or [""])[0].split(". ")[0][:120]
        raise Damaged(f"{type(error).__name__}: {first}" if first else "it is cut short or empty") from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a Lightning checkpoint onto the CPU without running any code that is in it.

    Raises:
        UserError: there is no such file, or it is damaged or not a checkpoint.
    """
    if not path.is_file():
        raise UserError(f"ckpt_path is {path}: no such file; give a .ckpt file, or `last` for the newest run's")
    with explained(
        f"{path} cannot be read as a checkpoint ({WHY}): it is damaged or not a checkpoint; use "
        "another file of that run",
        (Damaged, OSError),
    ):
        checkpoint = load(path, map_location="cpu")
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise UserError(f"{path} is not a Lightning checkpoint: it has no state_dict")
    return checkpoint


class _Hashed:
    """A file that hashes what is written to it, and keeps the `OSError` that torch would hide."""

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
    """Raises `Damaged` unless the checksum at the end of a file fits; without one, those of the zip archive count."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END) - _SEAL_SIZE
        file.seek(max(size, 0))
        seal = file.read()
        file.seek(0)
        if not seal.startswith(_SEAL):
            if (begin := file.read(2)) == b"PK":
                _check_zip(path, seal)
            elif begin[:1] not in (b"", b"\x80"):  # of a pickle, which earlier versions of torch have written
                raise Damaged("it does not begin as what torch.save writes")
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
    if bad is not None or end[-22:-18] != b"PK\5\6":  # the record that ends a zip archive without a comment
        raise Damaged(f"the checksum of {bad} differs" if bad else "its end is not that of a zip archive")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
