"""Steps as functions of tensors alone, which `torch.compile` turns into one program (`Sampler.run(compile=True)`).

A step on few chains is a few dozen operations of microseconds each, most of which Python and torch spend on starting
them. Compiled, it is one program. Many chains gain less: there the products of matrices take the time.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ebmlab.domains import Binary
from ebmlab.energies import Bipartite, Energy, ResNet
from ebmlab.errors import UserError
from ebmlab.noise import wide

UNROLLED = 8  # steps of one compiled program: calling it takes as long as a few operations
PROGRAMS = (
    256  # kept: one for each kernel, its settings, energy and shape of x; beyond torch's own 8 it stops compiling
)
COMPILERS = ("g++", "clang++", "c++", "cl")

Tensors = tuple[Tensor, ...]


def closed_gradient(energy: Energy) -> bool:
    """Whether the energy has a gradient in closed form; autograd would break a compiled program into pieces.

    Example:
        >>> from ebmlab.energies import MLP, RBM
        >>> closed_gradient(RBM(4, 3)), closed_gradient(MLP(4))
        (True, False)
    """
    return type(energy).value_and_grad not in (Energy.value_and_grad, ResNet.value_and_grad)


class PureSteps(NamedTuple):
    """A kernel as two functions of an energy, tensors and numbers; the first tensor of a state is x.

    Attributes:
        start: makes the first state of x.
        step: makes the next state.
        settings: numbers that both take.

    Example:
        >>> from ebmlab.energies import RBM
        >>> rbm = RBM(4, 3)
        >>> kernel = PureSteps(start_gibbs, step_gibbs, ())
        >>> kernel.step(rbm, kernel.start(rbm, rbm.random(5)))[0].shape
        torch.Size([5, 4])
    """

    start: Callable[..., Tensors]
    step: Callable[..., Tensors]
    settings: tuple[float, ...]


@torch.no_grad()
def run_compiled(kernel: PureSteps, energy: Energy, x: Tensor, num_steps: int) -> Tensor:
    """The last x of `num_steps` steps, of which each `UNROLLED` are one compiled program.

    Raises:
        UserError: x is on a CPU, for which there is no C++ compiler.
    """
    needed = x.device.type == "cpu" and num_steps >= UNROLLED
    if needed and not os.environ.get("CXX") and not any(map(shutil.which, COMPILERS)):
        raise UserError(
            f"run(compile=True) needs a C++ compiler, and none of {', '.join(COMPILERS)} is installed: install one, or "
            "leave compile out"
        )
    state = kernel.start(energy, x.clone(), *kernel.settings)
    compiled = _compiled()
    with torch._dynamo.config.patch(cache_size_limit=PROGRAMS):
        for _ in range(num_steps // UNROLLED):
            state = compiled(kernel.step, energy, state, kernel.settings)
    for _ in range(num_steps % UNROLLED):
        state = kernel.step(energy, state, *kernel.settings)
    return state[0]


def _several(step: Callable[..., Tensors], energy: Energy, state: Tensors, settings: tuple[float, ...]) -> Tensors:
    for _ in range(UNROLLED):
        state = step(energy, state, *settings)
    return state


@functools.cache
def _compiled() -> Any:
    return torch.compile(_several, dynamic=False)  # not before it is needed: it imports the compiler


def start_langevin(energy: Energy, x: Tensor, alpha: float, beta: float) -> Tensors:
    """x, E(x), the logits of a flip there, and the normaliser of the proposal, of discrete Langevin on two values."""
    value, grad = energy.value_and_grad(x)
    binary = isinstance(energy.domain, Binary)
    fall = (x - 0.5) * grad if binary else x * grad
    logits = 2 * beta * fall - (0.5 if binary else 2.0) / alpha
    return x, value, logits, softplus(logits).flatten(1).sum(1)


def step_langevin(energy: Energy, state: Tensors, alpha: float, beta: float) -> Tensors:
    """`langevin_chain` of two_values.py with one step size and balance."""
    x, value, logits, normaliser = state
    flips = _bits(logits)
    y = (x - flips).abs() if isinstance(energy.domain, Binary) else x - 2 * x * flips
    there = start_langevin(energy, y, alpha, beta)
    _, value_y, logits_y, normaliser_y = there
    back_minus_forth = ((logits_y - logits) * flips).flatten(1).sum(1) - normaliser_y + normaliser
    return _accepted(value - value_y + back_minus_forth, there, state)


def start_gwg(energy: Energy, x: Tensor) -> Tensors:
    """x, E(x), and the log-probabilities of the coordinate that Gibbs with gradients flips, on two values."""
    value, grad = energy.value_and_grad(x)
    fall = (x - 0.5) * grad if isinstance(energy.domain, Binary) else x * grad
    return x, value, fall.flatten(1).log_softmax(1)


def step_gwg(energy: Energy, state: Tensors) -> Tensors:
    """`gwg_chain` of two_values.py."""
    x, value, log_law = state
    cdf = wide(log_law).exp().cumsum(1)
    level = torch.rand_like(cdf[:, -1:]) * cdf[:, -1:]
    chosen = (cdf <= level).sum(1, keepdim=True).clamp(max=log_law.shape[1] - 1)
    flat = x.flatten(1)
    old = flat.gather(1, chosen)
    y = flat.scatter(1, chosen, 1 - old if isinstance(energy.domain, Binary) else -old).view_as(x)
    there = start_gwg(energy, y)
    back_minus_forth = (there[2].gather(1, chosen) - log_law.gather(1, chosen)).squeeze(1)
    return _accepted(value - there[1] + back_minus_forth, there, state)


def start_gibbs(energy: Bipartite, x: Tensor) -> Tensors:
    """A state of x alone: block Gibbs keeps nothing else."""
    return (x,)


def step_gibbs(energy: Bipartite, state: Tensors) -> Tensors:
    """Hidden units given x, and x given them, both binary."""
    logits = energy.visible_given_hidden(_bits(energy.hidden_given_visible(state[0])))
    assert isinstance(logits, Tensor)
    return (_bits(logits),)


def _bits(logits: Tensor) -> Tensor:
    p = wide(torch.sigmoid(logits))
    return (torch.rand_like(p) < p).to(logits.dtype)


def _accepted(log_ratio: Tensor, new: Tensors, old: Tensors) -> Tensors:
    """Chain by chain the new state with probability min(1, exp(log_ratio)), else the old one."""
    accept = torch.rand_like(log_ratio) < log_ratio.clamp(max=0).exp()
    return tuple(torch.where(accept.view(-1, *[1] * (a.dim() - 1)), a, b) for a, b in zip(new, old, strict=True))
