"""Raw data in other units than the training data are converted where their type tells, and refused elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers_errors import refused

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.energies import GRBM, RBM, Energy
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import BlockGibbs
from ebmlab.trained import TrainedModel
from ebmlab.trained import model as module

LEVELS16 = Preprocessing((1, 2, 2), scale=16.0, binarize=True, unit=True)  # fractions, or integers from 0 to 16
DYNAMIC = replace(LEVELS16, binarize="dynamic")
FLOATS255 = Preprocessing((1, 2, 2), 255.0, 255.0, (0.3,), (0.4,), unit=True)  # levels of all types
FRACTIONS = Preprocessing((1, 2, 2), 255.0, 1.0, (0.3,), (0.4,), unit=True)
RATINGS = Preprocessing((4,), 10.0, 10.0, unit=True)  # a table that was divided by max_value


def model_of(form: Preprocessing) -> TrainedModel:
    torch.manual_seed(0)
    energy: Energy = RBM(4, 3) if form.binarize else GRBM(4, 3)
    for p in energy.parameters():
        torch.nn.init.normal_(p, std=0.7)
    return TrainedModel(ContrastiveDivergence(energy, BlockGibbs()), form)


@pytest.mark.parametrize("form", [LEVELS16, FLOATS255, FRACTIONS])
def test_booleans_are_black_and_white_in_all_units(form: Preprocessing) -> None:
    model, bits = model_of(form), torch.tensor([[True, False, False, True], [False, True, True, True]])
    white = bits.float() * form.float_scale
    assert torch.equal(model.states(bits), model.states(white)) and model.states(bits).std() > 0
    assert torch.equal(model.states(bits.numpy()), model.states(white))
    assert torch.equal(model.states(bits.int() * int(form.scale)), model.states(white))


def test_drawn_bits_depend_on_the_place_in_the_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on how many samples there are, nor on how many are evaluated at a time, nor on their type."""
    model, raw = model_of(DYNAMIC), torch.randint(17, (500, 1, 2, 2), dtype=torch.uint8)
    states, energies = model.states(raw), model.energy(raw)
    for n in (1, 2, 3, 7, 16, 100, 499):
        assert torch.equal(model.states(raw[:n]), states[:n])
    monkeypatch.setattr(module, "BATCH", 7)
    torch.manual_seed(1)
    torch.testing.assert_close(model.energy(raw), energies)
    assert torch.equal(model.states(raw.double() / 16), states) and len(states.unique(dim=0)) == 16


WRONG: dict[str, tuple[Preprocessing, Any, str]] = {
    "bits as integers": (
        LEVELS16,
        np.int64([[1, 0, 0, 1]]),
        "the integers 0 and 1, but .* from 0 to 16: give bits as f",
    ),
    "bits as bytes": (
        FLOATS255,
        np.uint8([[1, 0, 0, 1]]),
        "the integers 0 and 1, but .* to 255: give bits as booleans",
    ),
    "bits as floats": (FLOATS255, np.float32([[1, 0, 0, 1]]), "up to 1, but .* levels from 0 to 255: multiply them by"),
    "fractions": (FLOATS255, np.float32([[0.1, 0, 0, 0.9]]), "up to 0.9, but .* levels from 0 to 255: multiply them"),
    "too high levels": (LEVELS16, np.uint8([[0, 255, 128, 3]]), "integers from 0 to 255, but .* levels from 0 to 16"),
    "not a number": (
        LEVELS16,
        np.float32([[0.5, np.nan, 1, 0]]),
        "NaN or infinity in 1 of 1 events, first in number 0",
    ),
    "infinite": (DYNAMIC, np.float32([[0.5, np.inf, 1, 0]]), "NaN or infinity in 1 of 1 events, first in number 0"),
    "no fractions": (
        LEVELS16,
        np.float32([[-0.1, 0.3, 1, 0]]),
        "from -0.1 to 1, but what becomes bits must lie between",
    ),
    "no probabilities": (DYNAMIC, np.float32([[0.3, 1.2, 1, 0]]), "from 0 to 1.2, but what becomes bits must lie bet"),
    "levels that are not whole": (
        FRACTIONS,
        np.float32([[0.5, 200, 255, 0]]),
        "raw: the values lie between 0 and 255, b",
    ),
    "standardised": (
        FRACTIONS,
        np.float32([[-1.5, 0.2, 1.3, 0]]),
        "raw: the values lie between -1.5 and 1.3, but those",
    ),
    "negative levels": (LEVELS16, np.int8([[0, -1, 12, 3]]), "integers from -1 to 12, but .* levels from 0 to 16"),
}


