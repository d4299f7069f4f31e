"""What `predict --condition` fixes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.reading.number_files import SUFFIXES, read_numbers
from ebmlab.reading.tables import check_columns, read_head


def read_condition(condition: str, shape: tuple[int, ...], columns: Sequence[str] = ()) -> tuple[Tensor, Tensor]:
    """One event in the units of the raw data `(1, *shape)`, float64, and the mask of its known coordinates, `shape`.

    Args:
        condition: `NUMBER=VALUE,...`, or a file with one event, NaN where it is not known. Coordinates are numbered
            from 0 in the flattened event, or are names of columns.
        shape: of an event.
        columns: names of the columns of the training data's table, which a file must have, too; () if there are none.

    Raises:
        UserError: it is neither, or does not fit the shape.
    """
    size = math.prod(shape)
    if "=" in condition:
        event = torch.full((size,), torch.nan, dtype=torch.float64)
        for part in condition.split(","):
            number, _, value = part.partition("=")
            try:
                place, event_value = columns.index(number) if number in columns else int(number), float(value)
            except ValueError:
                example = f"{columns[0]}=1" if columns else "3=1"
                raise UserError(f"--condition: {part} is not NUMBER=VALUE, such as {example}") from None
            if not 0 <= place < size:
                raise UserError(f"--condition: there is no coordinate {place}; an event has {size}, from 0 on")
            if not event[place].isnan():
                raise UserError(f"--condition: coordinate {place} is given twice")
            event[place] = event_value
    else:
        path = Path(condition)
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            raise UserError(
                f"--condition is {condition}, but must be NUMBER=VALUE,... or a file that is there "
                f"({', '.join(SUFFIXES)}) with one event, NaN where it is not known"
            )
        event, _ = read_numbers(path, None, "x")
        if path.suffix.lower() == ".csv":
            check_columns(read_head(path).names, columns, f"--condition {path}")
        if event.numel() != size:
            raise UserError(f"--condition {path}: {event.numel()} numbers, but one event has {size}")
    event = event.double().view(1, *shape)
    mask = ~event.isnan()
    if not mask[0].any() or mask[0].all():
        raise UserError("--condition must fix some coordinates and leave others free (NaN)")
    return event, mask[0]
