"""Text of pydca's `compute_params`: `site,h(1),...` in fields_NAME.txt, `i,j,J(1,1),J(1,2),...` in couplings_NAME.txt.

Sites count from 1, in memory from 0. The values are the letters of protein or RNA without the gap, which is the last
state of pydca and not written. Only the highest ranked pairs are written, by default as many as there are sites. None
of them are near to each other in the sequence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from ebmlab.errors import UserError
from ebmlab.exchange.dca import ALPHABETS
from ebmlab.exchange.foreign import Foreign, labels, potts
from ebmlab.exchange.format import Format, first_line, text_of

RULE = "#" + 70 * "="  # the first line of each file
LETTERS = {len(alphabet) - 1: alphabet[1:] for alphabet in ALPHABETS[:2]}
PARTS = ("fields_", "couplings_")
Fields = dict[int, list[float]]
Couplings = dict[tuple[int, int], list[float]]


def read(path: Path, vartype: str | None) -> Foreign:
    """Reads either file, and the other one beside it.

    Raises:
        UserError: the other file is not there, a line is not of this form, or a pair has a site without fields.
    """
    own = next((part for part in PARTS if path.name.startswith(part)), None)
    if own is None:
        raise UserError(f"pydca writes two files, and the other is found by their names: {' and '.join(PARTS)}NAME.txt")
    paths = [path.with_name(part + path.name.removeprefix(own)) for part in PARTS]
    if missing := [other.name for other in paths if not other.is_file()]:
        raise UserError(f"pydca writes two files, and {missing[0]} is not beside it")
    fields: Fields = {}
    couplings: Couplings = {}
    for given in paths:
        for number, line in enumerate(text_of(given).splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            cells = line.split(",")
            try:
                if given is paths[0]:
                    _keep(fields, int(cells[0]), map(float, cells[1:]))
                else:
                    _keep(couplings, (int(cells[0]), int(cells[1])), map(float, cells[2:]))
            except (ValueError, IndexError) as error:
                raise UserError(f"line {number} of {given.name} is {line[:40]!r}: {error}") from error
    return _model(fields, couplings)


def take(given: Any) -> Foreign:
    """What `compute_params()` returns: fields and couplings."""
    fields: Fields = {}
    couplings: Couplings = {}
    for site, numbers in given[0]:
        _keep(fields, int(site), map(float, numbers))
    for (i, j), numbers in given[1]:
        _keep(couplings, (int(i), int(j)), map(float, numbers))
    return _model(fields, couplings)


def _keep(found: dict[Any, list[float]], key: Any, numbers: Iterable[float]) -> None:
    if key in found:
        raise ValueError(f"it comes again for {key}")
    found[key] = list(numbers)
    if not all(map(math.isfinite, found[key])):
        raise ValueError("numbers must be finite")


def _model(fields: Fields, couplings: Couplings) -> Foreign:
    counts = {len(row) for row in fields.values()}
    q = min(counts, default=0)
    if len(counts) != 1 or q not in LETTERS:
        raise UserError(f"sites have {sorted(counts)} fields, and must have 20 (protein) or 4 (RNA) each")
    if any(len(block) != q * q for block in couplings.values()):
        raise UserError(f"a pair of sites has not {q * q} couplings")
    place = {site: k for k, site in enumerate(fields)}
    for i, j in couplings:
        if i == j or i not in place or j not in place:
            raise UserError(f"it couples {i} and {j}, which are not two sites that have fields")
    field = torch.tensor(list(fields.values()), dtype=torch.float64)
    blocks: dict[tuple[int, int], torch.Tensor] = {}
    for (i, j), numbers in couplings.items():
        if (j, i) in couplings:
            raise UserError(f"it couples {i} and {j} twice, in both orders")
        block, ends = torch.tensor(numbers, dtype=torch.float64).view(q, q), (place[i], place[j])
        blocks[min(ends), max(ends)] = block if ends[0] < ends[1] else block.T
    order = sorted(blocks)
    coupling = torch.stack([blocks[ends] for ends in order]) if order else field.new_zeros(0, q, q)
    facts, lost = {"alphabet": LETTERS[q]}, _lost(len(field), len(order))
    return Foreign(
        potts(order, coupling, field), "pydca", names=labels(list(fields)), form="values", facts=facts, lost=lost
    )


def _lost(sites: int, pairs: int) -> tuple[str, ...]:
    """What pydca's own output lacks."""
    every = sites * (sites - 1) // 2
    lost = ["fields and couplings of the gap, which pydca leaves out"]
    lost += [f"couplings of {every - pairs} of the {every} pairs, which pydca leaves out"] if pairs < every else []
    return *lost, "what pydca took from each coupling to make its means 0, and did not add to the fields"


def _accepts(given: Any) -> bool:
    if not isinstance(given, tuple) or len(given) != 2 or not all(isinstance(part, tuple | list) for part in given):
        return False
    return bool(given[0]) and all(isinstance(row, tuple) and len(row) == 2 for part in given for row in part)


def _holds(path: Path, head: bytes) -> bool:
    return head.startswith(RULE.encode()) and first_line(head).partition(",")[0].isdigit()


FORMAT = Format("pydca", "pydca: two text files", (), _holds, read, _accepts, take)
