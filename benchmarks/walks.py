"""How many of our files a reader opens to follow a walk: those whose functions run, `python -m benchmarks.walks`.

Walks: a step of DMALA, one by one and as a program; a batch from a config to the optimizer; AIS in training. What only
Lightning, jsonargparse or torch run does not count. A program is followed by the functions that it is made of, so that
its walk holds that of the step. A CUDA graph records these same functions by one more file, `engine/cuda_graph.py`.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytorch_lightning as pl
import torch

ROOT = Path(__file__).parents[1]
OURS = ("ebmlab", "callbacks", "datamodules")
CONFIG = """
model:
  class_path: ebmlab.learners.ContrastiveDivergence
  init_args:
    energy: {class_path: ebmlab.energies.RBM, init_args: {num_visible: "${event_size:}", num_hidden: 4}}
    sampler: {class_path: ebmlab.samplers.BlockGibbs}
    num_steps: 1
data: {class_path: datamodules.Digits, init_args: {batch_size: 1437, binarize: true}}
trainer: {max_epochs: 1, enable_progress_bar: false, logger: false, accelerator: cpu, limit_val_batches: 0}
"""


@contextlib.contextmanager
def opened() -> Iterator[set[str]]:
    """The files of ours, relative to the checkout, in which a function runs in the body; classes being made do not."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        name, code = frame.f_code.co_filename, frame.f_code.co_name
        if event == "call" and not code.startswith("<module") and name.startswith(str(ROOT)):
            path = Path(name).resolve()
            if path.relative_to(ROOT).parts[0] in OURS and "__qualname__" not in frame.f_code.co_names:
                found.add(str(path.relative_to(ROOT)))

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


def dmala() -> tuple[set[str], set[str]]:
    """The walks of steps of DMALA on an RBM, one by one and as a program."""
    from ebmlab.energies import RBM
    from ebmlab.samplers import DMALA

    class Local(RBM):
        """Another process does not find it, so that its program is not kept on the disk."""

    rbm = Local(6, 3)
    x = rbm.domain.random(4)
    with opened() as eager:
        DMALA(0.2).sample(rbm, x, num_steps=2)
    with torch.compiler.set_stance("force_eager"), opened() as compiled:
        DMALA(0.2).sample(rbm, x, num_steps=8, compile=True)
    return eager, eager | compiled


def fit() -> set[str]:
    """The walk of a whole training of one batch, from the command line and a config to the run's folder."""
    from ebmlab.app.cli import load, main

    load(["fit"])  # so that imports are no part of the walk
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("config.yaml").write_text(CONFIG)
        with opened() as found, contextlib.redirect_stdout(io.StringIO()):
            main(["fit", "--config", "config.yaml", "--name", "walk"])
    return found


def train() -> tuple[set[str], set[str]]:
    """The walks of a second batch, from its loader to the optimizer, and of an evaluation by AIS in training."""
    from ebmlab.callbacks import AIS
    from ebmlab.datamodules import Digits
    from ebmlab.energies import RBM
    from ebmlab.learners import ContrastiveDivergence
    from ebmlab.samplers import BlockGibbs

    batch: set[str] = set()
    ais = AIS(num_chains=4, num_temperatures=10)
    learner = ContrastiveDivergence(RBM(64, 4), BlockGibbs(), num_steps=1)
    with contextlib.ExitStack() as stack:

        class Batch(pl.Callback):
            def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *rest: Any) -> None:
                if trainer.global_step == 1:
                    batch_files = stack.enter_context(opened())
                    stack.callback(lambda: batch.update(batch_files))
                if trainer.global_step == 2:
                    stack.close()

        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
            options = {"enable_progress_bar": False, "logger": False, "accelerator": "cpu", "limit_val_batches": 1}
            trainer = pl.Trainer(max_steps=2, callbacks=[Batch(), ais], default_root_dir=folder, **options)
            trainer.fit(learner, Digits(100, binarize=True))
            with opened() as evaluated:
                ais.evaluate(trainer, learner)
    return batch, evaluated


def show(title: str, files: set[str]) -> None:
    print(f"{title}: {len(files)} files", *sorted(files), sep="\n  ")


def main() -> None:
    eager, compiled = dmala()
    show("a step of DMALA", eager)
    show("the same as a program", compiled)
    batch, evaluated = train()
    show("a batch from the loader to the optimizer", batch)
    show("AIS in training", evaluated)
    show("`fit` of one batch, from the config to the run's folder", fit())


if __name__ == "__main__":
    main()
