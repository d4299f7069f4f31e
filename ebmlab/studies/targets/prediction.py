"""The predictions of a binary Bayesian network while its weights are sampled."""

from __future__ import annotations

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.studies.measures import Measure
from ebmlab.studies.targets.binary_net_posterior import BinaryNetPosterior


class Prediction(Measure):
    """Training log-likelihood and test RMSE of a `BinaryNetPosterior`'s networks (Zhang et al. 2022, Table 2).

    Example:
        >>> from ebmlab.studies.targets import Rows
        >>> rows = Rows(torch.rand(9, 3), torch.rand(9), test_x=torch.rand(5, 3), test_y=torch.rand(5))
        >>> energy = BinaryNetPosterior(rows, hidden_dim=2)
        >>> measure = Prediction()
        >>> measure.prepare(energy)
        >>> measure.update(energy.random(4))
        >>> list(measure.summary())
        ['train_log_likelihood', 'train_log_likelihood_std', 'test_rmse']
    """

    label = "training log-likelihood"

    def prepare(self, energy: Energy) -> None:
        if not isinstance(energy, BinaryNetPosterior):
            raise UserError(f"Prediction needs a BinaryNetPosterior, not a {type(energy).__name__}")
        if energy.test_y is None or not len(energy.test_y):
            raise UserError("Prediction needs test rows, but the target's data have none")
        self._energy = energy

    def value(self) -> float:
        return float(self._energy.log_likelihood(self._x).mean())

    def summary(self) -> dict[str, float]:
        likelihood = self._energy.log_likelihood(self._x)
        return {
            "train_log_likelihood": float(likelihood.mean()),
            "train_log_likelihood_std": float(likelihood.std()),
            "test_rmse": float(self._energy.test_rmse(self._x)),
        }
