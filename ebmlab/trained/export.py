"""An energy as a program that runs without ebmlab."""

from __future__ import annotations

import copy
import io
import logging
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from ebmlab.energies import Energy
from ebmlab.errors import UNFIT, WHY, UserError, explained
from ebmlab.extras import require
from ebmlab.io.files import write_whole


def _log_sigmoid(x: Tensor) -> Tensor:
    return -softplus(-x)


def _log_sigmoid_forward(x: Tensor) -> tuple[Tensor, Tensor]:
    return -softplus(-x), x.new_zeros(0)  # the second is for a backward pass


def _logaddexp(x: Tensor, y: Tensor) -> Tensor:
    larger = torch.maximum(x, y)
    sum_of_both = larger + softplus(-(x - y).abs())
    return torch.where(x == y, larger + 0.6931471805599453, sum_of_both)  # also where both are infinite


def _log1p(x: Tensor) -> Tensor:
    """log(1 + x), by 2 artanh(x / (2 + x)) where 1 + x would lose digits of x."""
    near = x.clamp(-0.5, 0.5)
    return torch.where(x.abs() < 0.5, 2 * (near / (2 + near)).atanh(), (1 + x).log())


def _expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, by t = tanh(x / 2) as 2t / (1 - t) where the difference would lose digits."""
    t = (x.clamp(-0.5, 0.5) / 2).tanh()
    return torch.where(x.abs() < 0.5, 2 * t / (1 - t), x.exp() - 1)


def _log_erfcx(turned: Any) -> Any:
    t = (1 + turned) / 2
    return np.log(torch.special.erfcx(torch.from_numpy(2 / t - 2)).numpy() / t)


SERIES = np.polynomial.chebyshev.chebinterpolate(_log_erfcx, 16).tolist()


def _erfcx(x: Tensor) -> Tensor:
    """exp(x^2) erfc(x): Chebyshev's series of log(erfcx(z) / t) in t = 1 / (1 + z / 2), for z = |x|."""
    t = 1 / (1 + x.abs() / 2)
    turned, later, last = 2 * t - 1, torch.zeros_like(x), torch.zeros_like(x)
    first, *rest = SERIES
    for term in reversed(rest):  # Clenshaw's sum
        later, last = 2 * turned * later - last + term, later
    mirrored = t * (turned * later - last + first).exp()
    return torch.where(x < 0, 2 * x.clamp(max=0).square().exp() - mirrored, mirrored)


def _log_ndtr(x: Tensor) -> Tensor:
    below, above = x.clamp(max=0), x.clamp(min=0)
    tail = (_erfcx(-below / math.sqrt(2)) / 2).log() - below.square() / 2
    return torch.where(x < 0, tail, ((1 + torch.erf(above / math.sqrt(2))) / 2).log())


STABLE: dict[Any, Any] = {
    torch.ops.aten.log_sigmoid.default: _log_sigmoid,
    torch.ops.aten.log_sigmoid_forward.default: _log_sigmoid_forward,
    torch.ops.aten.logaddexp.default: _logaddexp,
    torch.ops.aten.special_erfcx.default: _erfcx,
    torch.ops.aten.special_log_ndtr.default: _log_ndtr,
    torch.ops.aten.log1p.default: _log1p,
    torch.ops.aten.expm1.default: _expm1,
}
"""Functions that torch writes into ONNX as exp, erf and log, which overflow or cancel; here without either."""

MADE_OF_THEM = (
    torch.ops.aten.binary_cross_entropy_with_logits.default,
    torch.ops.aten.special_xlog1py.default,
)
"""Functions that torch takes apart into those of `STABLE` while it writes ONNX; here before."""


def export_energy(energy: Energy, path: Path) -> None:
    """Writes E(x) of states `(n, *event)` as a program, for any number n of states.

    Args:
        energy: E; its parameters become constants of the program.
        path: ends in .pt2, which `torch.export.load` reads, or in .onnx. A program in ONNX takes and gives float32:
            of float64 its runtimes have too few functions.

    Raises:
        UserError: the ending is another, a package is missing, or the energy cannot be exported.
    """
    if path.suffix not in (".pt2", ".onnx"):
        raise UserError(f"{path} must end in .pt2 or .onnx")
    if path.suffix == ".onnx":
        require(str(path), "onnx", "onnxscript")
    if path.suffix == ".onnx" and energy.dtype != torch.float32:
        energy = copy.deepcopy(energy).float()
    with (
        explained(f"{type(energy).__name__} cannot be exported: {WHY}", UNFIT),
        warnings.catch_warnings(action="ignore"),
    ):
        program = _program(energy.eval())
        content = _onnx(program) if path.suffix == ".onnx" else _pt2(program)
    write_whole(path, content)


def _program(energy: Energy) -> torch.export.ExportedProgram:
    """The program for any number of states.

    Where `forward` runs as it is, `len(x)` is the number of states of the example. Only its translated code keeps the
    number open, but not every function can be translated.
    """
    x, number = energy.random(3), torch.export.Dim("n", min=1)
    try:
        return torch.export.export(energy, (x,), dynamic_shapes=({0: number},), strict=False)
    except UNFIT:
        return torch.export.export(energy, (x,), dynamic_shapes=({0: number},), strict=True)


def _pt2(program: torch.export.ExportedProgram) -> bytes:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def _onnx(program: torch.export.ExportedProgram) -> bytes:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    parts = torch.export.default_decompositions()
    program = program.run_decompositions({operator: parts[operator] for operator in MADE_OF_THEM} | STABLE)
    made: Any = torch.onnx.export(program, (), external_data=False, verbose=False)
    content: bytes = made.model_proto.SerializeToString()
    return content
