"""Runs a kernel as programs of about eight steps, which `torch.compile` makes (`Sampler.last_states(compile=True)`).

A step on few chains is a few dozen operations of microseconds each, most of which Python and torch spend on starting
them. Compiled, it is one program. Many chains gain less: there the products of matrices take the time.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies import Energy
from ebmlab.engine.kept_programs import Program
from ebmlab.engine.protocol import Kernel
from ebmlab.errors import UserError
from ebmlab.numerics.affine import by_compiler
from ebmlab.numerics.noise import wide

UNROLLED = 8  # steps of one compiled program, about: calling it takes as long as a few operations
PROGRAMS = 256  # kept, one for each kernel, energy and shape of x; by default torch stops compiling after 8
IN_CPP = torch.__version__ >= "2.14"  # whether loops are programs in C++ alone; not tried with older releases
FEW_NUMBERS = 2**12  # fewer uniform numbers a program on a CPU draws faster itself than by torch's generator
FEW_NORMAL = 2**7  # the same of normal ones, which energies of real numbers take
ONCE, SOMETIMES = 1, 4  # `reads` of `_compiled`: a product that a program writes would compute its row for each column
COMPILERS = ("g++", "clang++", "c++", "cl")
DAMAGED = ("file too short", "invalid ELF header")  # what the loader says of half a program in torch's cache


def worth_compiling(energy: Energy) -> bool:
    """Whether programs evaluate the energy, and what it is made of, as fast as it does itself.

    Example:
        >>> from ebmlab.energies import MLP, ResNet
        >>> worth_compiling(MLP(4)), worth_compiling(ResNet((1, 8, 8), channels=4))
        (True, False)
    """
    return all(module.fast_compiled for module in energy.modules() if isinstance(module, Energy))


@contextlib.contextmanager
def compiling(
    function: Callable[..., Any], energy: Energy, x: Tensor, caller: str, *, loops: bool = False
) -> Iterator[Callable[..., Any]]:
    """Gives the function as a compiled program for states such as x.

    Args:
        function: of an energy and tensors.
        energy: the one that it is called with.
        x: states `(B, *event)`.
        caller: what the user called, for errors.
        loops: whether the function has a loop of its own. On a CPU a program in C++ alone takes its turns faster.

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
    few, on_cpu = FEW_NORMAL if isinstance(energy.domain, Real) else FEW_NUMBERS, x.device.type == "cpu"
    try:
        # one program: not split for DDP, and without the checks of anomaly detection, which read values
        whole = torch._dynamo.config.patch(cache_size_limit=PROGRAMS, optimize_ddp=False)
        with whole, torch.autograd.set_detect_anomaly(False), _without_advice():
            by_torch, in_cpp = on_cpu and x.numel() >= few, on_cpu and loops and IN_CPP
            yield _compiled(function, by_torch, in_cpp, ONCE if by_compiler(x) else SOMETIMES).for_one_run()
    except torch._dynamo.exc.TorchDynamoException as error:
        lines = [line for line in str(error).splitlines() if line.strip() and not line.endswith("raised:")]
        reason = lines[0] if lines else type(error).__name__
        if any(sign in str(error) for sign in DAMAGED):
            from torch._inductor.codecache import cache_dir  # type: ignore[attr-defined]  # loads the compiler

            raise UserError(
                f"{caller}: torch's cache of programs is damaged ({reason}), as when a process was killed that wrote "
                f"to it: remove {cache_dir()}, or name another folder in TORCHINDUCTOR_CACHE_DIR"
            ) from error
        raise UserError(
            f"{caller}: {type(energy).__name__} cannot be compiled ({reason}): leave compilation out"
        ) from error


def require_compiler(device: torch.device, caller: str) -> None:
    """Raises `UserError` if programs on this device need a C++ compiler and there is none.

    Example:
        >>> require_compiler(torch.device("cuda"), "mine")
    """
    if device.type == "cpu" and os.environ.get("CXX") == "":
        raise UserError(f"{caller} needs a C++ compiler, and CXX is empty: unset it, or leave compilation out")
    if device.type == "cpu" and "CXX" not in os.environ and not any(map(shutil.which, COMPILERS)):
        raise UserError(
            f"{caller} needs a C++ compiler, and none of {', '.join(COMPILERS)} is installed: install one, or "
            "leave compilation out"
        )


