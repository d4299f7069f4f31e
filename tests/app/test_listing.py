"""`python -m ebmlab list` shows everything that a config can name, and nothing else."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from ebmlab.app.listing import FAMILIES, components, list_components

CONFIGS = sorted((Path(__file__).parents[2] / "configs").rglob("*.yaml"))
NAMED = r"ebmlab\.(?:energies|samplers(?:\.tuners)?|learners|studies)|callbacks|datamodules"
NAME = re.compile(rf"(?<!\.)\b(?:{NAMED})\.[A-Z]\w*")


def shown() -> set[str]:
    lines = list_components().split("\nconfigs\n")[0].splitlines()
    return {line.split()[0] for line in lines if line.startswith("  ")}


def test_files_that_are_no_configs_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs" / "folder.yaml").mkdir(parents=True)
    (tmp_path / "configs" / ".#mine.yaml").symlink_to("gone")  # Emacs makes one for each file that is not saved
    (tmp_path / "configs" / "mine.yaml").write_bytes(b"# caf\xe9\n")
    own = list_components().split("\nconfigs\n")[1].splitlines()
    assert [line.split()[0] for line in own if "mine" in line or "folder" in line] == ["configs/mine.yaml"]


def test_all_that_configs_name_is_listed() -> None:
    named = {name for path in CONFIGS for name in NAME.findall(path.read_text())}
    assert len(named) > 50 and named <= shown()


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_read_from_sources_is_what_is_imported(family: str) -> None:
    package = importlib.import_module(family)
    for name, source in components(family).items():
        item = getattr(package, name)
        assert source.summary == (inspect.getdoc(item) or "").split("\n")[0]
        assert sorted(source.domains) == sorted(domain.__name__ for domain in getattr(item, "domains", ())), name


@pytest.mark.parametrize("module", ["energies", "samplers", "samplers.tuners", "learners", "studies"])
def test_bases_and_records_are_not_listed(module: str) -> None:
    hidden = {"Energy", "Base", "Bipartite", "Evaluation", "Rows", "TabularSource", "Sampler", "State", "Info"}
    hidden |= {"Schedule", "MetropolisSampler", "Tuner", "Learner", "Estimator", "Measure", "Start", "Study"}
    assert not {f"ebmlab.{module}.{name}" for name in hidden} & shown()


def test_bases_outside_the_library_are_not_listed() -> None:
    assert not {"datamodules.TensorDataModule", "datamodules.TabularData", "callbacks.PeriodicEvaluation"} & shown()
    assert {"callbacks.Progress", "datamodules.COMPAS", "ebmlab.samplers.Cosine"} <= shown()
