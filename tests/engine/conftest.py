from __future__ import annotations

from importlib import import_module

import pytest

at_once = import_module("ebmlab.samplers.at_once")


@pytest.fixture(autouse=True)
def by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred chains of a small RBM are moved by programs and steps, and not by the kernels of a few."""
    monkeypatch.setattr(at_once, "MORE", 1)
