from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from ebmlab.native import library


@pytest.fixture(autouse=True)
def seeded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leaves the number of threads as it was, and has all of them share any work."""
    monkeypatch.setattr(library, "LITTLE", 0)
    before = torch.get_num_threads()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def sampling() -> Iterator[None]:
    """Without autograd, as samplers run."""
    with torch.no_grad():
        yield
