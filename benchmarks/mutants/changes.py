"""The small changes: an operator, a number, a name, a dropped `not`, call or statement. All are made in the tree."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

OPERATORS = (  # an operator, and what stands in its place
    "Lt LtE GtE; LtE Lt Gt; Gt GtE LtE; GtE Gt Lt; Eq NotEq; NotEq Eq; Is IsNot; IsNot Is; In NotIn; NotIn In; And Or; "
    "Or And; Add Sub; Sub Add; Mult Div; Div Mult; FloorDiv Mult; Pow Mult; Mod Mult; BitAnd BitOr; BitOr BitAnd"
)
SWAPS = {old: new for old, *new in map(str.split, OPERATORS.split(";"))}
NAMES = {"min": "max", "all": "any", "argmin": "argmax", "floor": "ceil", "sum": "mean", "isfinite": "isnan"}
NAMES |= {new: old for old, new in NAMES.items()} | {"argsort": "argmax", "logsumexp": "sum"}
DROPPED = {"abs", "square", "sqrt", "exp", "log", "detach", "clone", "double", "cumsum", "contiguous"}


class Mutant(NamedTuple):
    """One change: where it is, what changed, and which change of the file it is.

    The key names the statement before and after, as `ast.unparse` writes it, so that it outlives every reformat.
    """

    path: str
    function: str
    key: str
    number: int

    def source(self, root: Path) -> str:
        """The whole file with the change."""
        return next(text() for number, _, _, text in changes(root / self.path) if number == self.number)


def others(op: ast.AST) -> list[Any]:
    """The operators that may stand in place of one."""
    return [getattr(ast, name)() for name in SWAPS.get(type(op).__name__, ())]


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in place of a node."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right):
            yield from (ast.Compare(left, [new], right) for new in others(op))
        case ast.BoolOp(op=op, values=values):
            yield from (ast.BoolOp(new, values) for new in others(op))
        case ast.BinOp(left=left, op=op, right=right):
            yield from (ast.BinOp(left, new, right) for new in others(op))
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(value=float(value)):
            yield ast.Constant(2 * value if value else 1.0)
        case ast.Call(func=ast.Attribute() | ast.Name() as function, args=args, keywords=keywords):
            field = "attr" if isinstance(function, ast.Attribute) else "id"
            name = getattr(function, field)
            if name in NAMES:
                other = copy.copy(function)
                setattr(other, field, NAMES[name])
                yield ast.Call(other, args, keywords)
            if name in DROPPED and isinstance(function, ast.Attribute) and not args:
                yield function.value
        case ast.AugAssign() | ast.Raise() | ast.Expr(value=ast.Call()):
            yield ast.Pass()


def parts(node: ast.AST) -> Iterator[tuple[ast.AST, Any, Any]]:
    """The children of a node that may be changed, each with what holds it and where."""
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.Raise() | ast.Import() | ast.ImportFrom():
            fields = []
        case ast.FunctionDef() | ast.ClassDef() | ast.Lambda():
            fields = ["body"]
        case ast.AnnAssign():
            fields = ["value"]
        case _:
            fields = list(node._fields)
    for field in fields:
        value = getattr(node, field)
        if isinstance(value, ast.AST):
            yield value, node, field
        elif isinstance(value, list):
            yield from ((item, value, k) for k, item in enumerate(value) if isinstance(item, ast.AST))


def put(holder: Any, place: Any, node: ast.AST) -> None:
    """Puts a node where `parts` found one."""
    if isinstance(holder, list):
        holder[place] = node
    else:
        setattr(holder, place, node)


def header(statement: ast.AST) -> str:
    """A statement in one line, without the statements in it."""
    bare = copy.copy(statement)
    for field in ("body", "orelse", "finalbody", "handlers", "decorator_list"):
        if isinstance(getattr(bare, field, None), list):
            setattr(bare, field, [])
    text = ast.unparse(bare) if not isinstance(bare, ast.Try) else "try"
    return " ".join(text.split())


def changes(path: Path) -> Iterator[tuple[int, str, str, Any]]:
    """For each change of a file its number, the function it is in, the statement before and after, and the text maker.

    The tree is changed while the caller looks at it, and then put back.
    """
    tree, number = ast.parse(path.read_text()), 0

    def walk(node: Any, holder: Any, place: Any, scope: str, statement: tuple[Any, Any]) -> Iterator[Any]:
        nonlocal number
        held = (holder, place) if isinstance(node, ast.stmt) else statement
        for new in changed(node):
            before = header(_held(held))
            put(holder, place, new)
            yield number, scope, f"{before} -> {header(_held(held))}", lambda: ast.unparse(tree)
            put(holder, place, node)
            number += 1
        inner = f"{scope}.{node.name}".strip(".") if isinstance(node, ast.FunctionDef | ast.ClassDef) else scope
        for child, inside, where in parts(node):
            yield from walk(child, inside, where, inner, held)

    for child, inside, where in parts(tree):
        yield from walk(child, inside, where, "", (inside, where))


def _held(place: tuple[Any, Any]) -> Any:
    holder, where = place
    return holder[where] if isinstance(holder, list) else getattr(holder, where)


def mutants(path: Path, root: Path) -> Iterator[Mutant]:
    """All mutants of a file under `root`."""
    name, seen = str(path.relative_to(root)), Counter[str]()
    for number, scope, change, _ in changes(path):
        key = f"{name} {scope or '(module)'}: {change}"
        seen[key] += 1
        yield Mutant(name, scope, key + (f" #{seen[key]}" if seen[key] > 1 else ""), number)
