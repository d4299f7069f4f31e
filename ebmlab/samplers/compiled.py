"""Chains whose steps `torch.compile` turns into one program, eight at a time, as in `Sampler.run(compile=True)`.

A step on few chains is a few dozen operations of microseconds each, most of which Python and torch spend on starting
them. Compiled, it is one program. Many chains gain less: there the products of matrices take the time.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ebmlab.energies import Energy, ResNet
from ebmlab.errors import UserError

UNROLLED = 8  # steps of one compiled program: calling it takes as long as a few operations
PROGRAMS = 256  # kept, one for each kernel, energy and shape of x; by default torch stops compiling after 8
FEW_NUMBERS = 2**12  # fewer random numbers a program on a CPU draws faster itself than by torch's generator
COMPILERS = ("g++", "clang++", "c++", "cl")

Tensors = tuple[Tensor, ...]


class PureSteps(NamedTuple):
    """A kernel as two functions of an energy, tensors and settings; the first tensor of a state is x.

    Attributes:
        start: makes the first state of x.
        step: makes the next state.
        settings: numbers that both take; those of step k are row k of `(period, numbers)`, which repeat.
        anneal: moves and weighs chains at one temperature of annealed importance sampling, such as `anneal_flips`;
            None if there is no such function.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import DMALA
        >>> rbm = RBM(4, 3)
        >>> kernel = DMALA(0.2).pure_steps(rbm)
        >>> state = kernel.start(rbm, rbm.random(5), kernel.settings[0])
        >>> kernel.step(rbm, state, kernel.settings[0])[0].shape
        torch.Size([5, 4])
    """

    start: Callable[..., Tensors]
    step: Callable[..., Tensors]
    settings: Tensor = torch.empty(1, 0)
    anneal: Callable[..., Tensors] | None = None


def worth_compiling(energy: Energy) -> bool:
    """Whether programs evaluate the energy as fast as it does itself: all but residual networks.

    Example:
        >>> from ebmlab.energies import MLP, ResNet
        >>> worth_compiling(MLP(4)), worth_compiling(ResNet((1, 8, 8), channels=4))
        (True, False)
    """
    return not any(isinstance(module, ResNet) for module in energy.modules())


@contextlib.contextmanager
def compiling(function: Callable[..., Any], energy: Energy, x: Tensor, caller: str) -> Iterator[Callable[..., Any]]:
    """Gives the function as a compiled program for states such as x.

    Args:
        function: of an energy and tensors.
        energy: the one that it is called with.
        x: states `(B, *event)`.
        caller: what the user called, for errors.

    Raises:
        UserError: the energy cannot be compiled, or there is no compiler (`require_compiler`).

    Example:
        >>> from ebmlab.energies import RBM
        >>> rbm = RBM(4, 3)
        >>> with compiling(lambda energy, x: energy(x), rbm, rbm.random(2), "mine") as program:
        ...     callable(program)
        True
    """
    require_compiler(x.device, caller)
    on_cpu = x.device.type == "cpu"
    try:
        # one program: not split for DDP, and without the checks of anomaly detection, which read values
        whole = torch._dynamo.config.patch(cache_size_limit=PROGRAMS, optimize_ddp=False)
        with whole, torch.autograd.set_detect_anomaly(False):
            yield _compiled(function, on_cpu and x.numel() >= FEW_NUMBERS)
    except torch._dynamo.exc.TorchDynamoException as error:
        lines = [line for line in str(error).splitlines() if line.strip() and not line.endswith("raised:")]
        reason = lines[0] if lines else type(error).__name__
        raise UserError(
            f"{caller}: {type(energy).__name__} cannot be compiled ({reason}): leave compilation out"
        ) from error


def require_compiler(device: torch.device, caller: str) -> None:
    """Raises `UserError` if programs on this device need a C++ compiler and there is none.

    Example:
        >>> require_compiler(torch.device("cuda"), "mine")
    """
    if device.type == "cpu" and not os.environ.get("CXX") and not any(map(shutil.which, COMPILERS)):
        raise UserError(
            f"{caller} needs a C++ compiler, and none of {', '.join(COMPILERS)} is installed: install one, or "
            "leave compilation out"
        )


@torch.no_grad()
def run_compiled(
    kernel: PureSteps, energy: Energy, x: Tensor, num_steps: int, caller: str = "run(compile=True)"
) -> Tensor:
    """The last x of `num_steps` steps, of which each `UNROLLED` are one compiled program.

    Raises:
        UserError: as `compiling`, if there are enough steps for a program.
    """
    programs = num_steps // UNROLLED
    settings = kernel.settings.to(x)
    rows = settings[torch.arange(num_steps, device=x.device) % len(settings)]
    state = kernel.start(energy, x.clone(), settings[0])
    if programs:
        with compiling(_several, energy, x, caller) as several:
            for block in rows[: programs * UNROLLED].view(programs, UNROLLED, rows.shape[1]):
                state = several(kernel.step, energy, state, block)
    for row in rows[programs * UNROLLED :]:
        state = kernel.step(energy, state, row)
    return state[0].contiguous()


def _several(step: Callable[..., Tensors], energy: Energy, state: Tensors, settings: Tensor) -> Tensors:
    for row in settings.unbind():
        state = step(energy, state, row)
    return state


@functools.cache
def _compiled(function: Callable[..., Any], torch_random: bool) -> Any:
    """The program, which draws random numbers by torch's generator or itself. The compiler is imported only here."""
    return torch.compile(function, fullgraph=True, dynamic=False, options={"fallback_random": torch_random})
