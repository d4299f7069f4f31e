"""Every module has a layer and imports only from allowed layers."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from helpers_modules import LINKED, module_files, module_name

ROOT = Path(__file__).parents[1]
FILES = module_files()
LAYERS = {  # each layer with its modules, from the ground up
    "numerics": {"ebmlab.numerics"},
    "ground": {
        f"ebmlab.{name}"
        for name in [
            "data",
            "domains",
            "errors",
            "extras",
            "graphs",
            "io",
            "lightning",
            "product",
            "settings",
        ]
    },
    "native": {"ebmlab.native"},
    "sequences": {"ebmlab.sequences"},
    "energies": {"ebmlab.energies"},
    "engine": {"ebmlab.engine"},
    "exchange": {"ebmlab.exchange"},
    "reading": {"ebmlab.reading"},
    "samplers": {"ebmlab.samplers"},
    "fused": {"ebmlab.fused"},
    "problems": {"ebmlab.problems"},
    "learners": {"ebmlab.learners"},
    "evaluation": {"ebmlab.evaluation"},
    "drawing": {"ebmlab.drawing"},
    "studies": {"ebmlab.studies"},
    "testing": {"ebmlab.testing"},
    "datamodules": {"ebmlab.datamodules"},
    "callbacks": {"ebmlab.callbacks"},
    "trained": {"ebmlab.trained"},
    "scikit-learn": {"ebmlab.sklearn"},
    "app": {"ebmlab.app", "ebmlab.__main__"},
}
LIBRARY = {
    "numerics",
    "ground",
    "sequences",
    "energies",
    "engine",
    "samplers",
    "learners",
    "evaluation",
    "drawing",
    "studies",
}
MAY_IMPORT: dict[str, set[str]] = {  # besides itself
    "numerics": set(),
    "ground": {"numerics"},
    "native": {"numerics", "ground"},
    "sequences": {"numerics", "ground", "native"},
    "energies": {"numerics", "ground", "native"},
    "engine": {"numerics", "ground", "energies"},
    "samplers": {"numerics", "ground", "native", "energies", "engine"},
    "fused": {"numerics", "ground", "energies", "engine", "samplers"},
    "learners": {"numerics", "ground", "native", "energies", "engine", "samplers"},
    "evaluation": {"numerics", "ground", "native", "sequences", "energies", "engine", "samplers"},
    "drawing": {"numerics", "ground", "sequences", "energies", "engine", "samplers", "evaluation"},
    "exchange": {"numerics", "ground", "sequences", "energies"},
    "reading": {"numerics", "ground", "exchange"},
    "problems": {"numerics", "ground", "native", "energies", "exchange", "engine", "samplers", "evaluation"},
    "studies": LIBRARY,
    "testing": {"numerics", "ground", "energies", "engine", "samplers"},
    "datamodules": {"numerics", "ground", "sequences", "exchange", "reading"},
    "callbacks": LIBRARY,
    "trained": LIBRARY,
    "scikit-learn": LIBRARY,
    "app": LIBRARY | {"exchange", "reading", "problems", "trained", "datamodules", "callbacks"},
}


def layer(module: str) -> str | None:
    """The layer of a dotted module name; None for third-party modules and for the bare package.

    Raises:
        LookupError: it is a module of ebmlab that no layer names.
    """
    if not module.startswith("ebmlab."):
        return None
    for name, modules in LAYERS.items():
        if any(module == m or module.startswith(f"{m}.") for m in modules):
            return name
    raise LookupError(f"{module} is in no layer: name it in LAYERS, or move it")


@cache
def syntax(path: Path) -> list[ast.AST]:
    """All nodes of a file's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text())))


def imports(path: Path) -> Iterator[str]:
    """Dotted names that a file imports anywhere in it, `from package import module` included."""
    for node in syntax(ROOT / path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(path.parts[: len(path.parts) - node.level]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            names = [f"ebmlab.{alias.name}" for alias in node.names if alias.name != "__version__"]
            yield from names if module == "ebmlab" else [module]


def violations(path: Path) -> list[str]:
    mine = layer(module_name(path))
    if mine is None:  # ebmlab/__init__.py, whose `load` imports when it is called
        return [name for name in imports(path) if layer(name) not in (None, "trained", "learners")]
    allowed = MAY_IMPORT[mine] | {mine, None}
    return [f"{path} ({mine}) imports {name} ({layer(name)})" for name in imports(path) if layer(name) not in allowed]


def test_imports_run_one_way() -> None:
    assert [wrong for path in FILES for wrong in violations(path)] == []


def test_files_are_short_and_none_is_called_utils() -> None:
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path in FILES}
    assert {path: length for path, length in lengths.items() if length > 300 or path.name == "utils.py"} == {}


def test_no_kernel_imports_the_engine() -> None:
    """`samplers/sampler.py` alone hands kernels to the engine."""
    users = {module_name(path) for path in FILES if any(name.startswith("ebmlab.engine") for name in imports(path))}
    assert {name for name in users if name.startswith("ebmlab.samplers")} == {"ebmlab.samplers.sampler"}


def flags(path: Path) -> list[str]:
    """Texts of a module that name an option as the command line has it, docstrings included."""
    nodes = syntax(ROOT / path)
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in texts if re.search(r"(?<![\w-])--[a-z]", text)]


