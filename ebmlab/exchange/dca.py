"""Text of adabmDCA: `J i j a b v` and `h i a v`, sites from 0, a and b letters of an alphabet or numbers of values.

A file may list one order of a pair, (i, a), (j, b), or both; both are one coupling and never add up.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch

from ebmlab.energies import Potts
from ebmlab.errors import UserError
from ebmlab.exchange.foreign import Foreign, potts
from ebmlab.exchange.format import Format, first_line, lost_names, only, text_of
from ebmlab.io.files import write_whole
from ebmlab.sequences.alphabet import DNA, PROTEIN, RNA

ALPHABETS = (PROTEIN, RNA, DNA)
Key = TypeVar("Key")
_LINE = re.compile(r"\s*(J\s+\d+\s+\d+\s+\S+\s+\S+|h\s+\d+\s+\S+)\s+\S+\s*")


def read(path: Path, vartype: str | None) -> Foreign:
    """Reads all lines; `facts` holds the alphabet.

    Raises:
        UserError: a line is not of this form, a site is coupled with itself, or the two orders of a coupling disagree.
            Or a site has no fields, as where sites count from 1.
    """
    fields: dict[tuple[int, str], float] = {}
    pairs: dict[tuple[int, int, str, str], float] = {}
    for number, line in enumerate(text_of(path).splitlines(), 1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        try:
            if parts[0] == "h" and len(parts) == 4:
                _keep(fields, (int(parts[1]), parts[2]), float(parts[3]))
            elif parts[0] == "J" and len(parts) == 6:
                i, j, a, b = int(parts[1]), int(parts[2]), parts[3], parts[4]
                if i == j:
                    raise UserError(f"line {number} couples the site {i} with itself")
                _keep(pairs, (i, j, a, b) if i < j else (j, i, b, a), float(parts[5]))
            else:
                raise ValueError("J i j a b v, or h i a v")
        except ValueError as error:
            raise UserError(f"line {number} is {line.strip()[:60]!r}: {error}") from error
    sites = {i for i, _ in fields}
    size = max(sites, default=-1) + 1
    if missing := sorted(set(range(size)) - sites):
        hint = ": sites count from 0" if missing == [0] else ""
        raise UserError(f"the site {missing[0]} of {size} has no fields{hint}")
    if any(not 0 <= i < j < size for i, j, _, _ in pairs):
        raise UserError(f"it couples a site beyond the {size} that have fields")
    letters = list(dict.fromkeys([a for _, a in fields] + [a for key in pairs for a in key[2:]]))
    alphabet = _alphabet(letters)
    place = {letter: k for k, letter in enumerate(alphabet)}
    found = _model(size, place, fields, pairs, alphabet)
    is_unclear = alphabet == list(RNA) and "U" not in letters
    lost = ("whether it is DNA, as it has neither T nor U: it became RNA",) if is_unclear else ()
    return replace(found, lost=lost)


def write(foreign: Foreign, path: Path) -> list[str]:
    """Writes letters of the model's alphabet. Without one, 21 or 5 values get those of protein or RNA."""
    energy = only(foreign, Potts, "dca")
    q = energy.domain.num_values
    guessed = next((a for a in ALPHABETS if len(a) == q), "")
    known = str(foreign.facts.get("alphabet") or "")
    alphabet = list(known or guessed or map(str, range(q)))
    lines = []
    for (i, j), block in zip(energy.pairs.tolist(), energy.coupling.tolist(), strict=True):
        lines += [f"J {i} {j} {alphabet[a]} {alphabet[b]} {block[a][b]!r}" for a in range(q) for b in range(q)]
    for i, row in enumerate(energy.field.tolist()):
        lines += [f"h {i} {alphabet[a]} {value!r}" for a, value in enumerate(row)]
    write_whole(path, "\n".join(lines) + "\n")
    return lost_letters(known, guessed) + lost_names(foreign)


def lost_letters(known: str, written: str) -> list[str]:
    """What is lost where nobody knows for which letters values stand."""
    return [f"what the values stand for: they are written as {written}"] if written and not known else []


def _keep(found: dict[Key, float], key: Key, value: float) -> None:
    if not math.isfinite(value):
        raise ValueError("numbers must be finite")
    if found.setdefault(key, value) != value:
        raise ValueError(f"another line gives {found[key]:.9g} for the same coupling or field")


def _alphabet(seen: list[str]) -> list[str]:
    """The letters in the order of their values: known alphabets have theirs, others that of their fields."""
    if all(letter.isdigit() for letter in seen):
        return [str(k) for k in range(max(map(int, seen)) + 1)]
    for known in sorted(ALPHABETS, key=len):
        if set(seen) <= set(known):
            return list(known)
    return seen


def alphabet_text(alphabet: list[str]) -> str:
    """The letters as one text; "" for numbers of values."""
    return "".join(alphabet) if not alphabet[0].isdigit() and max(map(len, alphabet)) == 1 else ""


def _model(
    size: int,
    place: dict[str, int],
    fields: dict[tuple[int, str], float],
    pairs: dict[tuple[int, int, str, str], float],
    alphabet: list[str],
) -> Foreign:
    if size == 0:
        raise UserError("there are no fields in it")
    ends = sorted({key[:2] for key in pairs})
    number = {pair: k for k, pair in enumerate(ends)}
    J = torch.zeros(len(ends), len(alphabet), len(alphabet), dtype=torch.float64)
    h = torch.zeros(size, len(alphabet), dtype=torch.float64)
    for (i, a), value in fields.items():
        h[i, place[a]] = value
    for (i, j, a, b), value in pairs.items():
        J[number[i, j], place[a], place[b]] = value
    return Foreign(potts(ends, J, h), "dca", form="values", facts={"alphabet": alphabet_text(alphabet)})


def _holds(path: Path, head: bytes) -> bool:
    return bool(_LINE.fullmatch(first_line(head)))


FORMAT = Format("dca", "adabmDCA: text of couplings and fields", (".dca",), _holds, read, write=write)
