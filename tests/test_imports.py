"""Imports run one way: ground <- energies <- samplers <- learners and evaluation <- callbacks and the command line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("ebmlab", "callbacks", "datamodules")
FILES = sorted(p.relative_to(ROOT) for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
GROUND = {"domains", "errors", "files", "noise", "ranks"}
MAY_IMPORT = {  # layer: the layers that it may import besides itself
    "ground": set(),
    "energies": {"ground"},
    "samplers": {"ground", "energies"},
    "learners": {"ground", "energies", "samplers"},
    "evaluation": {"ground", "energies", "samplers"},
    "command line": {"ground", "energies", "samplers", "learners", "evaluation", "callbacks", "datamodules"},
    "callbacks": {"ground", "energies", "samplers", "learners", "evaluation"},
    "datamodules": {"ground"},
}


def layer(module: str) -> str | None:
    """The layer of a dotted module name; None for other people's modules and for the bare package."""
    package, _, rest = module.partition(".")
    if package not in PACKAGES or module == "ebmlab":
        return None
    part = rest.partition(".")[0]
    if package != "ebmlab":
        return package
    if part in GROUND:
        return "ground"
    return part if part in MAY_IMPORT else "command line"


def imports(path: Path) -> Iterator[str]:
    """Dotted names that a file imports anywhere in it, `from package import module` included."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(path.parts[: len(path.parts) - node.level]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            yield from [f"ebmlab.{alias.name}" for alias in node.names] if module == "ebmlab" else [module]


def violations(path: Path) -> list[str]:
    mine = layer(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    if mine is None:  # ebmlab/__init__.py
        return [name for name in imports(path) if layer(name)]
    allowed = MAY_IMPORT[mine] | {mine, None}
    return [f"{path} ({mine}) imports {name} ({layer(name)})" for name in imports(path) if layer(name) not in allowed]


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_run_one_way(path: Path) -> None:
    assert violations(path) == []


@pytest.mark.parametrize("path", FILES, ids=str)
def test_files_are_short_and_named_for_what_they_hold(path: Path) -> None:
    assert path.name != "utils.py"
    assert len((ROOT / path).read_text().splitlines()) <= 300


def test_the_rule_sees_every_layer_and_every_way_to_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {layer(".".join(p.with_suffix("").parts)) for p in FILES} >= {"ground", "energies", "samplers", "learners"}
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    for file, line, wrong in [
        ("ebmlab/energies/a.py", "from ebmlab.samplers import Langevin", True),
        ("ebmlab/energies/a.py", "def f():\n    import ebmlab.samplers.langevin", True),
        ("ebmlab/energies/a.py", "from ebmlab import learners", True),
        ("ebmlab/energies/a.py", "from ..samplers import Langevin", True),
        ("ebmlab/energies/a.py", "from .. import samplers", True),
        ("ebmlab/energies/a.py", "from . import base\nfrom ebmlab import domains, errors\nimport torch", False),
        ("ebmlab/samplers/a.py", "import callbacks", True),
        ("ebmlab/learners/a.py", "from ebmlab.cli import main", True),
        ("ebmlab/learners/a.py", "from ebmlab.evaluation import ais", True),
        ("ebmlab/cli.py", "import callbacks, datamodules\nfrom ebmlab.learners import FromData", False),
        ("ebmlab/__init__.py", "from ebmlab.energies import GRBM", True),
        ("ebmlab/noise.py", "from ebmlab.energies import GRBM", True),
        ("callbacks/a.py", "import datamodules.mnist", True),
        ("datamodules/a.py", "from ebmlab.energies import GRBM", True),
        ("datamodules/a.py", "from ebmlab.errors import UserError\nfrom datamodules.b import c", False),
    ]:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(line + "\n")
        assert bool(violations(Path(file))) == wrong, (file, line)
