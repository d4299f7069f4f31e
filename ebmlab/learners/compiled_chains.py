"""Which chains of a training can be compiled, or recorded as a CUDA graph."""

from __future__ import annotations

import torch

from ebmlab.energies import Energy
from ebmlab.engine import UNROLLED, require_compiler
from ebmlab.errors import UserError
from ebmlab.learners.changes_with_training import ChangesWithTraining
from ebmlab.samplers import Sampler


def check_compilation(
    energy: Energy, sampler: Sampler, *, device: torch.device, num_steps: int, burn_in: int, density: str
) -> None:
    """Raises `UserError` unless `compile_chains` of `ContrastiveDivergence`, with its settings, works on a device."""
    if device.type == "cuda":
        if isinstance(sampler, ChangesWithTraining):
            raise UserError(
                f"compile_chains: {type(sampler).__name__} changes with the training, but a GPU records its steps "
                "once: set compile_chains to false"
            )
        return
    sampler.require_compilable(energy, "compile_chains")
    require_compiler(device, "compile_chains")
    if density == "joint" or burn_in < num_steps - 1:
        raise UserError(
            f'compile_chains keeps the last state alone, without hidden units, but density is "{density}" and '
            f'burn_in {burn_in}: it needs "marginal" and {num_steps - 1} (num_steps - 1, or null)'
        )
    if num_steps < UNROLLED:
        raise UserError(
            f"compile_chains makes one program of {UNROLLED} steps, but num_steps is {num_steps}: raise it, or set "
            "compile_chains to false"
        )
