"""Residues of a chain and the positions of their atoms, from files in PDB format (version 3.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.sequences.alignment_file import find, read_lines
from ebmlab.settings import require_choice

Between = Literal["heavy", "beta"]
_NAMES = "ALACYSASPGLUPHEGLYHISILELYSLEUMETASNPROGLNARGSERTHRVALTRPTYR"
_AMINO_ACIDS = {_NAMES[3 * i : 3 * i + 3]: letter for i, letter in enumerate("ACDEFGHIKLMNPQRSTVWY")}
_MODIFIED = {  # residues that HETATM records describe, and those they stand for
    **dict.fromkeys(("MSE", "FME"), "M"),
    **dict.fromkeys(("CSO", "CME", "CSD", "OCS", "CSX"), "C"),
    **dict.fromkeys(("KCX", "MLY", "LLP", "ALY", "M3L"), "K"),
    **{"SEP": "S", "TPO": "T", "PTR": "Y", "HYP": "P", "PCA": "Q", "CGU": "E", "HIC": "H", "PSU": "U", "5MC": "C"},
}
_BASES = {**{base: base for base in "ACGU"}, "DA": "A", "DC": "C", "DG": "G", "DT": "T"}
LETTERS = _AMINO_ACIDS | _BASES
_CENTRES = ("CB", "CA", "C1'")  # the atom that stands for a residue: the first of these that it has


class _Atom(NamedTuple):
    name: str
    version: str
    residue: str
    place: tuple[float, float, float]
    occupancy: float


@dataclass(frozen=True)
class Residue:
    """A residue with a place in space.

    Attributes:
        letter: of the amino acid or base; X if it is of no usual kind.
        label: the number in the file and the insertion code, such as 184A.
        heavy: places of its atoms but hydrogens, `(A, 3)`, in Angstrom.
        beta: the place of C-beta, of C-alpha in glycine, of C1' in a base, `(3,)`.

    Example:
        >>> Residue("G", "12", heavy=np.zeros((4, 3)), beta=np.zeros(3)).letter
        'G'
    """

    letter: str
    label: str
    _: KW_ONLY
    heavy: NDArray[np.float64]
    beta: NDArray[np.float64]


def read_pdb(path: str | Path, chain: str | None = None) -> list[Residue]:
    """The residues of a chain of the first model that have places, in the order of the file.

    Of alternate locations the one with the largest occupancy counts, of equal ones the first. Modified residues that
    HETATM records describe, such as selenomethionine, count as those that they stand for. Water and ligands are left
    out. Missing residues are not in the list.

    Args:
        path: a file in PDB format, plain or packed by gzip; `package:NAME/...` as for alignments.
        chain: its letter; by default the first in the file.

    Raises:
        UserError: the file holds no such chain, or a line of it is damaged.

    Example:
        >>> line = "ATOM      2  CA  GLY A  23A     11.000  12.000  13.000  1.00 20.00           C  "
        >>> _ = Path("a.pdb").write_text(line)
        >>> residue, = read_pdb("a.pdb")
        >>> residue.letter, residue.label, residue.beta.tolist()
        ('G', '23A', [11.0, 12.0, 13.0])
    """
    file = find(path)
    lines = read_lines(file)
    if lines and lines[0].startswith("data_"):
        raise UserError(f"{file} is in mmCIF format: give the structure in PDB format")
    atoms: dict[str, dict[str, list[_Atom]]] = {}
    for letter, label, atom in _atoms(file, lines):
        atoms.setdefault(letter, {}).setdefault(label, []).append(atom)
    if not atoms:
        raise UserError(f"{file} holds no residues: give a structure in PDB format")
    if chain is not None and chain not in atoms:
        raise UserError(f"{file} has no chain {chain}; there are {', '.join(atoms)}")
    found = atoms[next(iter(atoms)) if chain is None else chain]
    return [residue for label, group in found.items() if (residue := _residue(label, group)) is not None]


def distances(residues: Sequence[Residue], between: Between = "heavy") -> Tensor:
    """Distances of residues in Angstrom, `(R, R)`, float64.

    Args:
        residues: of a chain.
        between: `heavy`, the closest atoms but hydrogens, or `beta`, C-beta atoms.

    Example:
        >>> places = np.array([[0.0, 0.0, 0.0], [0.0, 3.0, 4.0]])
        >>> distances([Residue("G", str(i), heavy=place[None], beta=place) for i, place in enumerate(places)]).tolist()
        [[0.0, 5.0], [5.0, 0.0]]
    """
    require_choice("distances", get_args(Between), between=between)
    if between == "beta":
        places = torch.from_numpy(np.stack([residue.beta for residue in residues]))
        return torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist")
    owner = torch.tensor([i for i, residue in enumerate(residues) for _ in residue.heavy])
    places = torch.from_numpy(np.concatenate([residue.heavy for residue in residues]))
    size = len(residues)
    rows = []
    for residue in residues:
        near = torch.cdist(torch.from_numpy(residue.heavy), places, compute_mode="donot_use_mm_for_euclid_dist").amin(0)
        rows.append(torch.full((size,), math.inf, dtype=near.dtype).scatter_reduce(0, owner, near, "amin"))
    return torch.stack(rows)


def _atoms(file: Path, lines: list[str]) -> Iterator[tuple[str, str, _Atom]]:
    """The chain, the label of the residue and the atom of each line that describes a heavy atom of a residue."""
    for number, line in enumerate(lines, 1):
        kind, residue = line[:6].strip(), line[17:20].strip()
        if kind == "ENDMDL":
            return
        if not (kind == "ATOM" or (kind == "HETATM" and residue in _MODIFIED)):
            continue
        name, element = line[12:16].strip(), line[76:78].strip().upper()
        if (element or name.lstrip("0123456789")[:1]) in ("H", "D"):
            continue
        try:
            x, y, z = (float(line[i : i + 8]) for i in (30, 38, 46))
            occupancy = float(line[54:60].strip() or 1)
            label = f"{int(line[22:26])}{line[26:27].strip()}"
            if not all(map(math.isfinite, (x, y, z, occupancy))):
                raise ValueError
        except ValueError as error:
            raise UserError(f"{file}, line {number}: '{line.rstrip()[:80]}' is no line of an atom") from error
        yield line[21:22].strip() or "_", label, _Atom(name, line[16:17].strip(), residue, (x, y, z), occupancy)


def _residue(label: str, atoms: list[_Atom]) -> Residue | None:
    """A residue at its likeliest location; None without an atom that tells its place."""
    share: dict[str, float] = {}
    for atom in atoms:
        share[atom.version] = share.get(atom.version, 0.0) + (atom.occupancy if atom.version else 0.0)
    likeliest = max(share, key=lambda version: share[version])
    chosen = [atom for atom in atoms if atom.version in ("", likeliest)]
    kind = chosen[0].residue if not likeliest else next(a.residue for a in chosen if a.version == likeliest)
    chosen = [atom for atom in chosen if atom.residue == kind]
    places = {atom.name: atom.place for atom in chosen}
    centre = next((places[name] for name in _CENTRES if name in places), None)
    if centre is None:
        return None
    heavy: Any = np.array([atom.place for atom in chosen])
    return Residue(LETTERS.get(kind) or _MODIFIED.get(kind, "X"), label, heavy=heavy, beta=np.array(centre))
