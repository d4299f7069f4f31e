"""The packages of the checkout, built and unpacked without network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from ebmlab import __version__

ROOT = Path(__file__).parents[1]
SOURCES = (
    "ebmlab",
    "callbacks",
    "datamodules",
    "configs",
    "docs",
    "tests",
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "Makefile",
)


def ended(folder: Path, *command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command that has run in a folder, without what the tests' own environment says of ebmlab."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "EBMLAB_RUN_FOLDER")}
    words = list(map(str, command))
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, env=clean | environment, check=False)


def call(folder: Path, *command: object, **environment: str) -> str:
    """What a command prints that ends well."""
    done = ended(folder, *command, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(folder: Path) -> Path:
    """Builds an sdist of the checkout, and the wheel from the sdist, both without network. Returns the wheel."""
    tree = folder / "tree"
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(ROOT / name, tree / name)
    build = "from setuptools import build_meta; build_meta.build_sdist({!r})"
    call(tree, sys.executable, "-c", build.format(str(folder)))
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--wheel-dir", folder)
    call(folder, sys.executable, "-m", "pip", "wheel", *options, folder / f"ebmlab-{__version__}.tar.gz")
    return folder / f"ebmlab-{__version__}-py3-none-any.whl"


def unpack(wheel: Path, target: Path) -> None:
    """Installs the wheel into a folder, without what it needs, which the tests' environment has."""
    options = ("--no-deps", "--no-index", "--quiet", "--target", target)
    call(target.parent, sys.executable, "-m", "pip", "install", *options, wheel)


def without_checkout(target: Path) -> None:
    """Python that starts with this folder on its path finds nothing in the checkout, as with users of a wheel.

    The tests' environment may have the checkout on its path, whose folder `callbacks` would hide that of a user.
    """
    text = f"import sys\n\nsys.path[:] = [p for p in sys.path if p != {str(ROOT)!r}]\n"
    (target / "sitecustomize.py").write_text(text)
