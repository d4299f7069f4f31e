"""Detection by energies against scikit-learn's metrics, at the scales that energies have."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.evaluation.outliers import detection


def sets(shift: float, scale: float) -> tuple[Tensor, Tensor]:
    """Energies of two sets of different sizes: far below 0, and rounded, so that there are ties."""
    generator = torch.Generator().manual_seed(0)
    inside = torch.randn(300, generator=generator, dtype=torch.float64)
    outside = 1.5 * torch.randn(170, generator=generator, dtype=torch.float64) + shift
    return (10 * inside).round() / 10 * scale - 868, (10 * outside).round() / 10 * scale - 868


@pytest.mark.parametrize("shift", [-1.0, 0.0, 0.7, 2.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_three_numbers_are_scikit_learns(shift: float, scale: float) -> None:
    inside, outside = sets(shift, scale)
    found = detection(inside, outside)
    law = torch.cat([torch.ones(300), torch.zeros(170)]).numpy()
    scores = -torch.cat([inside, outside]).numpy()
    assert found.auroc == pytest.approx(roc_auc_score(law, scores), abs=1e-6)
    assert found.aupr == pytest.approx(average_precision_score(law, scores), abs=1e-6)
    false, true, _ = roc_curve(law, scores, drop_intermediate=False)
    assert found.fpr95 == pytest.approx(false[true >= 0.95].min(), abs=1e-6)


def test_low_energy_is_the_sign_of_the_law() -> None:
    low, high = torch.linspace(-900, -800, 100), torch.linspace(-700, 5000, 50)
    assert detection(low, high).as_dict() == {"auroc": 1.0, "aupr": 1.0, "fpr95": 0.0}
    assert detection(high, low).auroc == 0 and detection(high, low).fpr95 == 1
    same = detection(torch.zeros(100), torch.zeros(100))
    assert (same.auroc, same.aupr, same.fpr95) == (0.5, 0.5, 1.0)


def test_infinite_energies_are_ranked_and_nan_is_not_hidden() -> None:
    assert detection(torch.zeros(4), torch.tensor([math.inf, 1.0])).auroc == 1
    assert all(math.isnan(value) for value in detection(torch.zeros(4), torch.tensor([math.nan])).as_dict().values())


def test_two_sets_are_compared() -> None:
    """Without other data the area was 0, the worst that there is."""
    some, none = torch.tensor([1.0, 2.0]), torch.zeros(0)
    for sets in ((some, none), (none, some)):
        with pytest.raises(UserError, match=r"detection compares energies of two sets, but there are \d of data"):
            detection(*sets)
