"""What `predict --condition` fixes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ebmlab.data.columns import numbers_are_names
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.errors import UserError, few
from ebmlab.sequences import Alphabet


def read_condition(condition: str, form: Preprocessing) -> tuple[Tensor, Tensor]:
    """One event in the units of the raw data `(1, *shape)`, float64, and the mask of its known coordinates, `shape`.

    Args:
        condition: `NUMBER=VALUE,...`. Coordinates go by the names of their columns, or by numbers from 0 in the
            flattened event. Where names are numbers, as in an alignment, each number is a name.
        form: of the training data.

    Raises:
        UserError: it is something else, or does not fit the shape.
    """
    size, columns, letters = math.prod(form.shape), form.columns, form.letters
    alphabet = Alphabet(letters, form.gap)
    event = torch.full((size,), torch.nan, dtype=torch.float64)
    for part in condition.split(","):
        name, _, value = part.partition("=")
        try:
            place, letter = _place(name, form), alphabet.value(value) if len(value) == 1 else None
            known = float(value if letter is None else letter)
        except ValueError:
            if value and columns and name not in columns and not name.lstrip("-").isdigit():
                raise UserError(f"--condition: there is no column {name}; there are {few(columns, 10)}") from None
            example = f"{columns[0] if columns else 3}={letters[-1:] or 1}"
            raise UserError(
                f"--condition: {part} is not NUMBER=VALUE, such as {example}; a file of samples goes to `complete`"
            ) from None
        if not 0 <= place < size:
            raise UserError(f"--condition: there is no coordinate {place}; an event has {size}, from 0 on")
        if not event[place].isnan():
            what = f"column {columns[place]}" if columns else f"coordinate {place}"
            raise UserError(f"--condition: {what} is given twice")
        event[place] = known
    event = event.view(1, *form.shape)
    mask = ~event.isnan()
    if not mask[0].any() or mask[0].all():
        raise UserError("--condition must fix some coordinates and leave others free (NaN)")
    return event, mask[0]


def _place(name: str, form: Preprocessing) -> int:
    """The coordinate that a name or a number stands for; `ValueError` if it is neither."""
    columns, named = form.columns, numbers_are_names(form.columns)
    if columns.count(name) > 1:
        mend = "" if named else ": give one by its number, from 0 on"
        raise UserError(f"--condition: several columns are called {name}{mend}")
    if name in columns:
        return columns.index(name)
    number = int(name)
    if not named:
        return number
    if str(number) in columns:
        return columns.index(str(number))
    why = "was left out of the model" if 0 < number <= form.width else "is not in the model"
    raise UserError(f"--condition: column {number} {why}: its columns are {few(columns, 10)}")
