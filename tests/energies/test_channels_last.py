"""Gradients of convolutions with few channels stay inside their memory."""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ebmlab.energies import Energy, ResNet
from ebmlab.energies.resnet.channels_last import channels_last

CODE = """
import torch
from ebmlab.energies import ResNet
for shape, channels in (((3, 8, 8), 16), ((8, 8), 4), ((2, 8, 8), 6)):
    energy = ResNet(shape, channels)
    for n in (1, 9, 33):
        for _ in range(10):
            torch.autograd.grad(energy(energy.random(n)).sum(), list(energy.parameters()))
"""


@pytest.mark.slow
def test_no_process_crashes() -> None:
    """With the channels last, oneDNN's kernel for AVX2 wrote past the end of these gradients."""
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("channels", "last"), [((1, 8, 8), True), ((3, 16, 8), True), ((1, 4, 4), False), ((12, 12, 8), False)]
)
def test_what_is_not_safe_keeps_its_channels_first(channels: tuple[int, ...], last: bool) -> None:
    net = torch.nn.Sequential(*(torch.nn.Conv2d(a, b, 3) for a, b in itertools.pairwise(channels)))
    channels_last(net)
    assert net[1].weight.is_contiguous(memory_format=torch.channels_last) == last


class Layouts(TorchDispatchMode):
    """Notes the convolutions and activations whose features have their channels first."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.first = 0, list[str]()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        results = function(*args, **(kwargs or {}))
        if "conv" in function.__name__ or "silu" in function.__name__ or "add" in function.__name__:
            for t in results if isinstance(results, tuple) else (results,):
                if t is not None and t.dim() == 4 and t.shape[1] > 1:
                    self.seen += 1
                    self.first += [function.__name__] * (not t.is_contiguous(memory_format=torch.channels_last))
        return results


@pytest.mark.parametrize("rounded", [False, True], ids=["float32", "bfloat16"])
def test_no_layer_of_the_residual_network_changes_the_layout(rounded: bool) -> None:
    """By autograd, as on a GPU, forward and backward; also after copying, saving and loading."""
    energy = ResNet((1, 28, 28), 16)
    energy.load_state_dict(copy.deepcopy(energy).state_dict())
    with Layouts() as layouts, torch.autocast("cpu", torch.bfloat16, enabled=rounded):
        Energy.value_and_grad(energy, energy.random(4))
    assert layouts.seen > 80 and not layouts.first
