"""States as bits and back."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ebmlab.callbacks import RunState
from ebmlab.errors import UserError
from ebmlab.io.packed_bits import packed, unpacked

TWO = {
    "bits": torch.randint(2, (7, 3, 5), dtype=torch.int8),
    "spins": 2 * torch.randint(2, (5, 9), dtype=torch.int8) - 1,
    "all alike": torch.ones(4, 3, dtype=torch.int8),
}
OTHERS = {
    "levels": torch.arange(12, dtype=torch.int8).view(3, 4),
    "many classes": torch.randint(2, (3, 4), dtype=torch.int32),
    "real numbers": torch.randint(2, (3, 4)).float(),
    "none": torch.zeros(0, 4, dtype=torch.int8),
}


@pytest.mark.parametrize("states", TWO.values(), ids=TWO)
def test_states_of_two_values_come_back(states: Tensor) -> None:
    content = packed(states)
    assert isinstance(content, dict) and content["bits"].nbytes == -(-states.numel() // 8)
    found = unpacked(content)
    assert found.dtype == torch.int8 and torch.equal(found, states)


@pytest.mark.parametrize("states", OTHERS.values(), ids=OTHERS)
def test_other_states_stay(states: Tensor) -> None:
    assert packed(states) is states and unpacked(states) is states


@pytest.mark.parametrize(
    "change", [{"shape": [7, 3, 9]}, {"bits": None}, {"values": [1]}, {"shape": "large"}], ids=lambda c: next(iter(c))
)
def test_damaged_bits_are_one_line(change: dict[str, object]) -> None:
    content = packed(TWO["bits"])
    assert isinstance(content, dict)
    with pytest.raises(UserError, match=r"the checkpoint's replay buffer is damaged: .*; take an earlier checkpoint"):
        RunState().on_load_checkpoint(None, None, {"replay_buffer": content | change})  # type: ignore[arg-type]
