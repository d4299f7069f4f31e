"""Kills at random moments and aimed ones: the run that goes on must end bit-equal to the one that was never killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.robust.server import ROOT, SMALL, Case, Outcome, start
from ebmlab.files import load

BUFFER = ["--model.chains=ebmlab.learners.ReplayBuffer", "--model.chains.size=600"]
METHODS = {  # config and options that make an epoch a fraction of a second
    "CD": ("ebm_digits_cd", ["--model.num_steps=1", "--model.energy.channels=4"]),
    "PCD": ("grbm_digits", ["--model.num_steps=2", "--model.energy.num_hidden=16", *BUFFER]),
    "persistent deep": ("ebm_digits", ["--model.num_steps=2", "--model.energy.channels=4"]),
    "ratio matching": ("rm_2spirals", ["--data.num_samples=2000"]),
}
QUIET = [option for option in SMALL if "max_epochs" not in option and "limit" not in option]
EPOCHS = 6


def kills(tell: Callable[[Outcome], None], each: int = 8, seed: int = 0) -> list[Outcome]:
    """Kills every method `each` times at random moments of one run, and once at every aim."""
    random_ = random.Random(seed)
    outcomes = []
    for method, (config, options) in METHODS.items():
        folder = Path(tempfile.mkdtemp(prefix="ebmlab-kills-"))
        args = ["fit", "--config", str(ROOT / "configs" / f"{config}.yaml"), *QUIET, *options, "--resume=auto"]
        args += [f"--trainer.max_epochs={EPOCHS}", "--data.batch_size=400"]
        args += ["--callbacks.AISEvaluation=false", "--callbacks.FID=false"] if "digits" in config else []
        begin = time.monotonic()
        code = wait(start([*args, "--name=whole"], folder))
        seconds = time.monotonic() - begin
        fault = None if code == 0 else f"exit code {code}"
        for _ in range(each):
            child = start([*args, "--name=killed"], folder)
            time.sleep(random_.uniform(0.1, seconds))
            end(child)
            outcomes.append(Outcome(Case(f"{method}: SIGKILL", args, {}), -9, "", None))
        code = wait(start([*args, "--name=killed"], folder))
        fault = fault or (f"exit code {code} after the kills" if code else differs(folder / "runs" / config))
        last = (folder / "log").read_text(errors="replace").splitlines()[-1:] or [""]
        outcomes.append(Outcome(Case(f"{method} after {each} kills", args, {}), code, last[0][:300], fault))
        tell(outcomes[-1])
        shutil.rmtree(folder)
    return outcomes


def wait(child: int) -> int:
    """The exit code of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def end(child: int) -> None:
    """SIGKILL to a child and its group, if it is still there."""
    if not os.waitpid(child, os.WNOHANG)[0]:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def differs(run: Path) -> str | None:
    """What is not bit-equal in the last checkpoints and the metrics of the runs `whole` and `killed`."""
    whole, killed = (load(run / name / "checkpoints" / "last.ckpt") for name in ("whole", "killed"))
    for key in ("global_step", "state_dict", "optimizer_states", "lr_schedulers", "run_state", "replay_buffer"):
        if not _equal(whole.get(key), killed.get(key)):
            return f"{key} differs"
    texts = [(run / name / "metrics.csv").read_text() for name in ("whole", "killed")]
    return None if texts[0] == texts[1] else "metrics.csv differs"


def _equal(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return a == b
