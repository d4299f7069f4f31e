"""Names of the columns of tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ebmlab.errors import UserError


def check_columns(names: Sequence[str], wanted: Sequence[str], where: str, other: str = "the training data") -> None:
    """Raises `UserError` if a table has other columns than the training data, or in another order.

    Args:
        names: of the table's columns; empty if they are not known.
        wanted: the names in the training data; empty if they are not known.
        where: the beginning of the message.
        other: whose names are wanted.
    """
    for i, (mine, its) in enumerate(zip(names, wanted, strict=False)):
        if mine != its:
            raise UserError(
                f"{where}: column {i} of the samples is {mine}, but {its} in {other}: give the same columns in the "
                "same order"
            )


def numbers_are_names(columns: Sequence[str]) -> bool:
    """Whether a number may be the name of another column than the one that it counts to, from 0 on.

    Example:
        >>> [numbers_are_names(columns) for columns in (("1", "2", "4"), ("0", "1"), ("a", "b"))]
        [True, False, False]
    """
    return any(re.fullmatch(r"-?\d+", name) and int(name) != i for i, name in enumerate(columns))
