"""Mutants are made from the syntax tree: a reformat of the source does not break them."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from helpers_mutants import changed

PLAIN = "def f(x, y):\n    z = x * y  # the product\n    return {'sum': x + y, 'all': (x + y) * z}['all'] - g(x, -y)\n"
REFORMATTED = (
    "def f(x, y):\n    z = (x *\n        y)\n"
    '    return {"sum": x + y, "all": (x + y) * z}[\n        "all"\n    ] - g(\n        x,\n        -y,\n    )\n'
)


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("z = x * y", "z = x; z += y", 5 * 5 + 6),  # a statement by two
        ("x * y", "x / y", 5 * 1.5 + 6),  # an expression
        ("g(x, -y)", "max(x, -y)", 5 * 6 - 3),  # a call that a reformat spreads over lines
        ("- g(x, -y)", "+ g(x, -y)", 5 * 6 - 6),  # a part of an expression, as `ast.unparse` writes it
    ],
)
@pytest.mark.parametrize("source", [PLAIN, REFORMATTED], ids=["plain", "reformatted"])
def test_the_layout_does_not_matter(source: str, old: str, new: str, value: float) -> None:
    names: dict[str, Any] = {"g": lambda x, y: x * y}
    exec(compile(changed(source, old, new), "<mutant>", "exec"), names)
    assert names["f"](3, 2) == value


def test_what_does_not_occur_once_is_an_error() -> None:
    with pytest.raises(AssertionError, match="occurs 2 times"):
        changed(PLAIN, "x + y", "x")
    with pytest.raises(AssertionError, match="occurs 0 times"):
        changed(PLAIN, "x % y", "x")
    assert ast.dump(changed(PLAIN, "x * y", "y * x")) == ast.dump(changed(REFORMATTED, "x * y", "y * x"))
