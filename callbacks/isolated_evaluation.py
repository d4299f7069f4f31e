"""Evaluation that does not change the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def isolated(module: nn.Module, seed: int) -> Iterator[None]:
    """Runs its body in eval mode, without gradients and with its own random numbers.

    Afterwards, even after an exception, the random generators (of the CPU and the current GPU) and the train/eval mode
    of every submodule are restored. Tensors made inside are ordinary ones, even under Lightning's inference mode.
    """
    modes = [(m, m.training) for m in module.modules()]
    on_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = [torch.cuda.current_device()] if on_cuda else []
    on_mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    with torch.random.fork_rng(devices), torch.inference_mode(False), torch.no_grad():
        torch.manual_seed(seed)
        module.eval()
        try:
            yield
        finally:
            for m, training in modes:
                m.training = training
            if on_mps is not None:
                torch.mps.set_rng_state(on_mps)
