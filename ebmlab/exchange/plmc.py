"""Binary parameters of plmc, and EVcouplings' models.

The file is little-endian. It begins with L, q, sequences used and skipped, and iterations (int32). Then come theta,
lambda_h, lambda_J, group lambda and the effective number (float), the alphabet and a weight of each sequence. The
target and the index of each site, from 1 on, follow, then f_i and h_i (L, q). Last are f_ij and J_ij (q, q) of i < j by
rows. An older version begins with L, q and the target; each pair there has its indices, f_ij and J_ij. Numbers are
float32, or float64 where EVcouplings wrote them so.

Both packages have p(x) proportional to exp(H(x)): EVcouplings' "hamiltonian" is the negative energy.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ebmlab.energies import Potts
from ebmlab.errors import UserError, explained
from ebmlab.exchange.dca import ALPHABETS, lost_letters
from ebmlab.exchange.foreign import Foreign, labels, potts, precision
from ebmlab.exchange.format import Format, has, only
from ebmlab.io.files import whole

SETTINGS = ("theta", "lambda_h", "lambda_J", "lambda_group", "effective_number")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Layout:
    """Where a file has what, in bytes."""

    sites: int
    letters: int
    sequences: int
    width: int  # bytes of a number
    new: bool

    @property
    def alphabet(self) -> int:
        return 20 + 5 * self.width if self.new else 8

    @property
    def target(self) -> int:
        return self.alphabet + (self.letters + self.sequences * self.width if self.new else 0)

    @property
    def fields(self) -> int:
        """Where h begins, after f."""
        return self.target + 5 * self.sites + self.sites * self.letters * self.width

    @property
    def pairs(self) -> int:
        return self.fields + self.sites * self.letters * self.width

    @property
    def size(self) -> int:
        number = self.sites * (self.sites - 1) // 2
        return self.pairs + number * (2 * self.letters**2 * self.width + (0 if self.new else 8))


def read(path: Path, vartype: str | None) -> Foreign:
    """Reads either version; `names` are the indices of the sites, `facts` holds alphabet, target and settings.

    Raises:
        UserError: it is cut short, pairs are in another order, or numbers are not finite.
    """
    with path.open("rb") as file:
        layout = _layout(file.read(64), path.stat().st_size)
    if layout is None:
        raise UserError("its size is not what its first numbers say: it is cut short, or no file of plmc")
    kind, d, q = f"<f{layout.width}", layout.sites, layout.letters

    def part(begin: int, count: int, form: Any) -> Array:
        return np.fromfile(path, form, count, offset=begin)

    if layout.new:
        alphabet = _text(part(layout.alphabet, q, "S1"))
        facts = dict(zip(SETTINGS, part(20, 5, kind).tolist(), strict=True))
    else:
        alphabet, facts = next((a for a in (ALPHABETS[0], ALPHABETS[0][1:]) if len(a) == q), ""), {}
    target, index = _text(part(layout.target, d, "S1")), part(layout.target + d, d, "<i4").tolist()
    pairs = d * (d - 1) // 2
    if layout.new:
        J = part(layout.pairs + pairs * q * q * layout.width, pairs * q * q, kind)
    else:
        rows = part(layout.pairs, pairs, [("ends", "<i4", 2), ("f", kind, q * q), ("J", kind, q * q)])
        if not np.array_equal(rows["ends"], np.stack(np.triu_indices(d, 1), 1) + 1):
            raise UserError("its pairs are not in the order 1 2, 1 3, ..., in which plmc writes them")
        J = rows["J"]
    h = part(layout.fields, d * q, kind).reshape(d, q)
    return _model(J.reshape(pairs, q, q), h, index, {"alphabet": alphabet, "target": target, **facts})


def take(given: Any) -> Foreign:
    """A `CouplingsModel` in memory."""
    J, h = np.asarray(given.J_ij, np.float64), np.asarray(given.h_i, np.float64)
    facts = {"alphabet": "".join(map(str, given.alphabet)), "target": "".join(map(str, given.target_seq))}
    return _model(J[np.triu_indices(len(h), 1)], h, [int(index) for index in given.index_list], facts)


def write(foreign: Foreign, path: Path) -> list[str]:
    """Writes the newer version in float32, as plmc does, with frequencies of NaN, which EVcouplings reads."""
    energy = only(foreign, Potts, "plmc")
    d, q = energy.field.shape
    guessed = next((a for a in ALPHABETS if len(a) == q), string.ascii_uppercase[:q])
    known_letters = _letters(foreign.facts.get("alphabet"), q)
    alphabet = known_letters or guessed
    if len(alphabet) != q:
        raise UserError(f"plmc names each value by one letter, and {q} values have no known alphabet")
    fit = len(foreign.names) == d and all(isinstance(name, int) and abs(name) < 2**31 for name in foreign.names)
    names = foreign.names if fit else ()
    known = [foreign.facts.get(name) for name in SETTINGS]
    settings = [value if isinstance(value, float) else 0.0 for value in known]
    pairs, rows = torch.triu_indices(d, d, 1), energy.couplings()
    J, h = rows[pairs[0], pairs[1]].cpu(), energy.field.detach().cpu()
    parts = [np.array([d, q, 0, 0, 0], "<i4"), np.array(settings, "<f4"), np.frombuffer(alphabet.encode("ascii"), "S1")]
    target = _letters(foreign.facts.get("target"), d) or alphabet[0] * d
    parts += [np.frombuffer(target.encode("ascii"), "S1")]
    parts += [np.array(names or range(1, d + 1), "<i4"), np.full(h.numel(), np.nan, "<f4")]
    parts += [h.numpy().astype("<f4"), np.full(J.numel(), np.nan, "<f4"), J.numpy().astype("<f4")]
    with whole(path) as temporary, temporary.open("wb") as file:
        for part in parts:
            file.write(part.tobytes())
    lost = [] if precision(J, h) == torch.float32 else ["digits beyond those of float32"]
    lost += ["the names of the sites"] if foreign.names and not names else []
    return [*lost, *lost_letters(known_letters, guessed), "frequencies, which are NaN in the file"]


def _model(J: Array, h: Array, index: list[int], facts: dict[str, Any]) -> Foreign:
    coupling, field = torch.from_numpy(J.astype(np.float64)), torch.from_numpy(h.astype(np.float64))
    if not (coupling.isfinite().all() and field.isfinite().all()):
        raise UserError("its fields or couplings hold NaN or infinity")
    used = coupling.flatten(1).any(1)
    energy = potts(torch.triu_indices(len(h), len(h), 1).T[used], coupling[used], field)
    lost = ("frequencies of one and two sites, and weights of sequences",)
    return Foreign(energy, "plmc", offset=0.0, scale=-1.0, names=labels(index), form="values", facts=facts, lost=lost)


def _layout(head: bytes, size: int) -> _Layout | None:
    """The layout that has just this size; None if there is none."""
    numbers = np.frombuffer(head[:20], "<i4").tolist() if len(head) >= 20 else []
    if not numbers or not 1 <= numbers[0] < 2**20 or not 2 <= numbers[1] < 256:
        return None
    d, q, used, skipped, _ = numbers
    found = [_Layout(d, q, used + skipped, width, True) for width in (4, 8) if min(used, skipped) >= 0]
    found += [_Layout(d, q, 0, width, False) for width in (4, 8)]
    return next((layout for layout in found if layout.size == size), None)


def _letters(known: Any, count: int) -> str:
    """What is known of letters, if there are as many as are needed; else none."""
    return known if isinstance(known, str) and known.isascii() and len(known) == count else ""


def _text(letters: Array) -> str:
    with explained("its letters are no ASCII text", UnicodeDecodeError):
        return b"".join(letters.tolist()).decode("ascii")


FORMAT = Format(
    "plmc", "plmc, EVcouplings: binary parameters", (".model", ".eij", ".Jij"),
    lambda path, head: _layout(head, path.stat().st_size) is not None, read,
    has("J_ij", "h_i", "alphabet", "index_list"), take, write,
)  # fmt: skip
