"""The names of a study's pictures. This module does not need matplotlib."""

from __future__ import annotations

SWEEP = "sweep"  # stands in place of the target where all targets are in one picture


def picture_name(what: str, target: str) -> str:
    """The name, without `.png`, of the picture of a curve or measure on a target.

    Characters other than letters, digits, `.`, `=` and `-` become underscores.
    """
    return f"{_slug(what)}-{_slug(target)}"


def _slug(text: str) -> str:
    return "_".join("".join(c if c.isalnum() or c in ".=-" else " " for c in text).split())
