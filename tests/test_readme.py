"""The README's Python and YAML run as they stand, and its claims about versions are those of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import torch

from docs import badges
from ebmlab.app.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
QUICK = [
    "--trainer.accelerator=cpu",
    "--trainer.max_epochs=1",
    "--trainer.limit_train_batches=2",
    "--trainer.limit_val_batches=1",
    "--trainer.enable_progress_bar=false",
    "--trainer.log_every_n_steps=1",
    "--model.num_steps=2",
    "--wandb=disabled",
]
FEW = [
    "--callbacks.FID=false",
    "--callbacks.AIS.num_temperatures=20",
    "--callbacks.AIS.num_chains=10",
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_the_python_runs() -> None:
    torch.manual_seed(0)
    (block,) = blocks("python")
    names: dict[str, object] = {}
    exec(block, names)
    x = names["x"]
    assert isinstance(x, torch.Tensor)
    assert 0.7 < float(x.abs().mean()) < 1.0  # the wells are at -1 and +1
    assert 0.3 < float((x > 0).float().mean()) < 0.7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.filterwarnings("ignore:AIS. do not trust")
def test_the_config_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EBMLAB_RUN_FOLDER", "")
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path))
    Path("configs").symlink_to(ROOT / "configs")
    (block,) = blocks("yaml")
    Path("mine.yaml").write_text(block)
    main(["fit", "--config", "mine.yaml", "--name", "run", *QUICK, *FEW])
    saved = torch.load("runs/mine/run/checkpoints/last.ckpt", weights_only=True)
    assert saved["state_dict"]["energy.W"].shape == (64, 512)
    assert "ais/log_z" in Path("runs/mine/run/metrics.csv").read_text()


def test_the_two_commands_come_first() -> None:
    first = re.findall(r"```\n(.*?)```", README, re.S)[0].splitlines()
    assert [line.split("  #")[0].strip() for line in first] == ["make demo", "make test"]
    assert len(README.splitlines()) < 85, "one screen of text"


def test_versions_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (line,) = [line for line in README.splitlines() if line.startswith("![Python 3")]
    python, torch_version, lightning = re.findall(r"(\d+\.\d+) or newer", line)
    assert project["requires-python"] == f">={python}" and project["license"] in line
    assert {f"torch>={torch_version}", f"pytorch-lightning>={lightning}"} <= {*project["dependencies"]}


def test_the_badges_are_drawn_from_pyproject() -> None:
    assert badges.PICTURE.read_text() == badges.svg()
