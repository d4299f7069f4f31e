"""The wheel and the sdist hold what a user needs, and the files for hosts and readers can be read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from ebmlab import __version__

ROOT = Path(__file__).parents[1]
SOURCES = ("ebmlab", "configs", "docs", "tests", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "Makefile")
CONFIGS = {path.relative_to(ROOT).as_posix() for path in (ROOT / "configs").rglob("*.yaml")}


def call(folder: Path, *command: object, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "EBMLAB_RUN_FOLDER")}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, env=clean | environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist of the checkout, and the wheel that is built from the sdist, both without network."""
    folder = tmp_path_factory.mktemp("packages")
    tree = folder / "tree"
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / name, tree / name)
    build = "from setuptools import build_meta; build_meta.build_sdist({!r})"
    call(tree, sys.executable, "-c", build.format(str(folder)))
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--wheel-dir", folder)
    call(folder, sys.executable, "-m", "pip", "wheel", *options, folder / f"ebmlab-{__version__}.tar.gz")
    return folder


def test_sdist_and_wheel_hold_all_configs_and_modules(packages: Path) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "ebmlab").rglob("*.py")}
    with tarfile.open(packages / f"ebmlab-{__version__}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert CONFIGS | modules | {"tests/test_packages.py", "docs/configs.md"} <= names
    with zipfile.ZipFile(packages / f"ebmlab-{__version__}-py3-none-any.whl") as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {f"ebmlab/{name}" for name in CONFIGS} | modules | {"ebmlab/py.typed", "ebmlab/app/defaults.yaml"} <= names
    assert {name.partition("/")[0] for name in names} == {"ebmlab"}


@pytest.mark.slow
def test_an_installed_wheel_trains_in_an_empty_folder(packages: Path, tmp_path: Path) -> None:
    """The user's folder `callbacks` neither hides ours nor is hidden."""
    wheel, target, work = packages / f"ebmlab-{__version__}-py3-none-any.whl", tmp_path / "site", tmp_path / "work"
    options = ("--no-deps", "--no-index", "--quiet", "--target", target)
    call(tmp_path, sys.executable, "-m", "pip", "install", *options, wheel)
    (work / "callbacks").mkdir(parents=True)
    (work / "callbacks" / "__init__.py").write_text(
        "from pytorch_lightning import Callback\n\n\nclass Mine(Callback):\n"
        "    def on_fit_start(self, trainer, pl_module):\n        print('mine was called')\n"
    )
    ebmlab = (sys.executable, target / "bin" / "ebmlab")
    listed = call(work, *ebmlab, "list", PYTHONPATH=str(target))
    assert "  grbm_digits " in listed and "  sampling/ising_5x5 " in listed
    flags = ("--trainer.fast_dev_run=true", "--trainer.accelerator=cpu", "--wandb=disabled")
    for name in ("grbm_digits", "configs/grbm_digits.yaml"):
        mine = ("--callbacks.callbacks.Mine=true", "--trainer.callbacks+=callbacks.DataMean")
        out = call(work, *ebmlab, "fit", "--config", name, *flags, *mine, PYTHONPATH=str(target))
        assert "mine was called" in out
    (work / "own.yaml").write_text("base: grbm_digits\ndata: {batch_size: 50}\n")
    call(work, sys.executable, "-m", "ebmlab", "fit", "--config=own.yaml", *flags, PYTHONPATH=str(target))


FOR_HOSTS = [*ROOT.glob(".github/**/*.y*ml"), ROOT / ".gitlab-ci.yml", ROOT / "CITATION.cff"]


@pytest.mark.parametrize("path", FOR_HOSTS, ids=str)
def test_files_for_hosts_parse(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_hosts_run_what_the_makefile_runs() -> None:
    for path in (ROOT / ".github" / "workflows" / "test.yaml", ROOT / ".gitlab-ci.yml"):
        assert "make test" in path.read_text()
    assert "\ntest:" in (ROOT / "Makefile").read_text()
    for form in ("bug", "idea"):
        body = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{form}.yaml").read_text())
        assert {"name", "description", "body"} <= body.keys()


def test_the_version_is_the_same_everywhere() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
