"""The library's classes, read from their sources: importing them would load torch, which takes seconds."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, eq=False)
class Source:
    """A class as its source defines it.

    Attributes:
        path: its class path.
        node: its definition.
        bases: its bases that are classes of the library.
        foreign: the dotted names of its other bases.
    """

    path: str
    node: ast.ClassDef
    bases: tuple[Source, ...]
    foreign: tuple[str, ...]

    @cached_property
    def lineage(self) -> list[Source]:
        """The class and its bases in the library, nearest first; a base of several comes after all of them."""
        every = [self, *(ancestor for base in self.bases for ancestor in base.lineage)]
        return list(dict.fromkeys(reversed(every)))[::-1]

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        text = next(filter(None, (ast.get_docstring(source.node) for source in self.lineage)), "")
        return text.split("\n")[0]

    @property
    def domains(self) -> list[str]:
        """The names in the attribute `domains`."""
        for source in self.lineage:
            for node in source.node.body:
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                if any(isinstance(t, ast.Name) and t.id == "domains" for t in targets):
                    return [e.id for e in ast.walk(node.value) if isinstance(e, ast.Name)]  # type: ignore[attr-defined]
        return []

    @cached_property
    def is_unfinished(self) -> bool:
        """Whether a method is abstract or raises `NotImplementedError`."""
        methods: dict[str, ast.FunctionDef] = {}
        owners: dict[str, Source] = {}
        for source in reversed(self.lineage):
            own = {n.name: n for n in source.node.body if isinstance(n, ast.FunctionDef) and not _is_property(n)}
            methods |= own
            owners |= dict.fromkeys(own, source)
        if owners.get("kernel_on") is not owners.get("step"):
            methods.pop("step", None)  # the engine runs a kernel where a sampler has one
        names = {n.id for method in methods.values() for n in ast.walk(method) if isinstance(n, ast.Name)}
        return not names.isdisjoint({"NotImplementedError", "abstractmethod"})


def public(module: str) -> dict[str, Source]:
    """The classes in a package's `__all__`, by name and in its order."""
    body = _body(module)
    names = next(ast.literal_eval(n.value) for n in body if isinstance(n, ast.Assign) and _assigns(n, "__all__"))
    found = {name: find(f"{module}.{name}") for name in names}
    return {name: source for name, source in found.items() if isinstance(source, Source)}


@cache
def find(path: str) -> Source | str:
    """A class of the library by its dotted name, through imports; the name itself if it is none."""
    module, _, name = path.rpartition(".")
    if module.partition(".")[0] != "ebmlab" or _file(module) is None:
        return path
    for node in _body(module):
        if isinstance(node, ast.ClassDef) and node.name == name:
            bases = [find(_full(base, module)) for base in node.bases]
            ours = tuple(base for base in bases if isinstance(base, Source))
            return Source(path, node, ours, tuple(base for base in bases if isinstance(base, str)))
        if isinstance(node, ast.Assign) and _assigns(node, name) and isinstance(node.value, ast.Name):
            return find(f"{module}.{node.value.id}")
    imported = _imports(module).get(name)
    return find(imported) if imported else path


@cache
def _imports(module: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in _body(module):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
    return names


def _full(node: ast.expr, module: str) -> str:
    """The dotted name that an expression such as `pl.Callback` or `Base[int]` means in a module."""
    first, dot, rest = ast.unparse(node.value if isinstance(node, ast.Subscript) else node).partition(".")
    return f"{_imports(module).get(first, f'{module}.{first}')}{dot}{rest}"


@cache
def _body(module: str) -> list[ast.stmt]:
    path = _file(module)
    return ast.parse(path.read_text(encoding="utf-8")).body if path else []


def _file(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


def _is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(decorator, ast.Name) and decorator.id == "property" for decorator in node.decorator_list)


def _assigns(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
