"""`python -m benchmarks.exact_starts`: exact tests of kernels at full size, and the smallest bias that they detect.

Z of these models is out of reach, but states of their laws are not:

- `planted_rbm`: an RBM of any size, drawn together with one exact state of its own law. With W_ij ~ N(0, s^2) as the
  prior, the joint law of (W, v, h) is proportional to prior(W) exp(v'W h + b n_v + c n_h), where n_v and n_h count the
  ones. Given W, it is the RBM's law of (v, h). Given (v, h), W is Gaussian: N(s^2 v h', s^2). The marginal law of
  (v, h) depends on the two counts alone: C(V, n_v) C(H, n_h) exp(b n_v + c n_h + s^2 n_v n_h / 2), a table. So one
  draws the counts, then which units are on, then W.
- `Tilted`: independent bits times sigmoid(u(x)), with any network u. Exact draws are bits that are accepted with
  probability sigmoid(u(x)): no bound of the network is needed.

A kernel that leaves the law invariant must leave what follows true, in any dimension and after any number of steps
(Gandy & Scott 2021, Unit testing for MCMC and other Monte Carlo methods):

- Reversible kernels: start and end of a chain from an exact state are exchangeable. So the rise of any function is
  symmetric about 0, and the signed-rank statistic over its standard deviation exceeds t with probability at most
  2 exp(-t^2 / 2), by Hoeffding's inequality and without approximation: their rank test of a chain of two states.
- Irreversible kernels: the ends are as good as fresh draws. `two_sample_z` compares the ranks of a function of the
  ends with those of other, fresh draws. On planted RBMs, `planted_pivots` are N(0, 1).
"""

from __future__ import annotations

import math
from functools import cache

import torch
from scipy.stats import rankdata
from torch import Tensor
from torch.nn.functional import logsigmoid

from ebmlab.domains import Binary
from ebmlab.energies import RBM, RGCN, Energy, ResNet
from ebmlab.samplers import ACS, DMALA, GWG, BlockGibbs, Sampler

REJECT = 4.46  # 2 exp(-t^2 / 2) < 1e-4
SCALE = 0.08  # of the planted weights: the hidden units' inputs have a standard deviation of 1.6


