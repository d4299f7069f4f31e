"""Gradients of convolutions with few channels stay inside their memory."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
import torch

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
