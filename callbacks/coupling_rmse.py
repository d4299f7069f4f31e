"""The error of learnt couplings against those from which the data were drawn."""

from __future__ import annotations

import pytorch_lightning as pl

from ebmlab.callbacks.periodic import PeriodicEvaluation
from ebmlab.callbacks.requirements import energy_of, known_data
from ebmlab.data.interface import KnownCouplings
from ebmlab.drawing.parameters import draw_matrices
from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.evaluation import coupling_rmse
from ebmlab.evaluation.headline import Headline


class CouplingRMSE(PeriodicEvaluation):
    """Logs the error of learnt couplings against the true ones, and shows both.

    It needs an `Ising` energy that learns, and data from a known one, such as `datamodules.IsingSamples`. Logs
    `coupling/rmse` over all entries of J, in our convention that an edge counts once
    (`ebmlab.evaluation.coupling_rmse`). `coupling/rmse_paper` is half of it, and belongs to the papers' E(x) = -x'J x.
    `parameters/couplings` shows both matrices; white is zero, and the colours end at the largest true coupling.

    Args:
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.

    Example:
        >>> import warnings
        >>> from ebmlab.datamodules import IsingSamples
        >>> from ebmlab.learners import RatioMatching
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[CouplingRMSE()])
        >>> learner = RatioMatching(Ising.learnable(9))  # has learnt nothing yet; the true couplings are 0.5 or 0
        >>> data = IsingSamples(side=3, num_samples=50, num_sweeps=5, root=".")
        >>> with warnings.catch_warnings(action="ignore"):  # Lightning warns of hyper-parameters that are modules
        ...     (scores,) = trainer.test(learner, data, verbose=False)
        >>> round(scores["coupling/rmse"], 3)
        0.333
    """

    logs = ("coupling/rmse", "coupling/rmse_paper")

    def __init__(self, every_n_epochs: int = 1, at_start: bool = True) -> None:
        super().__init__(every_n_epochs, at_start)

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        energy = energy_of(pl_module)
        if not isinstance(energy, Ising) or not energy.learn:
            given = "one that is fixed" if isinstance(energy, Ising) else type(energy).__name__
            raise UserError(
                f"CouplingRMSE needs an Ising energy that learns, got {given}: "
                "use ebmlab.energies.Ising.learnable, or remove it"
            )
        self._data(trainer)

    def _data(self, trainer: pl.Trainer) -> KnownCouplings:
        what = "data of known couplings, with coupling_matrix"
        return known_data(trainer, KnownCouplings, self, what, "datamodules.IsingSamples")  # type: ignore[type-abstract]

    def headline_of(self, trainer: pl.Trainer, metrics: dict[str, float]) -> Headline:
        return Headline("RMSE of the couplings", metrics["coupling/rmse"])

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        energy, true = energy_of(pl_module), self._data(trainer).coupling_matrix()
        assert isinstance(energy, Ising)
        rmse = float(coupling_rmse(energy, true))
        self.log_metrics(trainer, pl_module, {"coupling/rmse": rmse, "coupling/rmse_paper": rmse / 2})
        if trainer.is_global_zero:
            titles = ("true J", f"learnt J, RMSE {rmse:.3g}")
            matrices = (true, energy.coupling.detach().cpu())
            self.log_image(trainer, "parameters/couplings", draw_matrices(dict(zip(titles, matrices, strict=True))))
