"""What `predict --condition` fixes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.errors import UserError


def read_condition(
    condition: str, shape: tuple[int, ...], columns: Sequence[str] = (), *, letters: str = ""
) -> tuple[Tensor, Tensor]:
    """One event in the units of the raw data `(1, *shape)`, float64, and the mask of its known coordinates, `shape`.

    Args:
        condition: `NUMBER=VALUE,...`. Coordinates are numbered from 0 in the flattened event, or are names of columns.
        shape: of an event.
        columns: names of the columns of the training data's table; () if there are none.
        letters: of an alignment, which may stand for their values; "" of other data.

    Raises:
        UserError: it is something else, or does not fit the shape.
    """
    size = math.prod(shape)
    event = torch.full((size,), torch.nan, dtype=torch.float64)
    for part in condition.split(","):
        number, _, value = part.partition("=")
        try:
            place, known = (
                columns.index(number) if number in columns else int(number),
                float(letters.index(value) if len(value) == 1 and value in letters else value),
            )
        except ValueError:
            example = f"{columns[0] if columns else 3}={letters[-1:] or 1}"
            raise UserError(
                f"--condition: {part} is not NUMBER=VALUE, such as {example}; a file of samples goes to `complete`"
            ) from None
        if not 0 <= place < size:
            raise UserError(f"--condition: there is no coordinate {place}; an event has {size}, from 0 on")
        if not event[place].isnan():
            raise UserError(f"--condition: coordinate {place} is given twice")
        event[place] = known
    event = event.view(1, *shape)
    mask = ~event.isnan()
    if not mask[0].any() or mask[0].all():
        raise UserError("--condition must fix some coordinates and leave others free (NaN)")
    return event, mask[0]
