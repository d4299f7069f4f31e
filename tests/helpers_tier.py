"""Grids of cases of which the fast tier runs a few, the slow one all others."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import pytest


def cases(names: str | tuple[str, ...], values: Mapping[str, Any] | Iterable[Any], fast: Container[Any]) -> Any:
    """`pytest.mark.parametrize` with the marks of the tiers.

    Args:
        names: of the test's arguments.
        values: the cases, by name or in a list.
        fast: the names of those of the fast tier, or their places in the list.
    """
    mapping = isinstance(values, Mapping)
    found = []
    for name, value in values.items() if isinstance(values, Mapping) else enumerate(values):
        arguments = (value,) if isinstance(names, str) else value
        marks = [] if name in fast else [pytest.mark.slow]
        found.append(pytest.param(*arguments, id=name if mapping else None, marks=marks))
    assert any(not param.marks for param in found), "the fast tier needs a case"
    return pytest.mark.parametrize(names, found)
