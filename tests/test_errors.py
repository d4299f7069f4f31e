"""Errors of libraries become lines of ours."""

from __future__ import annotations

import pytest

from ebmlab.errors import WHY, UserError, explained


def test_errors_of_the_named_kinds_become_the_line() -> None:
    with pytest.raises(UserError) as caught, explained(f"a.npy is damaged ({WHY}): delete it", (KeyError, ValueError)):
        raise ValueError("bad\n  magic")
    assert str(caught.value) == "a.npy is damaged (bad magic): delete it"
    assert isinstance(caught.value.__cause__, ValueError)


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), explained("no", ValueError):
        raise KeyError("x")


def test_a_line_of_ours_is_quoted_whole() -> None:
    line = "x" * 300
    with pytest.raises(UserError, match=f"^here: {line}$"), explained(f"here: {WHY}", UserError):
        raise UserError(line)
