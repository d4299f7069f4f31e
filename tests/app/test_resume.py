"""Killed runs are resumed, and two processes share a run; each run is a separate process."""

from __future__ import annotations

import csv
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
import torch

ROOT = Path(__file__).parents[2]
SPY = """
import pytorch_lightning as pl

class FirstNegatives(pl.Callback):
    def on_train_batch_start(self, trainer, learner, batch, batch_idx):
        draw = learner.start.draw
        def spied(*args, **options):
            x = draw(*args, **options)
            with open(f"negatives-{trainer.global_rank}.txt", "a") as file:
                file.write(f"{x.sum().item()}\\n")
            return x
        if trainer.global_step == 0:
            learner.start.draw = spied
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts `python -m ebmlab fit` in a process group of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "EBMLAB_CACHE": str(tmp_path / "cache"),
    }
    environment.pop("EBMLAB_RUN_FOLDER", None)

    def call(*args: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ebmlab", "fit", "--config", str(ROOT / "configs" / "grbm_digits.yaml")]
        options = [
            "--trainer.accelerator=cpu",
            "--trainer.max_epochs=8",
            "--model.init_args.num_steps=10",
            "--wandb=disabled",
        ]
        return subprocess.Popen(
            [*command, *options, *args],
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    return call


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output[-3000:]
    return output


def kill_after_epoch(process: subprocess.Popen[str], run: Path, epoch: int) -> None:
    """Kills the whole process group as soon as it has written a checkpoint of that epoch."""
    deadline = time.monotonic() + 300
    while not any(int(p.stem.split("=")[1].split("-")[0]) >= epoch for p in run.glob("checkpoints/epoch=*.ckpt")):
        assert process.poll() is None, process.communicate()[0][-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


BUFFER = ["--model.init_args.start=ebmlab.learners.ReplayBuffer", "--model.init_args.start.init_args.size=600"]


def check_killed_equals_whole(start: Start, folder: Path, *options: str) -> None:
    finish(start("--name=whole", *options))
    run = folder / "runs" / "grbm_digits"
    kill_after_epoch(start("--name=killed", *options), run / "killed", epoch=2)
    killed_at = torch.load(run / "killed" / "checkpoints" / "last.ckpt", weights_only=True)["global_step"]
    finish(start("--name=killed", "--ckpt_path=last", *options))
    check_equal(run, killed_at)


def check_equal(run: Path, killed_at: int) -> None:
    whole, killed = (
        torch.load(run / name / "checkpoints" / "last.ckpt", weights_only=True) for name in ("whole", "killed")
    )
    assert killed_at < whole["global_step"] == killed["global_step"]
    for name, parameter in whole["state_dict"].items():
        assert torch.equal(parameter, killed["state_dict"][name]), name
    if "replay_buffer" in whole:
        assert torch.equal(whole["replay_buffer"], killed["replay_buffer"])
    moments = (checkpoint["optimizer_states"][0]["state"][0]["exp_avg"] for checkpoint in (whole, killed))
    assert torch.equal(*moments)


@pytest.mark.slow
def test_sigkill_and_resume_is_bit_exact(start: Start, tmp_path: Path) -> None:
    check_killed_equals_whole(start, tmp_path)


@pytest.mark.slow
def test_two_processes_run_different_chains_and_log_once(start: Start, tmp_path: Path) -> None:
    (tmp_path / "spy.py").write_text(SPY)
    (tmp_path / "spy.yaml").write_text("trainer:\n  callbacks+:\n    - class_path: spy.FirstNegatives\n")
    two = ["--trainer.devices=2", "--trainer.strategy=ddp", "--trainer.max_epochs=2", "--data.init_args.batch_size=64"]
    output = finish(start("--config=spy.yaml", "--name=two", *two))
    assert output.count("finished at step") == 1
    chains = [(tmp_path / f"negatives-{rank}.txt").read_text().split() for rank in range(2)]
    assert len(chains[0]) == len(chains[1]) > 0
    assert not set(chains[0]) & set(chains[1])
    runs = list((tmp_path / "runs" / "grbm_digits").iterdir())
    assert [run.name for run in runs] == ["two"]
    with (runs[0] / "fid.csv").open() as file:
        steps = [row["step"] for row in csv.DictReader(file)]
    assert steps == sorted(set(steps), key=int)  # one row for each evaluation
    assert len(steps) == 2  # before training and at its end
    with (runs[0] / "metrics.csv").open() as file:
        steps = [row["step"] for row in csv.DictReader(file)]
    assert steps == sorted(set(steps), key=int)
    assert len(list((runs[0] / "images").glob("samples-grid*"))) == 2


PLAIN = """
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