def planted_rbm(num_visible: int = 784, num_hidden: int = 500, scale: float = SCALE) -> tuple[RBM, Tensor, Tensor]:
    """An RBM with weights of standard deviation `scale`, and one exact state `(1, V)`, `(1, H)` of its joint law.

    The biases put the most likely counts at one half of the units. Scales below 2 / (V H)^(1/4) keep them there.
    """
    bias_v, bias_h = -(scale**2) / 4 * num_hidden, -(scale**2) / 4 * num_visible
    cell = int(torch.searchsorted(_counts(num_visible, num_hidden, scale), torch.rand((), dtype=torch.float64)))
    v, h = torch.zeros(1, num_visible), torch.zeros(1, num_hidden)
    v[0, torch.randperm(num_visible)[: cell // (num_hidden + 1)]] = 1
    h[0, torch.randperm(num_hidden)[: cell % (num_hidden + 1)]] = 1
    rbm = RBM(num_visible, num_hidden).requires_grad_(False)
    rbm.W.normal_(0, scale).add_(scale**2 * v.T @ h)
    rbm.b_v.fill_(bias_v)
    rbm.b_h.fill_(bias_h)
    return rbm, v, h


@cache
def _counts(num_visible: int, num_hidden: int, scale: float) -> Tensor:
    """Distribution function of the cell n_v (H + 1) + n_h."""
    n_v = torch.arange(num_visible + 1, dtype=torch.float64)
    n_h = torch.arange(num_hidden + 1, dtype=torch.float64)
    row = -torch.lgamma(n_v + 1) - torch.lgamma(num_visible - n_v + 1) - scale**2 / 4 * num_hidden * n_v
    column = -torch.lgamma(n_h + 1) - torch.lgamma(num_hidden - n_h + 1) - scale**2 / 4 * num_visible * n_h
    table = row[:, None] + column + scale**2 / 2 * n_v[:, None] * n_h
    return table.flatten().softmax(0).cumsum(0)


class Tilted(Energy):
    """E(x) = -log Bernoulli(x; p) - log sigmoid(u(x)), with u = (centre - network(x)) / width.

    Args:
        network: an energy on bits, here any function.
        density: p.
        strength: standard deviation of u over independent bits.
    """

    def __init__(self, network: Energy, density: float = 0.5, strength: float = 3.0) -> None:
        super().__init__()
        assert isinstance(network.domain, Binary)
        self.domain, self.network, self.density = network.domain, network.requires_grad_(False), density
        values = self.function(self.bits(200))
        self.centre, self.width = values.median(), values.std() / strength

    def bits(self, n: int) -> Tensor:
        """Independent bits `(n, *event)`."""
        return (torch.rand(n, *self.domain.event_shape) < self.density).float()

    def function(self, x: Tensor) -> Tensor:
        """The network at x, `(B,)`, without gradients."""
        with torch.no_grad():
            value: Tensor = self.network(x)
        return value

    def forward(self, x: Tensor) -> Tensor:
        bits = -x.flatten(1).sum(1) * math.log(self.density / (1 - self.density))
        return bits - logsigmoid((self.centre - self.network(x)) / self.width)

    def draw(self, n: int) -> Tensor:
        """Exact, independent states `(n, *event)`."""
        kept = [torch.empty(0, *self.domain.event_shape)]
        while sum(map(len, kept)) < n:
            x = self.bits(n)
            accept = torch.sigmoid((self.centre - self.function(x)) / self.width)
            kept.append(x[torch.rand(n) < accept])
        return torch.cat(kept)[:n]


def signed_rank_z(rise: Tensor) -> float:
    """Wilcoxon's signed-rank statistic of `(n,)` numbers over its standard deviation, without those that are 0."""
    rise = rise[rise != 0].double()
    ranks = torch.from_numpy(rankdata(rise.abs().numpy()))
    return float((rise.sign() * ranks).sum() / ranks.square().sum().sqrt()) if len(rise) else 0.0


def two_sample_z(ends: Tensor, fresh: Tensor) -> float:
    """The rank sum of the ends `(n,)` among ends and fresh draws `(m,)`, standardised (Mann & Whitney)."""
    n, m = len(ends), len(fresh)
    ranks = rankdata(torch.cat([ends, fresh]).double().numpy())
    return float((ranks[:n].sum() - n * (n + m + 1) / 2) / math.sqrt(n * m * (n + m + 1) / 12))


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


def smallest_bias(rise: Tensor) -> float:
    """The mean rise that `signed_rank_z` rejects with probability 0.95, if it comes on top of rises like these.

    The statistic of n shifted normal numbers grows by sqrt(3 / pi) sqrt(n) shifts, in standard deviations.
    """
    moved = rise[rise != 0]
    return float(len(moved) / len(rise) * moved.std() * (REJECT + 1.645) / math.sqrt(3 / math.pi * len(moved)))


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
    nats = SCALE * math.sqrt(784 / 2 * 500 / 2)
    z, bias = float(pivots.mean()) * 200**0.5, (REJECT + 1.645) / 200**0.5 * nats
    row("RBM 784-500", "ACS, a cycle of 4", "pivot", 200, z, bias)
    for model, network, n in (("RGCN, 18 nodes", RGCN(18), 500), ("ResNet 28x28, 64 channels", ResNet((28, 28)), 250)):
        energy = Tilted(network, 0.2)
        x = energy.draw(n)
        before = energy(x).detach()
        for name, kernel in (("DMALA(0.25)", DMALA(0.25)), ("GWG(5)", GWG(5))):
            rise = energy(kernel.sample(energy, x, 4)[0]).detach() - before
            row(model, f"{name}, 4 steps", "signed rank", n, signed_rank_z(rise), smallest_bias(rise))
        ends, fresh = energy(cycle().sample(energy, x, 4)[0]).detach(), energy(energy.draw(n)).detach()
        bias = float(fresh.std()) * (REJECT + 1.645) / math.sqrt(3 / math.pi * n / 2)
        row(model, "ACS, a cycle of 4", "two samples", n, two_sample_z(ends, fresh), bias)


def cycle() -> ACS:
    """Four steps of different sizes in a fixed order: each is reversible, the cycle is not."""
    return ACS(step_sizes=[0.4, 0.3, 0.2, 0.1], balances=[0.7, 0.6, 0.5, 0.5])


if __name__ == "__main__":
    main()