class Ran(NamedTuple):
    """The result of some steps of the chains.

    Attributes:
        x: their last states, `(B, *event)`.
        acceptance: the sum over the steps, `(B,)`; None if nobody asked.
        hops: likewise.
        evaluations: the sum over the steps of what one chain costs.

    Example:
        >>> Ran(torch.zeros(2, 3)).evaluations
        0.0
    """

    x: Tensor
    acceptance: Tensor | None = None
    hops: Tensor | None = None
    evaluations: float = 0.0


@torch.no_grad()
def run_compiled(kernel: Kernel, energy: Energy, x: Tensor, num_steps: int, caller: str, report: bool = False) -> Ran:
    """Takes `num_steps` steps from x, of which each `unrolled(num_steps)` are one compiled program.

    Args:
        kernel: makes the steps.
        energy: what they sample.
        x: where they begin, `(B, *event)`.
        num_steps: how many.
        caller: what the user called, for errors.
        report: whether to add up acceptance and hops.

    Raises:
        UserError: as `compiling`, if there are enough steps for a program.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import DMALA
        >>> rbm = RBM(6, 3)
        >>> ran = run_compiled(DMALA(0.2).kernel_on(rbm), rbm, rbm.domain.random(4), 3, "mine", report=True)
        >>> ran.acceptance.shape, ran.evaluations
        (torch.Size([4]), 3.0)
    """
    settings = kernel.settings.to(x.device, torch.promote_types(x.dtype, torch.float32))
    rows = settings[torch.arange(max(num_steps, 1), device=x.device) % len(settings)]
    state = kernel.start(energy, x, rows[0].unbind(), *kernel.options)
    state = state.each(lambda tensor, _: tensor.clone(), state)  # none is another one, as in the states of programs
    sums, evaluations = (wide(x.new_zeros(2, len(x))) if report else None), 0.0
    length = unrolled(num_steps)
    blocks = torch.split(rows[:num_steps], length) if num_steps else ()
    with compiling(_several, energy, x, caller) if num_steps >= UNROLLED else contextlib.nullcontext() as program:
        for block in blocks:
            several = program if program is not None and len(block) == length else _several
            state, sums, cost = several(kernel.step, kernel.options, energy, state, sums, block)
            evaluations += cost
    acceptance, hops = (None, None) if sums is None else sums
    return Ran(state.x.contiguous(), acceptance, hops, evaluations)


def unrolled(num_steps: int) -> int:
    """The steps of a program: eight, or from five to ten if that divides the number of steps and eight does not."""
    return next((length for length in (UNROLLED, 10, 9, 7, 6, 5) if num_steps % length == 0), UNROLLED)


def _several(
    step: Callable[..., tuple[Any, Any]],
    options: tuple[Any, ...],
    energy: Energy,
    state: Any,
    sums: Tensor | None,
    settings: Tensor,
) -> tuple[Any, Tensor | None, float]:
    """Takes a step with each row of settings. `sums` are those of acceptance and hops, `(2, B)`, if asked for."""
    evaluations, reports = 0.0, []
    for row in settings.unbind():
        state, info = step(energy, state, row.unbind(), *options)
        evaluations += info.evaluations
        if sums is not None:
            reports.append(info)
    if sums is not None:
        acceptance, hops = sums.unbind()
        for info in reports:
            acceptance, hops = acceptance + info.acceptance, hops + info.hops
        sums = torch.stack([acceptance, hops])
    return state, sums, evaluations


@contextlib.contextmanager
def _without_advice() -> Iterator[None]:
    """Silences torch's warnings on programs in C++: on operations that call back into torch, and on missing CUDA."""
    loggers = [logging.getLogger(name) for name in ("torch._inductor.ir", "torch.utils.cpp_extension")]
    try:
        for logger in loggers:
            logger.addFilter(_is_error)
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_error)


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


@functools.cache
def _compiled(function: Callable[..., Any], torch_random: bool, in_cpp: bool, reads: int) -> Program:
    """The program, which draws random numbers by torch's generator or itself. The compiler is imported only here.

    What reads more than so many tensors and is used more than once is computed once, and not for each of its uses.
    """
    options = {"fallback_random": torch_random, "cpp_wrapper": in_cpp, "realize_reads_threshold": reads}
    return Program(function, options)
