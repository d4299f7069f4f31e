"""Data frames are read by the names of their columns, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers_trained import model_of, wild

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.energies import GRBM
from ebmlab.errors import UserError
from ebmlab.trained import TrainedModel

pd = pytest.importorskip("pandas")
NAMES = ("q0", "q1", "q2")
MASK = [True, False, False]
METHODS: dict[str, Callable[[TrainedModel, Any], Any]] = {
    "states": lambda m, x: m.states(x),
    "energy": lambda m, x: m.energy(x),
    "features": lambda m, x: m.features(x),
    "grad_log_prob": lambda m, x: m.grad_log_prob(x),
    "log_likelihood": lambda m, x: m.log_likelihood(x, 5, num_temperatures=5).values,
    "complete": lambda m, x: m.complete(x, MASK, num_steps=1),
    "conditionals": lambda m, x: m.conditionals(x, MASK)[0].given,
}


def model(columns: tuple[str, ...] = NAMES) -> TrainedModel:
    return model_of(wild(GRBM(3, 2)), Preprocessing((3,), columns=columns))


def frame(columns: Any = NAMES) -> Any:
    return pd.DataFrame(np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32), columns=list(columns))


@pytest.mark.parametrize("method", METHODS)
def test_columns_in_another_order_are_refused(method: str) -> None:
    act, rows = METHODS[method], frame()
    line = "raw: column 0 of the samples is q2, but q0 in the training data: give the same columns in the same order"
    with pytest.raises(UserError, match=line):
        act(model(), rows[rows.columns[::-1]])
    found = []
    for given in (rows, rows.to_numpy(), rows.set_axis([" q0", "q1 ", "q2"], axis=1)):
        torch.manual_seed(0)
        found.append(np.asarray(act(model(), given)))
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_a_frame_of_other_columns_is_refused() -> None:
    with pytest.raises(UserError, match="raw: column 1 of the samples is other, but q1 in the training data"):
        model().energy(frame(("q0", "other", "q2")))


def test_numbers_of_columns_are_names_where_the_training_data_have_them() -> None:
    sites, rows = ("1", "2", "4"), frame((1, 2, 4))
    assert np.array_equal(model(sites).energy(rows), model(sites).energy(rows.to_numpy()))
    with pytest.raises(UserError, match="raw: column 0 of the samples is 4, but 1 in the training data"):
        model(sites).energy(rows[[4, 2, 1]])


def test_frames_and_models_without_names_go_by_their_order() -> None:
    rows = frame(range(3))
    values = rows.to_numpy()
    assert np.array_equal(model().energy(rows), model().energy(values))
    assert np.array_equal(model().energy(rows[[2, 0, 1]]), model().energy(values[:, [2, 0, 1]]))
    assert np.array_equal(model(()).energy(frame()), model(()).energy(values))


def test_masks_have_names_too() -> None:
    known = pd.Series({"q0": True, "q1": False, "q2": False})
    assert np.allclose(model().complete(frame(), known, num_steps=1)[:, 0], frame()["q0"])
    for mask in (known[::-1], known[::-1].to_frame().T):
        with pytest.raises(UserError, match="mask: column 0 of the samples is q2, but q0 in the training data"):
            model().complete(frame(), mask, num_steps=1)
