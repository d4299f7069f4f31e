"""Small studies for the tests of `python -m ebmlab sample`."""

from __future__ import annotations

import csv
from pathlib import Path


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def tiny(tmp_path: Path, samplers: str, extra: str = "") -> Path:
    """A study of samplers on a 2x2 Ising model."""
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "targets: {ising: {class_path: ebmlab.energies.Ising.lattice,"
        " init_args: {side: 2, coupling: 0.2, field: 0.2}}}\n"
        f"samplers: {samplers}\n{extra}"
    )
    return path
