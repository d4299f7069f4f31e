"""Samplers written straight down from their papers, with the cost that published programs have.

Every step evaluates the model afresh wherever a formula names it: twice forward and twice backward for the gradients at
x and y, twice forward more for the ratio p(y) / p(x). All take `f`, the log-probability of 0/1 states `(B, d)` up to a
constant, and give the states after one step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Categorical

from ebmlab.energies import GRBM

LogProb = Callable[[Tensor], Tensor]
ADJUSTED = "4 / 2"
"""Forward and backward passes of a step with a Metropolis decision."""
UNADJUSTED = "1 / 1"


def gradient(f: LogProb, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    (grad,) = torch.autograd.grad(f(x).sum(), x)
    return grad


def decide(log_ratio: Tensor, y: Tensor, x: Tensor) -> Tensor:
    accepted = (log_ratio.exp() > torch.rand_like(log_ratio)).to(x).unsqueeze(1)
    return accepted * y + (1 - accepted) * x


def flip_probability(f: LogProb, x: Tensor, step_size: float, balance: float) -> Tensor:
    """Zhang et al. 2022, Eq. 4 for 0/1 states; a balance other than 1/2 as in Pynadath et al. 2024, Eq. 6."""
    return torch.sigmoid(-balance * gradient(f, x) * (2 * x - 1) - 1 / (2 * step_size))


def dmala(f: LogProb, x: Tensor, step_size: float, balance: float = 0.5, adjusted: bool = True) -> Tensor:
    """DMALA (Zhang et al. 2022, Alg. 1), or DULA if not `adjusted`."""
    p = flip_probability(f, x, step_size, balance)
    flips = (torch.rand_like(x) < p).to(x)
    y = (1 - x) * flips + x * (1 - flips)
    if not adjusted:
        return y
    forth = torch.log(p * flips + (1 - p) * (1 - flips)).sum(1)
    p = flip_probability(f, y, step_size, balance)
    back = torch.log(p * flips + (1 - p) * (1 - flips)).sum(1)
    return decide(f(y) - f(x) + back - forth, y, x)


def acs(f: LogProb, x: Tensor, step_sizes: Tensor, balances: Tensor, k: int) -> Tensor:
    """Step k of ACS (Pynadath et al. 2024, Alg. 1): DMALA with the settings of the cycle's step."""
    k %= len(step_sizes)
    return dmala(f, x, float(step_sizes[k]), float(balances[k]))


def any_scale(f: LogProb, x: Tensor, step_size: float, balance: float, root: Tensor, diagonal: Tensor) -> Tensor:
    """AB with curvature W, D and root = (W + D)^(1/2) (Sun et al. 2023, Eq. 11 to 14), with u = A x + xi."""
    A = math.sqrt(balance) * root
    stiffness = 1 / step_size + balance * diagonal
    u = x @ A + torch.randn_like(x)

    def law(at: Tensor) -> Tensor:
        drift = balance * gradient(f, at) + (u - at @ A) @ A
        return torch.sigmoid(drift * (1 - 2 * at) - stiffness / 2)

    p = law(x)
    flips = (torch.rand_like(x) < p).to(x)
    y = (1 - x) * flips + x * (1 - flips)
    forth = torch.log(p * flips + (1 - p) * (1 - flips)).sum(1) - (u - x @ A).square().sum(1) / 2
    p = law(y)
    back = torch.log(p * flips + (1 - p) * (1 - flips)).sum(1) - (u - y @ A).square().sum(1) / 2
    return decide(f(y) - f(x) + back - forth, y, x)


def gwg(f: LogProb, x: Tensor) -> Tensor:
    """Gibbs with gradients (Grathwohl et al. 2021, Alg. 1)."""
    law = Categorical(logits=-(2 * x - 1) * gradient(f, x) / 2)
    i = law.sample()
    flip = torch.zeros_like(x).scatter_(1, i.unsqueeze(1), 1)
    y = (1 - x) * flip + x * (1 - flip)
    reverse = Categorical(logits=-(2 * y - 1) * gradient(f, y) / 2)
    return decide(f(y) - f(x) + reverse.log_prob(i) - law.log_prob(i), y, x)


