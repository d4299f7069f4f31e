"""Questions that a loaded model cannot answer are refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers_errors import refused
from helpers_trained import binary_model

from ebmlab.trained import TrainedModel

pytestmark = pytest.mark.filterwarnings("ignore::lightning_fabric.utilities.warnings.PossibleUserWarning")


REFUSED: dict[str, tuple[Callable[[TrainedModel], Any], str]] = {
    "one event": (lambda m: m.energy(torch.zeros(2, 3)), r"raw data have shape \(2, 3\); it must be \(B, 1, 2, 3\)"),
    "another size": (lambda m: m.energy(np.zeros((4, 7))), r"raw data have shape \(4, 7\)"),
    "grey levels": (lambda m: m.energy(torch.full((1, 6), 0.4)), "raw data become no states of RBM: state number 0"),
    "NaN": (lambda m: m.energy(np.full((1, 6), np.nan)), "raw holds NaN or infinity in 1 of 1 events"),
    "nothing": (lambda m: m.energy(torch.zeros(0, 6)), "raw holds no events"),
    "text": (lambda m: m.energy(np.array([["a"] * 6])), "raw holds texts; they must be real numbers"),
    "complex": (
        lambda m: m.energy(torch.zeros(1, 6) * 1j),
        "raw holds values of the type torch.complex64; they must be",
    ),
    "sparse": (
        lambda m: m.energy(torch.zeros(1, 6).to_sparse()),
        r"raw is a tensor of the layout torch.sparse_coo: give raw.to_dense\(\)",
    ),
    "a mask of another size": (
        lambda m: m.complete(torch.zeros(1, 6), torch.ones(5)),
        r"mask has shape \(5,\), but mu",
    ),
    "a mask of numbers": (lambda m: m.complete(torch.zeros(1, 6), torch.full((6,), 2)), "mask must hold True"),
    "a full mask": (lambda m: m.complete(torch.zeros(1, 6), torch.ones(6)), "the mask gives all 6 coordinates"),
    "NaN that is given": (
        lambda m: m.complete(np.full((1, 6), np.nan), [1, 0, 0, 0, 0, 0]),
        "NaN or infinity in 1 of 1",
    ),
    "no completions": (lambda m: m.complete(torch.zeros(1, 6), [1, 0, 0, 0, 0, 0], num_samples=0), "num_samples is 0"),
    "no samples": (lambda m: m.sample(0), "sample: n is 0, but must be at least 1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(what: str) -> None:
    act, line = REFUSED[what]
    with refused(line):
        act(binary_model())
