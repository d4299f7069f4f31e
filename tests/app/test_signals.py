"""A signal ends a run within seconds, in any phase, with one line on how to continue."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLOW_DATA = """
import time
from pathlib import Path
from ebmlab.datamodules import Digits

class Slow(Digits):
    def prepare_data(self):
        Path("reached").touch()
        try:
            time.sleep(60)
        except Exception as error:
            raise RuntimeError("swallowed") from error
"""
COUNT = """
from pathlib import Path
import pytorch_lightning as pl

class Reached(pl.Callback):
    def on_train_batch_end(self, trainer, *rest):
        if list(Path().rglob("*.ckpt")):
            Path("reached").touch()
"""
CALLBACK = "trainer: {callbacks+: [{class_path: count.Reached}]}"


def stopped(folder: Path, signum: int, *args: str) -> tuple[int, list[str], float]:
    """Starts a fit and signals it when the file `reached` appears.

    Returns:
        Exit code, lines of stderr, and seconds from the signal to the end.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment.pop("EBMLAB_RUN_FOLDER", None)
    command = [sys.executable, "-m", "ebmlab", "fit", "--config", str(ROOT / "configs" / "grbm_digits.yaml")]
    options = ["--trainer.accelerator=cpu", "--wandb=disabled", "--name=a", "--trainer.enable_progress_bar=false"]
    with (folder / "err").open("w") as err, (folder / "out").open("w") as out:
        process = subprocess.Popen(
            [*command, *options, *args], cwd=folder, env=environment, stderr=err, stdout=out, start_new_session=True
        )
        deadline = time.monotonic() + 240
        while not (folder / "reached").exists():
            assert process.poll() is None and time.monotonic() < deadline, (folder / "err").read_text()
            time.sleep(0.05)
        begin = time.monotonic()
        process.send_signal(signum)
        process.wait(timeout=60)
    text = (folder / "err").read_text()
    assert "Traceback" not in text + (folder / "out").read_text(), text
    return process.returncode, text.splitlines(), time.monotonic() - begin


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "code", "name"), [(signal.SIGTERM, 143, "SIGTERM"), (signal.SIGINT, 130, "Ctrl-C")])
def test_while_data_are_made(signum: int, code: int, name: str, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_DATA)
    (tmp_path / "slow.yaml").write_text("data: {class_path: slow.Slow}")
    returned, lines, _ = stopped(tmp_path, signum, "--config=slow.yaml")
    assert returned == code
    assert lines[-1] == f"stopped by {name}: go on with python -m ebmlab fit ... --name a --resume auto"


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_while_it_trains(devices: int, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    (tmp_path / "count.yaml").write_text(CALLBACK)
    two = ["--trainer.devices=2", "--trainer.strategy=ddp"] if devices == 2 else []
    returned, lines, seconds = stopped(tmp_path, signal.SIGTERM, "--config=count.yaml", *two)
    assert returned == 143
    says = [line for line in lines if line.startswith("stopped by SIGTERM")]
    assert says == [
        "stopped by SIGTERM: go on with python -m ebmlab fit --config runs/grbm_digits/a/config.yaml "
        "--name a --resume auto"
    ]
    assert seconds < 30


def test_the_process_ends_though_finalising_takes_too_long() -> None:
    code = (
        "import os, signal, time, ebmlab.app.signals as s\n"
        "s.PATIENCE = 0.5\n"
        "with s.stoppable(lambda kept: 'go on'):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(5)\n"
        "    finally:\n"
        "        time.sleep(60)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, timeout=50, capture_output=True, text=True)
    assert done.returncode == 143 and done.stderr == "stopped by SIGTERM: go on\n"
