"""The common tasks of docs/configs.md, done as the page says, on small runs; and what a beginner gets wrong in them."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers_tier import cases

from ebmlab.app.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configs.md").read_text().replace("\\\n", " ").partition("## Common tasks")[2]
MINE = re.findall(r"```python\n(.*?)```", PAGE, re.S)[0]
SWEEP = re.findall(r"```bash\n(.*?)```", PAGE, re.S)[0]
FITS = re.findall(r"^python -m ebmlab (fit .*)$", PAGE, re.M)
SMALL = [
    "--trainer.accelerator=cpu",
    "--trainer.max_epochs=2",
    "--trainer.limit_train_batches=2",
    "--trainer.limit_val_batches=0",
    "--trainer.enable_model_summary=false",
    "--trainer.enable_progress_bar=false",
    "--trainer.log_every_n_steps=1",
    "--model.num_steps=2",
    "--callbacks.SampleGrid=false",
    "--wandb=disabled",
]
DIGITS = [*SMALL, "--callbacks.FID=false", "--callbacks.ParameterImages=false"]
BITS = [*SMALL, "--callbacks.AIS=false", "--model.start.size=100"]
COMMANDS = {"ebm_digits": BITS, "grbm_digits": DIGITS}


@pytest.fixture
def user(run: Callable[..., None]) -> None:
    """A user's working directory."""
    Path("configs").symlink_to(ROOT / "configs")
    Path("mine.py").write_text(MINE)


def small(command: str) -> list[str]:
    config = re.findall(r"configs/(\w+).yaml", command)[0]
    return [*shlex.split(command), *COMMANDS[config]]


@pytest.mark.slow
@cases("command", FITS, fast=[len(FITS) - 1])
def test_the_command_trains(command: str, user: None, capsys: pytest.CaptureFixture[str]) -> None:
    """And the command that it prints at its end draws samples."""
    main(small(command))
    [checkpoint] = Path("runs").glob("*/*/checkpoints/last.ckpt")
    [sample] = re.findall(r"^  sample +python -m ebmlab (.*)$", capsys.readouterr().out, re.M)
    assert ("--config" in sample) == ("mine." in command)
    main([*shlex.split(sample), "--num_samples=4", "--num_steps=2"])
    assert (checkpoint.parents[1] / "samples" / "samples.png").exists()


@pytest.mark.slow
def test_it_goes_on_after_ctrl_c(
    user: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The line that is printed then is the command of the page."""
    command = next(command for command in FITS if "--resume" in command)
    from pytorch_lightning.callbacks import ModelCheckpoint

    from ebmlab.app.signals import Stopped

    def stop(*_: object) -> None:
        raise Stopped(2)

    with monkeypatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setattr(ModelCheckpoint, "on_train_start", stop, raising=False)
        main(small(command))
    assert end.value.code == 130
    assert "--name first --resume auto" in capfd.readouterr().err
    main(small(command))
    with pytest.warns(UserWarning, match="continues with the checkpoint's lr = 0"):  # where the schedule had ended
        main([*small(command), "--trainer.max_epochs=3", "--model.lr_scheduler=null"])
    assert "finished at step 6" in capfd.readouterr().out


def shell(script: str) -> list[str]:
    """The commands that a shell would run."""
    spy = 'python() { printf "%q " "$@"; echo; }\n'
    done = subprocess.run(["bash", "-c", spy + script], capture_output=True, text=True, check=True)
    return [line.removeprefix("-m ebmlab ") for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_the_sweep_and_its_table(user: None, capsys: pytest.CaptureFixture[str]) -> None:
    for command in shell(SWEEP)[:-1]:
        main(small(command))
    capsys.readouterr()
    main(shlex.split(shell(SWEEP)[-1]))
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["step-0.02", "step-0.04", "step-0.08"]
    assert table[1].split() == ["model.sampler.step_size", "0.02", "0.04", "0.08"]
    assert table[2].split() == ["steps", "4", "4", "4"]
    assert table[3].split()[0] == "seconds" and all(float(word) >= 0 for word in table[3].split()[1:])
    assert Path("sweep.md").exists() and Path("sweep.png").exists()


WRONG = {
    "--model.energy mine.Piars": "Piars",
    "--model.energy mien.Pairs --model.energy.num_bits 64": "mien",
    "--model.energy mine.Pairs": "num_bits",
    "--model.energy mine.Pairs --model.energy.num_bits 100": "64",
    "--model.energy mine.Pairs --model.energy.num_bits many": "num_bits",
    "--model.sampler mine.Tamed --model.sampler.step_size small": "step_size",
    "--model.sampler mine.Tamed --model.sampler.step_sise 0.3": "step_sise",
    "--model.sampler ebmlab.samplers.Langevin --model.sampler.step_size 0.1": "Langevin",
    "--model.energy.channels -4": "channels",
    "--data.batch_size 0": "batch_size",
    "--trainer.precision bf61": "precision",
    "--name first --resume always": "resume",
    "--resume auto": "--name",
}


@cases("given", list(WRONG), fast=range(0, len(WRONG), 2))
def test_a_mistake_is_one_line(given: str, user: None, fails: Callable[..., str]) -> None:
    assert WRONG[given] in fails("fit", *shlex.split(given), *BITS, config="ebm_digits", quick=False)
    assert not list(Path("runs").glob("*/*/*"))
