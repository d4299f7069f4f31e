"""Results of long benchmarks, one file per run. A run whose file exists is not repeated."""

from __future__ import annotations

import json
import logging
import statistics
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint

from ebmlab.callbacks import RunState
from ebmlab.numerics.allocator import keep_freed_memory

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_model_summary", "enable_progress_bar"), False)

Result = dict[str, float]


def fit(
    learner: pl.LightningModule,
    data: pl.LightningDataModule,
    iterations: int,
    from_checkpoint: Path | None = None,
    **settings: Any,
) -> None:
    """Trains on the CPU without output."""
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    settings = {"accelerator": "cpu", "limit_val_batches": 0} | QUIET | settings
    pl.Trainer(max_steps=iterations, **settings).fit(learner, data, ckpt_path=from_checkpoint)


def fit_on(
    learner: pl.LightningModule,
    data: pl.LightningDataModule,
    iterations: int,
    folder: Path,
    every: int,
    callbacks: Iterable[pl.Callback] = (),
    **settings: Any,
) -> None:
    """As `fit`, from the checkpoint that an earlier call left in the folder; writes one every so many iterations.

    A checkpoint holds the replay buffer and the random numbers, so that the parts are one training.
    """
    last = ModelCheckpoint(folder, save_last=True, save_top_k=0, every_n_train_steps=every)
    before = folder / "last.ckpt"
    settings |= {"enable_checkpointing": True, "callbacks": [*callbacks, RunState(), last]}
    fit(learner, data, iterations, before if before.exists() else None, **settings)
    if learner.global_step != iterations:
        raise SystemExit(f"{before} has {learner.global_step} iterations, past {iterations}: take another --folder")


def run_missing(folder: Path, jobs: Iterable[str], run: Callable[[str], Result], part: str) -> None:
    """Runs the jobs without a result, or for part "i/n" every n-th of all from the i-th."""
    keep_freed_memory()
    folder.mkdir(parents=True, exist_ok=True)
    first, step = map(int, part.split("/"))
    for job in list(jobs)[first::step]:
        path = folder / f"{job}.json"
        if not path.exists():
            result = run(job)
            path.write_text(json.dumps(result))
            print(job, {k: float(f"{v:.4g}") for k, v in result.items()}, flush=True)


def cell(folder: Path, pattern: str, key: str, digits: int = 3) -> str:
    """Mean and range of a number over the results that match; a dash where there are none."""
    results = [json.loads(path.read_text()) for path in folder.glob(f"{pattern}.json")]
    found = [result[key] for result in results if key in result]
    if not found:
        return "-"
    spread = f" ({min(found):.{digits}g} to {max(found):.{digits}g})" if len(found) > 1 else ""
    return f"{statistics.mean(found):.{digits}g}{spread}"
