"""What a format is: how its files and objects are recognised, read and written."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ebmlab.energies import Bipartite
from ebmlab.errors import UserError, explained
from ebmlab.exchange.foreign import Foreign, Form
from ebmlab.extras import install

HEAD = 4096  # bytes that show what a file is


@dataclass(frozen=True)
class Format:
    """One format of one or several packages.

    Attributes:
        kind: its name.
        about: whose it is, in a few words.
        suffixes: by which a file to be written is known.
        holds: whether a file is of this format, by its first `HEAD` bytes or its content.
        read: reads a file; `vartype` is what the user says of it, SPIN or BINARY.
        accepts: whether an object of Python is the package's.
        take: reads such an object.
        write: writes a file, and says what is lost.
        make: makes the package's own object.
        keeps_form: whether states are written as `Foreign.form` says; else as those of the energy.
    """

    kind: str
    about: str
    suffixes: tuple[str, ...] = ()
    holds: Callable[[Path, bytes], bool] | None = None
    read: Callable[[Path, str | None], Foreign] | None = None
    accepts: Callable[[Any], bool] | None = None
    take: Callable[[Any], Foreign] | None = None
    write: Callable[[Foreign, Path], list[str]] | None = None
    make: Callable[[Foreign], Any] | None = None
    keeps_form: bool = False


def needed(package: str, why: str, extra: str | None = "exchange") -> ModuleType:
    """Imports a package, or says how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise UserError(f"{why} need {name}: {install(extra) if extra else f'pip install {name}'}") from error


def text_of(path: Path) -> str:
    """The text of a file; raises `UserError` if it is none."""
    with explained("it is no text", UnicodeDecodeError):
        return path.read_text(encoding="utf-8")


def lost_names(foreign: Foreign) -> list[str]:
    """What is lost of names in a format without any."""
    return ["the names of the variables, which became numbers"] if foreign.names else []


def lost_offset(foreign: Foreign) -> list[str]:
    """What a format without an offset loses."""
    has_one = foreign.offset and foreign.scale == 1
    return [f"the offset {foreign.offset:.9g}, by which energies differ from the file's"] if has_one else []


def lost_form(foreign: Foreign, own: Form) -> list[str]:
    """What is lost where states are written in the energy's `own` form, and the package had another one."""
    changes = {"spins": "bits x, which became spins 2 x - 1", "bits": "spins s, which became bits (s + 1) / 2"}
    return [changes[own]] if foreign.form != own and own in changes else []


def has(*names: str) -> Callable[[Any], bool]:
    """Whether an object has these attributes."""
    return lambda given: all(hasattr(given, name) for name in names)


def first_line(head: bytes) -> str:
    """The first line of a file that is neither empty nor a comment (`#`); "" where its first bytes are no text."""
    lines = head.decode(errors="ignore").splitlines() if looks_like_text(head) else ()
    return next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")


def looks_like_text(head: bytes) -> bool:
    """Whether the first bytes of a file are text."""
    try:
        text = head.decode("utf-8", "strict" if len(head) < HEAD else "ignore")
    except UnicodeDecodeError:
        return False
    return bool(text.strip()) and all(letter.isprintable() or letter in "\t\r\n\f" for letter in text)


def only(foreign: Foreign, wanted: type, kind: str) -> Any:
    """The energy, which must be of a class; raises `UserError` if the format cannot hold it."""
    if not isinstance(foreign.energy, wanted):
        article = "an" if wanted.__name__[0] in "AEIOR" else "a"
        raise UserError(f"{kind} holds {article} {wanted.__name__}, not {type(foreign.energy).__name__}")
    if isinstance(foreign.energy, Bipartite) and not foreign.energy.has_bits:
        raise UserError(f"{kind} holds hidden units that are bits, and no other ones")
    return foreign.energy