@pytest.mark.parametrize("what", WRONG)
def test_other_units_are_refused_in_one_line(what: str) -> None:
    form, raw, line = WRONG[what]
    model = model_of(form)
    acts: list[Callable[[], Any]] = [lambda: model.energy(raw), lambda: model.complete(raw, [1, 1, 1, 0])]
    for act in acts:
        with refused(line):
            act()


def test_dark_parts_of_images_are_no_bits() -> None:
    """The free pixels, although they are ignored, show that the given ones are levels."""
    for form, raw in ((LEVELS16, np.uint8([[0, 1, 0, 9]])), (FLOATS255, np.float32([[0, 1, 0, 90]]))):
        found = model_of(form).complete(raw, [1, 1, 1, 0], num_steps=1)
        assert found.shape == (1, 1, 2, 2)


LEVELS255 = Preprocessing((1, 2, 2), 255.0, binarize=True, unit=True)  # MNIST's levels, as bits
FLAT255 = replace(LEVELS255, shape=(4,))
DRAWN255 = replace(LEVELS255, binarize="dynamic")
DARK: dict[str, tuple[Preprocessing, Any, str]] = {
    "levels from 0 to 16": (LEVELS255, np.uint8([[0, 16, 3, 9], [2, 0, 11, 0]]), "up to 16, but 255 is white"),
    "the same, flat": (FLAT255, np.uint8([[0, 16, 3, 9], [2, 0, 11, 0]]), "up to 16, but 255 is white"),
    "the same, drawn": (DRAWN255, np.uint8([[0, 16, 3, 9], [2, 0, 11, 0]]), "up to 16, but 255 is white"),
    "fractions": (LEVELS16, np.float32([[0, 0.03, 0.06, 0.01]] * 2), "up to 0.06, but 1 is white"),
}


@pytest.mark.parametrize("what", DARK)
def test_pixels_of_which_all_would_become_0_are_refused_as_in_training(what: str) -> None:
    form, raw, line = DARK[what]
    model = model_of(form)
    acts: list[Callable[[], Any]] = [lambda: model.energy(raw), lambda: model.features(raw)]
    for act in [*acts, lambda: model.energy(raw[:1]), lambda: model.complete(raw, [1, 1, 1, 0])]:
        with pytest.raises(UserError, match=f"{line}, so that next to all bits would be 0"):
            act()


@pytest.mark.parametrize("form", [LEVELS255, LEVELS16, FLAT255])
def test_black_pixels_are_no_other_units(form: Preprocessing) -> None:
    """Nor are dark pixels beside bright ones of other events, or of one event that is known in part."""
    model, dark = model_of(form), np.uint8([[0, 5, 2, 0]])
    black, white = np.zeros_like(dark), np.uint8([[0, 0, 0, form.scale]])
    assert not model.states(black).any() and len(model.energy(black)) == 1
    both = model.states(np.concatenate([dark, white])).flatten(1)
    assert torch.equal(both, torch.tensor([[0.0, 0, 0, 0], [0, 0, 0, 1]]))
    bits = model.complete(dark, [1, 1, 1, 0], num_steps=1)
    assert not bits.reshape(-1)[:3].any()


def test_rows_of_fractions_may_be_small() -> None:
    form = Preprocessing((4,), 255.0, 1.0, binarize=True, unit=True)
    assert not model_of(form).states(np.float32([[0.1, 0, 0.3, 0.2]])).any()


def test_rows_of_small_numbers_are_no_bits() -> None:
    model = model_of(RATINGS)
    assert torch.equal(model.states(np.int64([[1, 0, 0, 1]])), torch.tensor([[0.1, 0, 0, 0.1]]))
    assert torch.equal(model.states(np.float32([[1, 0, 0.5, 1]])), torch.tensor([[0.1, 0, 0.05, 0.1]]))
