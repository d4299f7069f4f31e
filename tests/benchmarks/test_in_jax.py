"""The JAX samplers in the benchmarks draw from the same laws as ebmlab's samplers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers_finite import Exact
from helpers_grbm import PASS

from ebmlab.energies import RBM

pytest.importorskip("jax")

from benchmarks import in_jax


def _rbm() -> RBM:
    energy = RBM(3, 2)
    with torch.no_grad():
        energy.W.copy_(torch.tensor([[1.2, -0.7], [-0.4, 0.9], [0.8, 1.5]]))
        energy.b_v.copy_(torch.tensor([0.3, -0.8, 0.1]))
        energy.b_h.copy_(torch.tensor([-0.5, 0.2]))
    return energy


@pytest.mark.parametrize("kernel", ["dmala", "gwg", "block_gibbs"])
def test_kernels_leave_the_law_invariant_and_converge_to_it(kernel: str) -> None:
    energy = _rbm()
    exact = Exact(energy.double())
    energy.float()
    parameters = (energy.W, energy.b_v, energy.b_h)
    density = in_jax.rbm(*parameters)
    torch.manual_seed(0)
    for x, steps in ((exact.sample(200_000), 3), (exact.states[:1].expand(20_000, -1), 90)):
        x = x.float().contiguous().numpy()
        state: Any = x if kernel == "block_gibbs" else in_jax.start(density, x)
        step = in_jax.block_gibbs(*parameters) if kernel == "block_gibbs" else None
        step = step or (in_jax.dmala(density, 0.4, 0.6) if kernel == "dmala" else in_jax.gwg(density))
        after = in_jax.runner(step, state, steps)()
        after = after if kernel == "block_gibbs" else after[0]
        assert exact.p_value(torch.from_numpy(np.array(after))) > PASS


def test_langevin_has_the_variance_of_its_linear_recursion() -> None:
    import jax.numpy as jnp

    h = 0.1
    x = in_jax.runner(in_jax.langevin(lambda y: y, h), jnp.zeros((200_000, 1)), 200)()
    variance = 2 * h / (1 - (1 - h) ** 2)
    assert abs(float(x.var()) / variance - 1) < 5 * (2 / 200_000) ** 0.5
