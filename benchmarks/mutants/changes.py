"""The small changes: an operator, a number, a name, a dropped `not`, call or statement."""

from __future__ import annotations

import ast
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
    """One changed line: where it is, what changed, and the whole file with the change."""

    path: str
    function: str
    key: str
    source: str


def changed(node: ast.AST) -> Iterator[str]:
    """What may stand in place of a node."""

    def others(op: ast.AST) -> list[Any]:
        return [getattr(ast, name)() for name in SWAPS.get(type(op).__name__, ())]

    match node:
        case ast.Compare(left=left, ops=[op], comparators=right):
            yield from (f"({ast.unparse(ast.Compare(left, [new], right))})" for new in others(op))
        case ast.BoolOp(op=op, values=values):
            yield from (f"({ast.unparse(ast.BoolOp(new, values))})" for new in others(op))
        case ast.BinOp(left=left, op=op, right=right):
            yield from (f"({ast.unparse(ast.BinOp(left, new, right))})" for new in others(op))
        case ast.UnaryOp(operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value)):
            yield from (str(value + 1), f"({value - 1})")
        case ast.Constant(value=float(value)):
            yield str(2 * value if value else 1.0)
        case ast.Call(func=ast.Attribute() | ast.Name() as function, args=args):
            name = (called := ast.unparse(function)).split(".")[-1]
            if name in NAMES:
                yield called.removesuffix(name) + NAMES[name] + ast.unparse(node).removeprefix(called)
            if name in DROPPED and isinstance(function, ast.Attribute) and not args:
                yield f"({ast.unparse(function.value)})"
        case ast.AugAssign() | ast.Raise() | ast.Expr(value=ast.Call()):
            yield "pass"


def parts(node: ast.AST) -> list[ast.AST]:
    """The children of a node that may be changed."""
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.Raise() | ast.Import() | ast.ImportFrom():
            return []
        case ast.FunctionDef(body=body) | ast.ClassDef(body=body):
            return list(body)
        case ast.AnnAssign(value=value):
            return [value] if value else []
        case ast.Lambda(body=body):
            return [body]
    return list(ast.iter_child_nodes(node))


def mutants(path: Path, root: Path) -> Iterator[Mutant]:
    """All mutants of a file under `root`."""
    text, name, seen = path.read_bytes(), str(path.relative_to(root)), Counter[str]()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def walk(node: Any, scope: str) -> Iterator[Mutant]:
        for new in changed(node):
            first = starts[node.lineno - 1]
            begin, end = first + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
            last = text.find(b"\n", end)
            lines = text[first:last], text[first:begin] + new.encode() + text[end:last]
            change = " -> ".join(" ".join(line.decode().split()) for line in lines)
            key = f"{name} {scope or '(module)'}: {change}"
            seen[key] += 1
            source = (text[:begin] + new.encode() + text[end:]).decode()
            yield Mutant(name, scope, key + (f" #{seen[key]}" if seen[key] > 1 else ""), source)
        inner = f"{scope}.{node.name}".strip(".") if isinstance(node, ast.FunctionDef | ast.ClassDef) else scope
        for part in parts(node):
            yield from walk(part, inner)

    yield from walk(ast.parse(text), "")
