"""The step size of any sampler is logged if it is a number."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ebmlab.callbacks import SamplerMonitor
from ebmlab.energies import GRBM
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import BlockGibbs


class Own(BlockGibbs):
    """A sampler of a user's own, whose step size is no buffer."""

    def __init__(self, step_size: Any) -> None:
        super().__init__()
        self.step_size = step_size


@pytest.mark.parametrize(
    ("step_size", "logged"),
    [(0.3, 0.3), (2, 2.0), ([0.1, 0.3], 0.2), (torch.tensor([1, 2]), 1.5), ("auto", None), (None, None), (max, None)],
)
def test_step_sizes_of_every_kind(setup: Any, squares: Any, step_size: Any, logged: float | None) -> None:
    learner = ContrastiveDivergence(GRBM(36, 4), Own(step_size), start=FromNoise(), num_steps=1)
    learner, trainer = setup([SamplerMonitor()], learner=learner, max_epochs=None, max_steps=1)
    trainer.fit(learner, squares)
    found, unit = trainer.callback_metrics.get("sampler/step_size"), float(learner.energy.step_unit().detach())
    assert found is None if logged is None else float(found) == pytest.approx(logged * unit, rel=1e-5)
    assert "sampler/log_var_mean" in trainer.callback_metrics