def path_auxiliary(f: LogProb, x: Tensor, max_length: int) -> Tensor:
    """The path auxiliary sampler, fast version (Sun et al. 2022): one flip after the other, each drawn and masked."""
    longest = min(2 * max_length - 1, x.shape[1])
    length = torch.randint(1, longest + 1, (len(x),))
    logits = -(2 * x - 1) * gradient(f, x) / 2
    y, forth, path = x.clone(), x.new_zeros(len(x)), []
    for k in range(longest):
        law, taken = Categorical(logits=logits), k < length
        i = law.sample()
        forth += torch.where(taken, law.log_prob(i), 0.0)
        y = torch.where(taken.unsqueeze(1), y.scatter(1, i.unsqueeze(1), 1 - y.gather(1, i.unsqueeze(1))), y)
        logits = logits.scatter(1, i.unsqueeze(1), -torch.inf)
        path.append(i)
    logits, back = -(2 * y - 1) * gradient(f, y) / 2, x.new_zeros(len(x))
    for k in reversed(range(len(path))):
        law, taken, i = Categorical(logits=logits), k < length, path[k]
        back += torch.where(taken, law.log_prob(i), 0.0)
        logits = torch.where(taken.unsqueeze(1), logits.scatter(1, i.unsqueeze(1), -torch.inf), logits)
    return decide(f(y) - f(x) + back - forth, y, x)


def block_gibbs(W: Tensor, b_v: Tensor, b_h: Tensor, v: Tensor) -> Tensor:
    """A step v, h, v of an RBM, in two lines of torch."""
    h = torch.bernoulli(torch.sigmoid(v @ W + b_h))
    return torch.bernoulli(torch.sigmoid(h @ W.T + b_v))


def annealing_step(
    f: LogProb, base: LogProb, step: Callable[[LogProb, Tensor], Tensor], x: Tensor, old: float, new: float
) -> tuple[Tensor, Tensor]:
    """One temperature of AIS (Neal 2001): the increment of the log-weights, and a step at the new temperature.

    The weights are computed by separate evaluations, as in the programs of GWG and DMALA.
    """
    with torch.no_grad():
        increment = (new - old) * (f(x) - base(x))
    return increment, step(lambda y: (1 - new) * base(y) + new * f(y), x)


def gibbs_langevin(energy: GRBM, v: Tensor, h: Tensor, step_size: float, num_inner_steps: int) -> tuple[Tensor, Tensor]:
    """Gibbs-Langevin with a Metropolis decision (Liao et al. 2022, Alg. 2 with Eq. 12), step by step."""
    unit = step_size * float(energy.variance.mean())
    sizes = [unit * (1 + math.cos(math.pi * k / num_inner_steps)) / 2 for k in range(num_inner_steps)]
    old, old_h = v, h
    for alpha in sizes:
        grad = (v - energy.mu - h @ energy.W.T) / energy.variance
        v = v - alpha * grad + math.sqrt(2 * alpha) * torch.randn_like(v)
    h = torch.bernoulli(torch.sigmoid(energy.hidden_given_visible(v)))
    forth = _inner_log_density(energy, old, old_h, v, sizes) + _hidden_log_prob(energy, v, h)
    back = _inner_log_density(energy, v, h, old, sizes) + _hidden_log_prob(energy, old, old_h)
    log_ratio = energy.joint_energy(old, old_h) - energy.joint_energy(v, h) + back - forth
    accepted = (torch.rand_like(log_ratio) < log_ratio.exp()).unsqueeze(1)
    return torch.where(accepted, v, old), torch.where(accepted, h, old_h)


def _inner_log_density(energy: GRBM, v: Tensor, h: Tensor, target: Tensor, sizes: list[float]) -> Tensor:
    """Log-density at `target` after all inner steps from v given h (Eq. 11), up to a constant."""
    centre = energy.mu + h @ energy.W.T
    mean, variance = v, torch.zeros_like(energy.variance)
    for alpha in sizes:
        shrink = 1 - alpha / energy.variance
        mean, variance = centre + shrink * (mean - centre), shrink.square() * variance + 2 * alpha
    return -((target - mean).square() / variance).sum(1) / 2


def _hidden_log_prob(energy: GRBM, v: Tensor, h: Tensor) -> Tensor:
    p = torch.sigmoid(energy.hidden_given_visible(v))
    return torch.log(p * h + (1 - p) * (1 - h)).sum(1)


def gray_code(points: Tensor, num_bits: int, extent: float = 5.0) -> Tensor:
    """Points `(B, 2)` as bits `(B, num_bits)`, point by point, by strings of digits."""
    places, rows = num_bits // 2 - 1, []
    for point in points.tolist():
        digits = ""
        for value in point:
            number = min(int(abs(value) / extent * 2**places), 2**places - 1)
            digits += str(int(value < 0)) + format(number ^ (number >> 1), f"0{places}b")
        rows.append([float(digit) for digit in digits])
    return torch.tensor(rows)
