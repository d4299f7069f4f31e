"""Pictures of a GRBM's parameters."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl

from ebmlab.callbacks.periodic import PeriodicEvaluation
from ebmlab.callbacks.requirements import data_showing, energy_of
from ebmlab.data.interface import Images
from ebmlab.drawing.figures import panels
from ebmlab.drawing.parameters import draw_log_variance
from ebmlab.drawing.tiles import tile
from ebmlab.energies import GRBM
from ebmlab.errors import UserError
from ebmlab.settings import require_count


class ParameterImages(PeriodicEvaluation):
    """Shows the filters of a GRBM and its variances over the training, on rank 0.

    Logs `parameters/filters`, the columns of W with the largest norms, each scaled symmetrically about 0, which is
    grey. `parameters/log_variance` shows mean, smallest and largest log sigma^2 against the step.

    Args:
        num_filters: number of columns of W to show.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.learners import ContrastiveDivergence
        >>> from ebmlab.samplers import BlockGibbs
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[ParameterImages(num_filters=16)])
        >>> learner = ContrastiveDivergence(GRBM(64, 16), BlockGibbs())
        >>> _ = trainer.test(learner, Digits(), verbose=False)  # writes images/parameters-filters_step0000000.png
    """

    needs_images = True

    def __init__(self, num_filters: int = 64, every_n_epochs: int = 1, *, at_start: bool = True) -> None:
        super().__init__(every_n_epochs, at_start)
        require_count("ParameterImages", num_filters=num_filters)
        self.num_filters = num_filters
        self._history: list[list[float]] = []  # [step, mean, min, max]

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data_showing(trainer, Images, self)
        energy = energy_of(pl_module)
        if not isinstance(energy, GRBM):
            raise UserError(
                f"ParameterImages shows the W and log_var of a GRBM, which {type(energy).__name__} lacks: remove it"
            )

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        energy, data = energy_of(pl_module), data_showing(trainer, Images, self)
        assert isinstance(energy, GRBM) and data.event_shape is not None
        log_var = energy.log_var
        self._history.append([float(trainer.global_step), *map(float, (log_var.mean(), log_var.min(), log_var.max()))])
        if not trainer.is_global_zero:
            return
        count = min(self.num_filters, energy.num_hidden)
        filters = energy.W.T[energy.W.norm(dim=0).topk(count).indices].view(count, *data.event_shape)
        scaled = filters / filters.abs().amax((1, 2, 3), keepdim=True).clamp(min=1e-12)
        title = f"{count} largest of {energy.num_hidden} filters (white +, black -)"
        self.log_image(trainer, "parameters/filters", panels({title: tile(0.5 + 0.5 * scaled)}))
        self.log_image(trainer, "parameters/log_variance", draw_log_variance(self._history))

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "history": self._history}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._history = [list(row) for row in state_dict["history"]]
