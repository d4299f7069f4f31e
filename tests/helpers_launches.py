"""A GPU that is not there: operators on the device "meta" are counted, and recordings are replayed on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ebmlab.energies.evaluation import Merge

GPU = "meta"
WAITING = ("_local_scalar_dense", "item", "nonzero", "masked_select", "unique", "equal", "is_nonzero")
VIEWS = ("device", "_unsafe_view", "alias", "as_strided", "detach", "expand", "permute", "select", "slice", "split")
VIEWS += (
    "device",
    "t",
    "transpose",
    "unbind",
    "unsqueeze",
    "view",
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
)


class Launches(TorchDispatchMode):
    """Lists the operators that start kernels on the GPU, and raises where one waits for it.

    Args:
        gpu: the device that is taken for a GPU.

    Attributes:
        names: of the operators, in their order.
    """

    def __init__(self, gpu: str = GPU) -> None:
        super().__init__()
        self.gpu = gpu
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, str(function).split(".")[1]
        if not any(self._on_gpu(t) for t in tree_leaves((args, kwargs))):
            out = function(*args, **kwargs)
            if any(self._on_gpu(t) for t in tree_leaves(out)) and name not in VIEWS:
                self._note(name, args, kwargs, out)
            return out
        if name in WAITING:
            raise AssertionError(f"{name} waits for the GPU")
        if name in ("index", "index_put_") and any(t is not None and t.dtype == torch.bool for t in args[1]):
            raise AssertionError(f"{name} waits for the number of entries in a mask")
        out = function(*args, **kwargs)
        if name not in VIEWS:
            self._note(name, args, kwargs, out)
        return out

    def _note(self, name: str, args: Any, kwargs: Any, out: Any) -> None:
        tensors = [t for t in tree_leaves((args, out)) if isinstance(t, Tensor)]
        if name in ("_to_copy", "copy_") and not all(map(self._on_gpu, tensors)) and not kwargs.get("non_blocking"):
            raise AssertionError(f"{name} between devices waits for the GPU")
        self.names.append(name)

    def _on_gpu(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.device.type == self.gpu


class Tape(TorchDispatchMode):
    """Stands in for a CUDA graph on a CPU: runs operators, and runs them again on the tensors of the first time.

    A replay calls no Python of the recorded function, and sees what has changed in place, as a GPU does.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[Any, Any, Any, list[Any]]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        self._calls.append((function, args, kwargs or {}, tree_leaves(out)))
        return out

    @torch.no_grad()
    def replay(self) -> None:
        for function, args, kwargs, leaves in self._calls:
            for mine, new in zip(leaves, tree_leaves(function(*args, **kwargs)), strict=True):
                if isinstance(mine, Tensor) and mine is not new:
                    mine.copy_(new)


@contextmanager
def _recording(tape: Tape, **_: Any) -> Iterator[None]:
    before = torch.random.default_generator.get_state()
    with tape:
        yield
    torch.random.default_generator.set_state(before)  # a GPU draws nothing while it records


def _by_all_rows(self: Merge, accept: Tensor, overwrite: bool = False) -> None:
    """`Merge` on a GPU."""
    self.accept, self.overwrite, self.rejected, self._done = accept, overwrite, None, {}
    self._num_rejected, self.takes_all = -1, False


def pretend_to_record(monkeypatch: pytest.MonkeyPatch) -> list[Tape]:
    """Lets `Replayed` record on a CPU, and learners take the CPU for a GPU. Gives the recordings to come."""
    tapes: list[Tape] = []

    def new() -> Tape:
        tapes.append(Tape())
        return tapes[-1]

    fork = torch.random.fork_rng
    monkeypatch.setattr(torch.cuda, "CUDAGraph", new)
    monkeypatch.setattr(torch.cuda, "graph", _recording)
    monkeypatch.setattr(torch.cuda, "Stream", MagicMock())
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    monkeypatch.setattr(torch.cuda, "current_stream", MagicMock())
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda _: None)
    monkeypatch.setattr(torch.random, "fork_rng", lambda *_, **__: fork(devices=[]))
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(Merge, "__init__", _by_all_rows)
    return tapes
