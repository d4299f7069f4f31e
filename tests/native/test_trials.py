"""The trial of each library, before it is first used, comes out right whatever is set in torch by then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

import pytest
import torch

from ebmlab.native import draws
from ebmlab.native.library import FOLDER

pytestmark = pytest.mark.skipif(draws.kernels() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")


@contextmanager
def by_default(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def deterministic() -> Iterator[None]:
    """Torch fills new memory by NaN then."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


SETTINGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "float64": lambda: by_default(torch.float64),
    "bfloat16, as in training": lambda: by_default(torch.bfloat16),
    "another device": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference": torch.inference_mode,
    "gradients": torch.enable_grad,
    "deterministic": deterministic,
}


def trial(source: str) -> Any:
    """The function that is called once, before the first use."""
    module = import_module(f"ebmlab.native.{source}")
    functions = [getattr(module, name, None) for name in ("kernel", "kernels", "checked")]
    (found,) = [function.__wrapped__ for function in functions if hasattr(function, "__wrapped__")]
    return found


@pytest.mark.parametrize("source", sorted(path.stem for path in FOLDER.glob("*.cpp")))
def test_what_is_set_does_not_reach_the_trial(source: str) -> None:
    """The type of new numbers comes first which is wider than the kernels', so that nothing lies beyond its memory."""
    state = torch.get_rng_state()
    for name, setting in SETTINGS.items():
        with setting():
            assert trial(source)() is not None, name
    assert torch.equal(torch.get_rng_state(), state)
