"""Many sequences take the memory of their letters: their one-hot states are made a batch at a time."""

from __future__ import annotations

import pytest
import torch
from helpers_family import drawn_potts
from helpers_memory import peak_of_tensors
from helpers_trained import model_of

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.energies import CategoricalRBM, Potts
from ebmlab.errors import UserError
from ebmlab.learners.closed_form import independent_, mean_field_
from ebmlab.numerics import means
from ebmlab.trained import model

LETTERS = torch.randint(21, (4000, 30), generator=torch.Generator().manual_seed(0))
STATES = 4 * LETTERS.numel() * 21  # bytes of all states


@pytest.mark.parametrize("ask", ["energy", "features"])
def test_states_are_made_a_batch_at_a_time(ask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    energy = drawn_potts(30, 21, None, seed=1).float() if ask == "energy" else CategoricalRBM(30, 21, num_hidden=2)
    trained = model_of(energy, Preprocessing((30,), num_classes=21))
    found = getattr(trained, ask)(LETTERS)
    monkeypatch.setattr(model, "BATCH", 100)
    torch.testing.assert_close(getattr(trained, ask)(LETTERS), found)
    assert peak_of_tensors(lambda: getattr(trained, ask)(LETTERS)) < 0.5 * STATES


def test_a_wrong_event_keeps_its_number_in_later_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "BATCH", 2)
    trained = model_of(drawn_potts(2, 3, None, seed=1).float(), Preprocessing((2, 3)))
    raw = torch.eye(3)[torch.tensor([[0, 1], [1, 1], [2, 0], [0, 0], [1, 2]])]
    raw[3] = 0
    with pytest.raises(UserError, match="state number 3, counted from 0, is not in"):
        trained.energy(raw)


def test_closed_forms_make_no_copy_of_the_states(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.nn.functional.one_hot(LETTERS[:, :10] % 3, 3).float().repeat(3, 1, 1)
    weights = torch.rand(len(x), generator=torch.Generator().manual_seed(1))
    monkeypatch.setattr(means, "AT_ONCE", 500)
    for fit in (independent_, mean_field_):
        energy = Potts(10, 3)
        assert peak_of_tensors(lambda: fit(energy, x, weights)) < x.nbytes, fit.__name__  # noqa: B023
    independent_(energy, x, weights, pseudo_count=1e-9)
    frequency = (weights.double()[:, None, None] * x.double()).sum(0) / weights.double().sum()
    torch.testing.assert_close(energy.field.softmax(1).double(), frequency, rtol=1e-5, atol=1e-6)
