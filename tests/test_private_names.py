"""Tests hold on to what is public: they patch no private name, so that the inside may change without them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "tests").rglob("*.py"))
PATCHING = {"setattr", "delattr", "patch", "object"}


def is_private(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last.startswith("_") and not last.endswith("__")


def patched(tree: ast.AST) -> Iterator[str]:
    """Private names that are patched, or set on another object than `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in PATCHING:
            names = [a.value for a in node.args[:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            yield from (name for name in names[:1] if is_private(name))
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Attribute) and is_private(target.attr) and ast.unparse(target.value) != "self":
                yield target.attr


def test_no_private_name_is_patched() -> None:
    found = {str(path.relative_to(ROOT)): list(patched(ast.parse(path.read_text()))) for path in FILES}
    assert {path: names for path, names in found.items() if names} == {}


def test_every_way_is_found() -> None:
    calls = "m.setattr(a, '_b', 1); m.setattr('a.b._c', 2); mock.patch.object(a, '_d')"
    source = f"{calls}; a._e = 1; self._f = a.__g__ = 1"
    assert list(patched(ast.parse(source))) == ["_e", "_b", "a.b._c", "_d"]
