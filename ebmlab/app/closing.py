"""What a run came to: the scores that count, with their pictures, for the end of `fit`, `validate` and `test`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from ebmlab.callbacks.periodic import PeriodicEvaluation
from ebmlab.callbacks.sample_evaluation import SampleEvaluation
from ebmlab.domains import Real
from ebmlab.energies import Bipartite

STILL = 1e-3  # an acceptance below it is that of chains that do not move


def closing_lines(trainer: pl.Trainer) -> list[str]:
    """A line for each callback that has a `headline`, and the picture that goes with it: its own, or of samples."""
    if trainer.fast_dev_run:  # type: ignore[attr-defined]
        return []
    looked = [c for c in trainer.callbacks if isinstance(c, PeriodicEvaluation)]  # type: ignore[attr-defined]
    drawn = next((c.picture for c in looked if isinstance(c, SampleEvaluation) and c.picture is not None), None)
    lines: list[str] = []
    for callback in looked:
        if callback.headline is not None:
            lines.append(f"  score      {callback.headline}")
            picture = callback.picture or drawn
            lines += [] if picture is None else [f"  picture    {picture}"]
    if float(trainer.callback_metrics.get("sampler/acceptance", 1.0)) < STILL:
        lines.append("  acceptance 0: the chains stand still at the end of training; take a smaller step_size")
    return list(dict.fromkeys(lines))


def why_no_score(trainer: pl.Trainer) -> list[str]:
    """A line that says what to add to an evaluation of a checkpoint that has given no score."""
    looked = [c for c in trainer.callbacks if isinstance(c, PeriodicEvaluation)]  # type: ignore[attr-defined]
    if trainer.fast_dev_run or any(callback.headline is not None for callback in looked):  # type: ignore[attr-defined]
        return []
    learner: Any = trainer.lightning_module
    energy, sampler = learner.energy, learner.sampler
    if isinstance(energy.domain, Real) and energy.domain.event_shape == (2,):
        return ["  score      none; add --callbacks.Density2D true for a likelihood"]
    other = "BlockGibbs" if isinstance(energy, Bipartite) else "NAME, one that is exact,"
    named = "" if sampler.exact else f" --callbacks.AIS.sampler {other}"
    return [f"  score      none; add{named} --callbacks.AIS.test_temperatures 1000 for a likelihood"]


def why_no_metrics(trainer: pl.Trainer, folder: Path) -> list[str]:
    """A line that says why the run has no `metrics.csv`, if it ended before the first row was due."""
    every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
    if trainer.fast_dev_run or trainer.global_step >= every or (folder / "metrics.csv").exists():  # type: ignore[attr-defined]
        return []
    return [f"  metrics    none: the first row is due at step {every} (--trainer.log_every_n_steps)"]
