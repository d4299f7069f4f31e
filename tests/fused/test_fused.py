"""Kernels in Triton: their tests on its interpreter, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from helpers_fused import DEVICE

from ebmlab.energies import MLP, RBM, Energy
from ebmlab.errors import UserError
from ebmlab.fused import Fused
from ebmlab.fused.interpreter import interpreted
from ebmlab.samplers import DMALA, GWG, BlockGibbs, Sampler

ROOT = Path(__file__).parents[2]
TRITON = find_spec("triton") is not None


@pytest.mark.skipif(not TRITON, reason="triton is not installed")
@pytest.mark.skipif(interpreted(), reason="this is the interpreter")
@pytest.mark.parametrize("tier", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_on_the_interpreter(tier: str) -> None:
    """In a process of its own, as Triton reads the variable when it is imported."""
    command = [sys.executable, "-m", "pytest", "-q", "--assert=plain", "-p", "no:cacheprovider", "-m", tier]
    command.append(str(Path(__file__).parent))
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


class Derived(RBM):
    pass


@pytest.mark.parametrize(
    ("sampler", "energy", "message"),
    [
        (GWG(), RBM(4, 3), "no kernel for GWG on RBM, but for DMALA on RBM"),
        (DMALA(0.1), MLP(4), "no kernel for DMALA on MLP"),
        (DMALA(0.1), Derived(4, 3), "no kernel for DMALA on Derived"),
        (BlockGibbs(), MLP(4), "BlockGibbs needs a bipartite energy"),
    ],
)
def test_other_pairs_are_refused(sampler: Sampler, energy: Energy, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Fused(sampler).sample(energy, energy.random(2), 1)


@pytest.mark.skipif(DEVICE == "cuda" or interpreted(), reason="needs a process without GPU and interpreter")
def test_an_energy_on_a_cpu_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"on an NVIDIA GPU, but it is on cpu: call cuda\(\)" if TRITON else "needs triton"
    ):
        Fused(DMALA(0.1)).sample(RBM(4, 3), RBM(4, 3).random(2), 1)


@pytest.mark.skipif(not TRITON or (DEVICE == "cpu" and not interpreted()), reason="needs Triton")
@pytest.mark.parametrize(
    ("sampler", "energy", "message"),
    [
        (DMALA(0.1), RBM(4, 3, hidden="gaussian"), "those of this RBM are not: leave Fused out"),
        (BlockGibbs(), RBM(4, 3, hidden="rectified"), "those of this RBM are not: leave Fused out"),
        (DMALA(0.1, precondition=torch.ones(4)), RBM(4, 3), "DMALA without precondition, window and stochastic"),
        (DMALA(0.1), RBM(4, 3).double(), r"computes in float32, but RBM is in torch.float64: call float\(\)"),
    ],
)
def test_what_kernels_do_not_know_is_refused(sampler: Sampler, energy: Energy, message: str) -> None:
    energy = energy.to(DEVICE)
    with pytest.raises(UserError, match=message):
        Fused(sampler).to(DEVICE).sample(energy, energy.random(2), 1)
