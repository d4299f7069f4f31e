from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Leaves the number of threads as it was."""
    before = torch.get_num_threads()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def sampling() -> Iterator[None]:
    """Without autograd, as samplers run."""
    with torch.no_grad():
        yield
