"""`python -m benchmarks.exact_starts`: exact tests of kernels at full size, and the smallest bias that they detect.

`ebmlab.testing.exact_starts` has the tests, `ebmlab.testing.planted` the models. Irreversible kernels have a sharper
test on planted RBMs: `planted_pivots` are N(0, 1).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.energies import RGCN, ResNet
from ebmlab.samplers import ACS, DMALA, GWG, BlockGibbs, Sampler
from ebmlab.testing import Tilted, planted_rbm
from ebmlab.testing.exact_starts import (
    POWER,
    REJECT,
    signed_rank_z,
    smallest_bias,
    smallest_difference,
    two_sample_z,
)
from ebmlab.testing.planted import SCALE


def planted_rises(kernels: dict[str, Sampler], num_models: int, num_steps: int = 4) -> dict[str, Tensor]:
    """By how much each kernel raises E, `(num_models,)`: a chain on each of so many planted RBMs, 784-500.

    Eight chains start at the same exact state and only the first counts, so that a kernel shows which mixes up the
    chains of a batch.
    """
    rises: dict[str, list[Tensor]] = {name: [] for name in kernels}
    for _ in range(num_models):
        rbm, v, _ = planted_rbm()
        before = rbm(v)
        for name, kernel in kernels.items():
            end, _ = kernel.sample(rbm, v.expand(8, -1).clone(), num_steps)
            rises[name].append(rbm(end[:1]) - before)
    return {name: torch.cat(values) for name, values in rises.items()}


def planted_pivots(kernel: Sampler, num_models: int, num_steps: int) -> Tensor:
    """(v'Wh - s^2 n_v n_h) / (s sqrt(n_v n_h)) at the ends `(num_models,)`, h drawn given v.

    W - s^2 v h' is noise of standard deviation s, independent of an exact state (v, h), which makes it N(0, 1).
    """
    values = []
    for _ in range(num_models):
        rbm, v, _ = planted_rbm()
        end, _ = kernel.sample(rbm, v, num_steps)
        h = torch.bernoulli(torch.sigmoid(end @ rbm.W + rbm.b_h))
        pairs = end.sum() * h.sum()
        values.append((end @ rbm.W @ h.T - SCALE**2 * pairs) / (SCALE * pairs.sqrt()))
    return torch.cat(values).flatten()


def main() -> None:
    """Prints a row of the table for every kernel and model."""
    torch.manual_seed(0)
    print("| model | kernel | test | chains | z | smallest bias, nats |\n|---|---|---|---|---|---|")

    def row(model: str, kernel: str, test: str, n: int, z: float, bias: float) -> None:
        print(f"| {model} | {kernel} | {test} | {n} | {z:.2f} | {bias:.2g} |", flush=True)

    rbms = {"DMALA(0.25)": DMALA(0.25), "GWG(20)": GWG(20), "BlockGibbs()": BlockGibbs()}
    for name, rise in planted_rises(rbms, 120).items():
        row("RBM 784-500", f"{name}, 4 steps", "signed rank", len(rise), signed_rank_z(rise), smallest_bias(rise))
    pivots = planted_pivots(cycle(), 200, 4)
    nats = SCALE * (784 / 2 * 500 / 2) ** 0.5
    z, bias = float(pivots.mean()) * 200**0.5, (REJECT + POWER) / 200**0.5 * nats
    row("RBM 784-500", "ACS, a cycle of 4", "pivot", 200, z, bias)
    for model, network, n in (("RGCN, 18 nodes", RGCN(18), 500), ("ResNet 28x28, 64 channels", ResNet((28, 28)), 250)):
        energy = Tilted(network, 0.2)
        x = energy.sample(n)
        before = energy(x).detach()
        for name, kernel in (("DMALA(0.25)", DMALA(0.25)), ("GWG(5)", GWG(5))):
            rise = energy(kernel.sample(energy, x, 4)[0]).detach() - before
            row(model, f"{name}, 4 steps", "signed rank", n, signed_rank_z(rise), smallest_bias(rise))
        ends, fresh = energy(cycle().sample(energy, x, 4)[0]).detach(), energy(energy.sample(n)).detach()
        row(model, "ACS, a cycle of 4", "two samples", n, two_sample_z(ends, fresh), smallest_difference(fresh))


def cycle() -> ACS:
    """Four steps of different sizes in a fixed order: each is reversible, the cycle is not."""
    return ACS(step_sizes=[0.4, 0.3, 0.2, 0.1], balances=[0.7, 0.6, 0.5, 0.5])


if __name__ == "__main__":
    main()