class Plain(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(torch.arange(80.0).view(80, 1, 1, 1).expand(80, 1, 8, 8) / 80, 10, shuffle=True)

class Seen(pl.Callback):
    def on_train_batch_start(self, trainer, learner, batch, batch_idx):
        with open(f"seen-{trainer.global_rank}.txt", "a") as file:
            file.writelines(f"{round(80 * float(image.min()))}\\n" for image in batch)
"""


@pytest.mark.slow
def test_two_processes_share_out_a_plain_loader(start: Start, tmp_path: Path) -> None:
    """Lightning does that with loaders that are not ebmlab's."""
    (tmp_path / "plain.py").write_text(PLAIN)
    options = ["--data=plain.Plain", "--callbacks.plain.Seen=true", "--callbacks.FID=false"]
    options += ["--model.energy.num_coordinates=64", "--trainer.max_epochs=1"]
    finish(start(*options, "--trainer.devices=2", "--trainer.strategy=ddp"))
    seen = [(tmp_path / f"seen-{rank}.txt").read_text().split() for rank in range(2)]
    assert len(seen[0]) == len(seen[1]) == 40 and {int(i) for i in seen[0] + seen[1]} == set(range(80))


@pytest.mark.slow
def test_two_processes_killed_and_resumed_are_bit_exact(start: Start, tmp_path: Path) -> None:
    check_killed_equals_whole(start, tmp_path, "--trainer.devices=2", "--trainer.strategy=ddp")


@pytest.mark.slow
def test_two_processes_with_a_replay_buffer_are_bit_exact(start: Start, tmp_path: Path) -> None:
    check_killed_equals_whole(start, tmp_path, "--trainer.devices=2", "--trainer.strategy=ddp", *BUFFER)


@pytest.mark.slow
def test_ten_kills_at_random_moments_change_nothing(start: Start, tmp_path: Path) -> None:
    """Runs of persistent CD are killed anywhere, also while they start or write a checkpoint."""
    options = ["--trainer.max_epochs=30", "--trainer.limit_val_batches=0", *BUFFER]
    finish(start("--name=whole", *options))
    run, random = tmp_path / "runs" / "grbm_digits", Random(0)
    last = run / "killed" / "checkpoints" / "last.ckpt"
    killed_at = []
    for _ in range(10):
        begun = last.exists()
        process = start("--name=killed", *(["--ckpt_path=last"] if begun else []), *options)
        before = last.stat().st_mtime_ns if begun else None
        deadline = time.monotonic() + 120
        while not last.exists() or last.stat().st_mtime_ns == before:  # wait for an epoch
            if process.poll() is not None:
                break
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.5))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        killed_at.append(torch.load(last, weights_only=True)["global_step"])
    finish(start("--name=killed", "--ckpt_path=last", *options))
    assert len(set(killed_at)) > 5
    check_equal(run, killed_at[0])


@pytest.mark.slow
def test_two_processes_average_their_weights(start: Start, tmp_path: Path) -> None:
    (tmp_path / "ema.yaml").write_text(
        "trainer:\n  callbacks+:\n    - class_path: pytorch_lightning.callbacks.EMAWeightAveraging\n"
    )
    two = ["--trainer.devices=2", "--trainer.strategy=ddp", "--trainer.max_epochs=1", *BUFFER]
    assert "finished at step" in finish(start("--config=ema.yaml", "--name=two", *two))


@pytest.mark.slow
def test_one_process_then_two_then_one_again(start: Start, tmp_path: Path) -> None:
    """The replay buffer is shared out and gathered again; a kill on two processes does not matter."""
    options = ["--name=a", "--resume=auto", "--model.init_args.lr_scheduler=null", *BUFFER]
    finish(start(*options, "--trainer.max_epochs=2"))
    two = ["--trainer.devices=2", "--trainer.strategy=ddp", "--trainer.max_epochs=60"]
    kill_after_epoch(start(*options, *two), tmp_path / "runs" / "grbm_digits" / "a", epoch=4)
    finish(start(*options, "--trainer.max_epochs=70"))
    content = torch.load(tmp_path / "runs/grbm_digits/a/checkpoints/last.ckpt", weights_only=True)
    assert content["epoch"] == 69 and len(content["replay_buffer"]) == 600
    assert len(content["run_state"]["cpu"]) == 1
    with (tmp_path / "runs" / "grbm_digits" / "a" / "metrics.csv").open() as file:
        steps = [int(row["step"]) for row in csv.DictReader(file)]
    assert steps == sorted(set(steps))


@pytest.mark.slow
def test_two_nodes_of_torchrun_are_killed_and_go_on_bit_exactly(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "grbm_digits"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "EBMLAB_CACHE": str(tmp_path)}
    environment.pop("EBMLAB_RUN_FOLDER", None)

    def nodes(name: str) -> list[subprocess.Popen[str]]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        both = ["--nnodes=2", "--nproc_per_node=1", "--master_addr=127.0.0.1", f"--master_port={port}"]
        fit = ["-m", "ebmlab", "fit", "--config", str(ROOT / "configs" / "grbm_digits.yaml"), f"--name={name}"]
        options = ["--resume=auto", "--trainer.num_nodes=2", "--trainer.devices=1", "--trainer.strategy=ddp"]
        small = ["--trainer.max_epochs=40", "--model.num_steps=2", "--trainer.accelerator=cpu", "--wandb=disabled"]
        return [
            subprocess.Popen(
                [sys.executable, "-m", "torch.distributed.run", *both, f"--node_rank={rank}", *fit, *options, *small],
                cwd=tmp_path,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for rank in range(2)
        ]

    assert ["finished at step" in finish(node) for node in nodes("whole")].count(True) == 1
    both, deadline = nodes("killed"), time.monotonic() + 300
    while not list(run.glob("killed/checkpoints/epoch=[3-9]-*.ckpt")):
        assert all(node.poll() is None for node in both) and time.monotonic() < deadline
        time.sleep(0.02)
    for process in Path("/proc").glob("[0-9]*"):  # torchrun starts its workers in sessions of their own
        with suppress(OSError):
            if (process / "cwd").resolve() == tmp_path and process.name != str(os.getpid()):
                os.kill(int(process.name), signal.SIGKILL)
    for node in both:
        node.communicate()
    killed_at = torch.load(run / "killed" / "checkpoints" / "last.ckpt", weights_only=True)["global_step"]
    for node in nodes("killed"):
        finish(node)
    check_equal(run, killed_at)
