"""Nothing that a downloaded run contains is executed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

RUN = Path("runs/grbm_digits/a")
CHECKPOINT = RUN / "checkpoints" / "last.ckpt"
TOUCH = {"command": "touch executed"}
EVIL = """
import os, torch
from pathlib import Path
from ebmlab.datamodules import Digits
Path("executed").touch()

class Data(Digits):
    pass

def adam(params) -> torch.optim.Optimizer:
    Path("executed").touch()
    return torch.optim.Adam(params)
"""
ATTACKS: dict[str, tuple[str, object]] = {
    "a function as optimizer": ("model.init_args.optimizer", {"class_path": "os.system", "init_args": TOUCH}),
    "a function as schedule": ("model.init_args.lr_scheduler", {"class_path": "os.system", "init_args": TOUCH}),
    "under another name": ("model.init_args.optimizer", {"class_path": "torch.os.system", "init_args": TOUCH}),
    "a builder of classes": (
        "model.init_args.optimizer",
        {
            "class_path": "pytorch_lightning.cli.instantiate_class",
            "init_args": {"args": ["touch executed"], "init": {"class_path": "os.system"}},
        },
    ),
    "a library's function": (
        "model.init_args.optimizer",
        {"class_path": "torch.hub.load", "init_args": {"repo_or_dir": "a/b", "model": "c"}},
    ),
    "a process as data": ("data", {"class_path": "subprocess.Popen", "init_args": {"args": ["touch", "executed"]}}),
    "a module beside it": ("data", {"class_path": "evil.Data", "init_args": {}}),
    "its function": ("model.init_args.optimizer", "evil.adam"),
    "a callback's function": (
        "trainer.callbacks",
        [{"class_path": "pytorch_lightning.callbacks.LambdaCallback", "init_args": {"setup": "evil.adam"}}],
    ),
}


def put(config: dict[str, object], key: str, value: object) -> None:
    *path, last = key.split(".")
    node: dict[str, object] = config
    for part in path:
        node = node[part]  # type: ignore[assignment]
    node[last] = value


@pytest.fixture
def downloaded(brief_run: Path) -> Callable[[str, object], None]:
    """Puts a run in the working directory; returns a function that changes a setting of its config."""
    Path("evil.py").write_text(EVIL)

    def change(key: str, value: object) -> None:
        config = yaml.safe_load((RUN / "config.yaml").read_text())
        put(config, key, value)
        (RUN / "config.yaml").write_text(yaml.safe_dump(config))

    return change


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("command", ["fit", "test"])
def test_code_of_a_downloaded_run_is_refused(
    command: str, attack: str, downloaded: Callable[[str, object], None], fails: Callable[..., str]
) -> None:
    downloaded(*ATTACKS[attack])
    if attack == "a process as data":  # `event_size` is evaluated before anything else is checked
        downloaded("model.init_args.energy.init_args.num_coordinates", "${event_size:}")
    line = fails(command, "--ckpt_path", CHECKPOINT, bare=True)
    assert "name the config" in line or "must be a subclass" in line or "to be a subclass" in line
    assert not list(Path().rglob("executed"))


def test_what_the_user_names_is_run(downloaded: Callable[[str, object], None], run: Callable[..., None]) -> None:
    downloaded("data", {"class_path": "evil.Data", "init_args": {"batch_size": 300}})
    run("test", "--config", RUN / "config.yaml", "--ckpt_path", CHECKPOINT, bare=True)
    assert list(Path().rglob("executed"))


@pytest.mark.slow
def test_a_function_makes_the_optimizer_where_the_command_line_names_it(run: Callable[..., None]) -> None:
    Path("own_adam.py").write_text(EVIL)
    run("fit", "--trainer.max_epochs=1", "--name=a", "--model.optimizer=own_adam.adam")
    assert list(Path().rglob("executed"))
