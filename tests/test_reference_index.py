"""The first page of the reference has one line for each public name, and no other."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
LINE = re.compile(r"^\| \[`(\w+)`\]\[([\w.]+)\] \| (.+) \|$", re.M)


def public_names() -> set[str]:
    """The names in `__all__` of the modules that the reference's pages show, or all public ones that they define."""
    modules = {
        name for page in REFERENCE.glob("*.md") for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.M)
    }
    return {f"{module}.{name}" for module in modules for name in names_of(module)}


def names_of(module: str) -> list[str]:
    loaded = importlib.import_module(module)
    defined = [name for name, value in vars(loaded).items() if inspect.isclass(value) or inspect.isfunction(value)]
    own = [name for name in defined if not name.startswith("_") and getattr(loaded, name).__module__ == module]
    return list(getattr(loaded, "__all__", own))


def test_each_public_name_has_a_line() -> None:
    lines = LINE.findall((REFERENCE / "index.md").read_text())
    listed = Counter(path for _, path, _ in lines)
    assert set(listed) == public_names() and max(listed.values()) == 1
    assert all(path.endswith(f".{name}") and len(text.split()) <= 12 for name, path, text in lines)
