"""A small made-up protein family with a structure, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ebmlab.energies import Potts

LETTERS = "-ACDEFGHIKLMNPQRSTVWY"
_THREE = "ALACYSASPGLUPHEGLYHISILELYSLEUMETASNPROGLNARGSERTHRVALTRPTYR"
NAMES = {letter: _THREE[3 * i : 3 * i + 3] for i, letter in enumerate("ACDEFGHIKLMNPQRSTVWY")}


def drawn_potts(num_coordinates: int, num_values: int, pairs: Any = None, *, seed: int) -> Potts:
    """A Potts model with normal couplings and fields, in float64."""
    generator = torch.Generator().manual_seed(seed)
    energy = Potts(num_coordinates, num_values, pairs=pairs).double()
    with torch.no_grad():
        for tensor in (energy.coupling, energy.field):
            tensor.copy_(torch.randn(tensor.shape, generator=generator, dtype=torch.float64))
    return energy


def family_texts(sequences: int = 60, sites: int = 12, seed: int = 0) -> list[str]:
    """Noisy copies of one text, a few of which have a gap."""
    rng = np.random.default_rng(seed)
    parent = rng.integers(1, 21, sites)
    values = np.where(rng.random((sequences, sites)) < 0.5, rng.integers(1, 21, (sequences, sites)), parent)
    values[rng.random((sequences, sites)) < 0.02] = 0
    values[0] = parent
    return ["".join(LETTERS[a] for a in row) for row in values]


def write_family(path: Path, sequences: int = 60, sites: int = 12, seed: int = 0) -> Path:
    """Writes `family_texts` in FASTA; the first is called wild."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = family_texts(sequences, sites, seed)
    names = ["wild", *(f"s{i}" for i in range(1, sequences))]
    path.write_text("".join(f">{name} text\n{text}\n" for name, text in zip(names, texts, strict=True)))
    return path


def atom(
    number: int,
    name: str,
    residue: str,
    label: str,
    place: tuple[float, float, float],
    chain: str = "A",
    version: str = " ",
    occupancy: float = 1.0,
    kind: str = "ATOM",
) -> str:
    """A line of a PDB file; the label is a number with or without an insertion code."""
    code = label[-1] if label[-1].isalpha() else " "
    digits = label.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    x, y, z = place
    return (
        f"{kind:<6}{number:>5} {name:<4}{version}{residue:>3} {chain}{digits:>4}{code}   {x:8.3f}{y:8.3f}{z:8.3f}"
        f"{occupancy:6.2f}{20:6.2f}          {name[0]:>2}"
    )


def helix(size: int) -> NDArray[np.float64]:
    """Places of C-alpha atoms `(size, 3)`, in a wide coil that brings every fifth residue close."""
    turn = 2 * np.pi * np.arange(size) / 5
    return np.stack([5 * np.cos(turn), 5 * np.sin(turn), 1.0 * np.arange(size)], 1)


def write_structure(path: Path, sequence: str, chain: str = "A") -> Path:
    """Writes a chain of C-alpha atoms on `helix`."""
    lines = [
        atom(i + 1, " CA", NAMES[letter], str(i + 1), tuple(place), chain)
        for i, (letter, place) in enumerate(zip(sequence, helix(len(sequence)), strict=True))
    ]
    path.write_text("\n".join([*lines, "END"]) + "\n")
    return path
