"""Bad input is refused by a `UserError` of one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ebmlab.errors import UserError


@contextmanager
def refused(match: str) -> Iterator[None]:
    """The body raises a `UserError` of one line, in which the pattern is found."""
    with pytest.raises(UserError, match=match) as error:
        yield
    assert "\n" not in str(error.value)


def one_line(act: Callable[[], object]) -> str:
    """The only line of the `UserError` that a call raises."""
    with pytest.raises(UserError) as error:
        act()
    assert "\n" not in str(error.value)
    return str(error.value)