def test_only_the_command_line_speaks_of_flags() -> None:
    """Elsewhere texts speak of settings. A study may say how to train what it samples: `sample` alone runs it."""
    others = [path for path in FILES if layer(module_name(path)) not in ("app", "studies", None)]
    assert [(path, flag) for path in others for flag in flags(path)] == []


def test_every_module_named_in_a_layer_exists() -> None:
    modules = set(map(module_name, FILES))
    assert set().union(*LAYERS.values()) <= modules
    assert LAYERS.keys() == MAY_IMPORT.keys()


def test_a_module_without_a_layer_is_an_error() -> None:
    for module in ("ebmlab.helpers", "ebmlab.appendix", "ebmlab.graphs2.a"):
        with pytest.raises(LookupError, match="is in no layer"):
            layer(module)


def test_wrong_imports_are_found_in_every_layer_and_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    for file, line, wrong in [
        ("ebmlab/energies/a.py", "from ebmlab.samplers import Langevin", True),
        ("ebmlab/energies/a.py", "def f():\n    import ebmlab.samplers.langevin", True),
        ("ebmlab/energies/a.py", "from ebmlab import learners", True),
        ("ebmlab/energies/a.py", "from ..samplers import Langevin", True),
        ("ebmlab/energies/a.py", "from .. import samplers", True),
        ("ebmlab/energies/a.py", "from . import base\nfrom ebmlab import domains, errors\nimport torch", False),
        ("ebmlab/samplers/a.py", "import ebmlab.callbacks", True),
        ("ebmlab/learners/a.py", "from ebmlab.app.cli import main", True),
        ("ebmlab/learners/a.py", "from ebmlab.evaluation import ais", True),
        ("ebmlab/drawing/a.py", "from ebmlab.studies import Study", True),
        ("ebmlab/drawing/a.py", "from ebmlab.evaluation import ais", False),
        ("ebmlab/studies/a.py", "from ebmlab.drawing.tiles import tile", False),
        ("ebmlab/studies/a.py", "from ebmlab.callbacks import log_image", True),
        (
            "ebmlab/app/cli.py",
            "import ebmlab.callbacks, ebmlab.datamodules\nfrom ebmlab import __version__, learners",
            False,
        ),
        ("ebmlab/__init__.py", "from ebmlab.energies import GRBM", True),
        ("ebmlab/numerics/noise.py", "from ebmlab.energies import GRBM", True),
        ("ebmlab/callbacks/a.py", "import ebmlab.datamodules.mnist", True),
        ("ebmlab/callbacks/a.py", "from ebmlab.app.loggers import make_loggers", True),
        ("ebmlab/datamodules/a.py", "from ebmlab.energies import GRBM", True),
        ("ebmlab/datamodules/a.py", "from ebmlab.graphs import lattice\nfrom ebmlab.datamodules.b import c", False),
    ]:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(line + "\n")
        syntax.cache_clear()
        assert bool(violations(Path(file))) == wrong, (file, line)


HEAVY = {"pytorch_lightning", "lightning_fabric", "matplotlib", "torchmetrics", "torchvision"} | {
    "ebmlab.callbacks",
    "ebmlab.datamodules",
}


def test_samplers_and_studies_load_neither_lightning_nor_matplotlib() -> None:
    light = "ebmlab.samplers, ebmlab.evaluation, ebmlab.studies, ebmlab.drawing.tiles"
    code = f"import sys, {light}; print(*sorted({HEAVY} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, ebmlab; ebmlab.load; print({'torch', 'numpy', 'ebmlab.trained'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()"]


def test_the_wheel_holds_every_package() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    packages = {".".join(path.parent.parts) for path in FILES if path.name == "__init__.py"}
    assert set(listed) == packages | {"ebmlab.configs"}, "the configs lie beside the package in a checkout"


def test_examples_leave_no_files_beside_the_project() -> None:
    known = {".cff", ".md", ".in", ".yml", ".toml", ""}
    assert {path.name for path in ROOT.iterdir() if path.is_file() and path.suffix not in known} == set()


@pytest.mark.parametrize("folder", LINKED)
def test_linked_folders_are_imported_under_one_name(folder: str) -> None:
    assert (ROOT / "ebmlab" / folder).resolve() == ROOT / folder
    done = subprocess.run(
        [sys.executable, "-c", f"import {folder}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == f"ImportError: these modules are imported as ebmlab.{folder}"
