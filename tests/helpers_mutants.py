"""Deliberately wrong kernels, made by changing the syntax tree of the right ones."""

from __future__ import annotations

import ast
import copy
import inspect
from contextlib import suppress
from typing import Any


class Replaced(ast.NodeTransformer):
    """Puts statements or an expression in place of each equal one, and counts them; layout and comments do not matter.

    Args:
        old: source of one statement or one expression.
        new: source of what stands in its place: an expression, or statements.
    """

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = _part(old)[0], _part(new)
        self.shape, self.count = _shape(self.old), 0

    def visit(self, node: ast.AST) -> Any:
        if type(node) is type(self.old) and _shape(node) == self.shape:
            self.count += 1
            return copy.deepcopy(self.new if isinstance(self.old, ast.stmt) else self.new[0])
        return self.generic_visit(node)


def _part(source: str) -> list[Any]:
    """The nodes of some source: statements, or one expression."""
    body = ast.parse(source).body
    return [body[0].value] if len(body) == 1 and isinstance(body[0], ast.Expr) else list(body)


def _shape(node: ast.AST) -> str:
    """Equal for equal code, whether it is read or written to."""
    return ast.dump(node).replace("Store()", "Load()")


def mutant(cls: Any, old: str, new: str, **names: Any) -> Any:
    """The class or function as its module would define it with `old` replaced by `new`, which may use extra `names`.

    Args:
        cls: a class or function.
        old: an expression or statement that occurs once in its module; or a part of one, as `ast.unparse` writes it.
        new: what stands in its place.
        **names: what `new` needs and the module does not have.
    """
    module = inspect.getmodule(cls)
    assert module is not None
    namespace: dict[str, Any] = {"__name__": module.__name__, **names}
    exec(compile(changed(inspect.getsource(module), old, new), f"<mutant of {module.__name__}>", "exec"), namespace)
    return namespace[cls.__name__]


def changed(source: str, old: str, new: str) -> ast.Module:
    """The tree of some source with a part replaced, however the source is laid out."""
    tree, count = ast.parse(source), 0
    with suppress(SyntaxError):  # it is part of an expression
        replaced = Replaced(old, new)
        tree = ast.fix_missing_locations(replaced.visit(tree))
        count = replaced.count
    if count == 0:
        text = ast.unparse(tree)
        count, tree = text.count(old), ast.parse(text.replace(old, new))
    assert count == 1, f"{old!r} occurs {count} times: write this mutant anew"
    return tree
