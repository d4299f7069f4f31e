"""Alignments in files: FASTA, A2M, A3M and Stockholm, as they are or packed by gzip."""

from __future__ import annotations

import gzip
import importlib.util
import string
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ebmlab.errors import WHY, UserError, explained
from ebmlab.extras import install
from ebmlab.io.files import check_regular
from ebmlab.settings import require_choice

Inserts = Literal["auto", "drop", "keep"]
PACKAGE = "package:"
LONGEST = 2**31  # bytes of an alignment
_NO_SEQUENCES = {"ss_pred", "ss_conf", "ss_dssp", "sa_dssp"}  # of HH-suite
_DELETE_INSERTS = str.maketrans("", "", string.ascii_lowercase + ".")
_SHOW_INSERTS = str.maketrans(string.ascii_lowercase + ".", string.ascii_uppercase + "-")  # no others, as ß has two


@dataclass(frozen=True)
class Rows:
    """The rows of an alignment as a file has them.

    Attributes:
        names: the first word of each header.
        texts: the letters, white space left out.
        inserts: whether lower case letters and dots are inserts, which belong to no column.
        gap: a letter that is no residue, beside - and dots.
    """

    names: list[str]
    texts: list[str]
    inserts: bool
    gap: str = "-"

    def columns(self, text: str) -> str:
        """The letters of a row that belong to columns, in upper case."""
        return text.translate(_DELETE_INSERTS) if self.inserts else text.translate(_SHOW_INSERTS)

    def inserted(self, text: str) -> int:
        """How many letters of a row are inserts."""
        return sum(map(text.count, string.ascii_lowercase)) if self.inserts else 0

    def letters(self, text: str) -> str:
        """The letters of a row that are no gaps, in upper case: those of `residues`."""
        return text.replace("-", "").replace(".", "").replace(self.gap, "").translate(_SHOW_INSERTS)

    def residues(self, text: str) -> list[tuple[str, int]]:
        """Each letter of a row that is no gap, in upper case, and its column from 0; -1 for an insert."""
        found, column = [], 0
        for letter in text:
            is_insert = self.inserts and not letter.translate(_DELETE_INSERTS)
            if letter not in ("-", ".", self.gap):
                found.append((letter.translate(_SHOW_INSERTS), -1 if is_insert else column))
            column += not is_insert
        return found


def find(path: str | Path) -> Path:
    """The file itself, or that of an installed package which `package:NAME/FOLDER/FILE` names.

    The package is found, not imported, so that nothing in it runs.

    Raises:
        UserError: there is no such file or package.
    """
    if not str(path).startswith(PACKAGE):
        found = Path(path).expanduser()
        if not found.is_file():
            check_regular(found)
            raise UserError(f"{found} is a folder, but must be a file" if found.is_dir() else f"{found}: no such file")
        return found
    package, _, rest = str(path).removeprefix(PACKAGE).partition("/")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"{path}: the package {package} is not installed: {install('proteins')}, or give a file")
    folder = Path(spec.submodule_search_locations[0]).resolve()
    if not (found := folder / rest).is_file() or folder not in found.resolve().parents:
        raise UserError(f"{path}: the package {package} has no such file")
    return found


def read_lines(path: Path) -> list[str]:
    """The lines of a text in ASCII, which gzip may have packed.

    Raises:
        UserError: it is no text, damaged, or larger than `LONGEST`.
    """
    check_regular(path)
    with explained(f"{path} cannot be read: {WHY}", (OSError, EOFError, zlib.error)):
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise UserError(f"{path} has more than {LONGEST >> 30} GiB, which no alignment has")
    content = content.rstrip(b"\0")  # ColabFold ends its files with it
    if b"\0" in content:
        raise UserError(f"{path} is no text, as it is or packed by gzip")
    return content.decode("utf-8-sig", "replace").splitlines()


def read_rows(path: Path, inserts: Inserts = "auto") -> Rows:
    r"""Reads an alignment.

    Args:
        path: a file in FASTA, A2M, A3M or Stockholm, whatever its name is.
        inserts: what lower case letters and dots are. `drop`: inserts, which are left out, as in A2M and A3M. `keep`:
            residues and gaps in columns of their own, as in FASTA. `auto`: inserts, if the name ends in .a2m or .a3m.
            Also inserts, if some columns hold nothing else in any row, and all other columns none of them. In rows of
            different lengths: if all have equally many other letters.

    Raises:
        UserError: the file holds no alignment.
    """
    require_choice("read_family", get_args(Inserts), inserts=inserts)
    lines = read_lines(path)
    first = next((line for line in lines if line.strip()), "")
    if not first:
        raise UserError(f"{path} is empty: give an alignment in FASTA, A2M, A3M or Stockholm")
    records = (_stockholm if first.startswith("# STOCKHOLM") else _fasta)(path, lines)
    names, texts = [name for name, _ in records], [text for _, text in records]
    if not texts:
        raise UserError(f"{path} holds no sequences")
    if empty := [name for name, text in records if not text]:
        raise UserError(f"{path}: the sequence {empty[0][:60]} has no letters")
    if inserts == "auto":
        inserts = "drop" if _has_inserts(path, texts) else "keep"
    return Rows(names, texts, inserts == "drop")


def _has_inserts(path: Path, texts: list[str]) -> bool:
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".a2m", ".a3m")):
        return True
    if len(set(map(len, texts))) == 1:  # A2M, or dots that are gaps
        x = letters_of(texts)
        inserts = ((x >= ord("a")) & (x <= ord("z"))) | (x == ord("."))
        return bool(inserts[0].any() and not inserts[0].all() and (inserts == inserts[0]).all())
    others = {len(text.translate(_DELETE_INSERTS)) for text in texts}
    return len(others) == 1 and 0 not in others


def letters_of(texts: list[str]) -> NDArray[np.uint8]:
    """The characters of texts of one length, `(N, L)`."""
    return np.frombuffer("".join(texts).encode("ascii", "replace"), np.uint8).reshape(len(texts), -1)


def _fasta(path: Path, lines: list[str]) -> list[tuple[str, str]]:
    records: list[tuple[str, list[str]]] = []
    for number, line in enumerate(lines, 1):
        if line.startswith(">"):
            words = line[1:].split()
            records.append((words[0] if words else "", []))
        elif line.startswith(("#", ";")) or not line.strip():
            continue
        elif not records:
            raise UserError(
                f"{path}, line {number}: '{line.strip()[:40]}' stands before the first header: give an alignment in "
                "FASTA, A2M, A3M or Stockholm"
            )
        else:
            records[-1][1].append("".join(line.split()))
    return [(name, "".join(parts)) for name, parts in records if name not in _NO_SEQUENCES]


def _stockholm(path: Path, lines: list[str]) -> list[tuple[str, str]]:
    parts: dict[str, list[str]] = {}
    ended = False
    for number, line in enumerate(lines, 1):
        if ended and line.strip():
            raise UserError(f"{path}, line {number}: a second alignment begins here: give a file of one")
        if line.strip() == "//":
            ended = True
        elif line.strip() and not line.startswith("#"):
            words = line.split()
            if len(words) != 2:
                raise UserError(f"{path}, line {number}: '{line.strip()[:40]}' must be a name and letters")
            parts.setdefault(words[0], []).append(words[1])
    if not ended:
        raise UserError(f"{path} has no // at its end, with which Stockholm files end: it is cut short")
    return [(name, "".join(text)) for name, text in parts.items()]
