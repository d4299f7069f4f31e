"""The wheel and the sdist hold what a user needs, and the files for hosts and readers can be read."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from helpers_modules import LINKED, module_files
from helpers_packages import ROOT, build, call, unpack, without_checkout

from ebmlab import __version__

CONFIGS = {path.relative_to(ROOT).as_posix() for path in (ROOT / "configs").rglob("*.yaml")}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel."""
    return build(tmp_path_factory.mktemp("packages")).parent


@pytest.mark.slow
def test_sdist_and_wheel_hold_all_configs_and_modules(packages: Path) -> None:
    modules = {file.as_posix() for file in module_files()}
    sources = {name.removeprefix("ebmlab/") if name.split("/")[1] in LINKED else name for name in modules}
    with tarfile.open(packages / f"ebmlab-{__version__}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert CONFIGS | sources | {"tests/test_packages.py", "docs/configs.md"} <= names
    with zipfile.ZipFile(packages / f"ebmlab-{__version__}-py3-none-any.whl") as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {f"ebmlab/{name}" for name in CONFIGS} | modules | {"ebmlab/py.typed", "ebmlab/app/defaults.yaml"} <= names
    assert {name.partition("/")[0] for name in names} == {"ebmlab"}


@pytest.mark.slow
def test_an_installed_wheel_trains_in_an_empty_folder(packages: Path, tmp_path: Path) -> None:
    """The user's folder `callbacks` neither hides ours nor is hidden."""
    wheel, target, work = packages / f"ebmlab-{__version__}-py3-none-any.whl", tmp_path / "site", tmp_path / "work"
    unpack(wheel, target)
    without_checkout(target)
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
        assert {"make test", "make test-oldest"} <= {*re.findall(r"make [\w-]+", path.read_text())}
    assert {"test", "test-oldest"} <= {*re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)}
    for form in ("bug", "idea"):
        body = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{form}.yaml").read_text())
        assert {"name", "description", "body"} <= body.keys()


def test_the_version_is_the_same_everywhere() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
