"""Points in the plane coded in bits: models of binary data on them can be drawn in two dimensions."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from ebmlab.data.interface import Points
from ebmlab.datamodules.shapes_2d import SHAPES
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.domains import Binary
from ebmlab.errors import UserError
from ebmlab.numerics.streams import stream
from ebmlab.settings import require_choice, require_count

_BELOW_ONE = math.nextafter(1, 0)


class GrayCode2D(TensorDataModule):
    """Points of a density in the plane, each coordinate in Gray code (Liu et al. 2023, Sec. 5.1; Dai et al. 2020).

    A point has `num_bits` bits, those of its first coordinate first. A coordinate's bits are its sign (1 is negative)
    and the Gray code of |coordinate| / 5. That is a number in [0, 1), with num_bits / 2 - 1 binary places. Neighbouring
    cells of a coordinate therefore differ in one bit, across zero too. Coordinates of 5 or more are coded as if they
    were just below 5. Float64 has 53 binary places for the magnitude; further places are 0.

    The validation and test splits are new draws, a tenth as many as for training.

    Args:
        shape: the density: 2spirals, 8gaussians, circles, moons, pinwheel, swissroll or checkerboard.
        num_bits: number of bits of a point; even and at least 4.
        num_samples: number of training points.
        batch_size: points per batch and process.
        seed: of the points and of the order of the training batches.

    Example:
        >>> data = GrayCode2D("moons", num_bits=32, num_samples=100)
        >>> points = torch.tensor([[1.25, -0.5]])
        >>> data.encode(points).shape, (data.decode(data.encode(points)) - points).abs().max().item() < 1e-3
        (torch.Size([1, 32]), True)
    """

    domains = (Binary,)
    name = "gray_code_2d"
    max_value = 1.0
    extent = 5.0
    """Coordinates between -extent and extent are coded without clipping."""

    def __init__(
        self,
        shape: Literal[
            "2spirals", "8gaussians", "circles", "moons", "pinwheel", "swissroll", "checkerboard"
        ] = "2spirals",
        num_bits: int = 32,
        *,
        num_samples: int = 100_000,
        batch_size: int = 128,
        seed: int = 0,
    ) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__((num_bits,), batch_size, seed=seed, binarize=True)
        require_choice("GrayCode2D", SHAPES, shape=shape)
        if num_bits < 4 or num_bits % 2:
            raise UserError(f"GrayCode2D: num_bits is {num_bits}; it must be even and at least 4")
        require_count("GrayCode2D", least=10, num_samples=num_samples)  # a tenth as many validate
        self.shape = shape
        self.num_bits = num_bits
        self.num_samples = num_samples

    def load(self, split: str) -> tuple[Tensor, None]:
        """The split's bits, uint8 `(N, num_bits)`, which depend on shape, seed and split alone."""
        n = self.num_samples if split == "train" else self.num_samples // 10
        points = self.sample(n, stream("gray_code", self.shape, self.seed, split))
        return self._bits(points).byte(), None

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws new points of the density `(n, 2)`, float64, from the global generator by default."""
        return SHAPES[self.shape](n, generator)

    def encode(self, points: Tensor) -> Tensor:
        """Points `(B, 2)` to bits `(B, num_bits)`, float32."""
        if points.dim() != 2 or points.shape[1] != 2:
            raise UserError(f"GrayCode2D: points to encode have shape {tuple(points.shape)}; it must be (B, 2)")
        if not points.isfinite().all():
            raise UserError("GrayCode2D: points to encode hold NaN or infinity; all must be finite")
        return self._bits(points.double()).float()

    def decode(self, bits: Tensor) -> Tensor:
        """Bits `(B, num_bits)` to the centres of their cells, points `(B, 2)`, float64."""
        bits = bits.double()
        Binary(self.num_bits).validate(bits)
        code = bits.reshape(len(bits), 2, self.num_bits // 2)
        digits = code[..., 1:].cumsum(2) % 2
        magnitude = torch.full_like(code[..., 0], 0.5)  # half of the last place, which gives the centre of the cell
        for digit in digits.unbind(2)[::-1]:
            magnitude = (magnitude + digit) / 2
        return (1 - 2 * code[..., 0]) * magnitude * self.extent

    def show(self, x: Tensor) -> Points:
        """The points that the codes stand for; means of bits are rounded to codes."""
        return Points(self.decode(x.round()), self.extent)

    def _bits(self, points: Tensor) -> Tensor:
        """The code as booleans `(B, num_bits)`, which take an eighth of the memory of float64."""
        rest = (points.abs() / self.extent).clamp_max(_BELOW_ONE)
        code, last = [points < 0], torch.zeros_like(rest)
        for _ in range(self.num_bits // 2 - 1):  # doubling a float is exact, and so is taking away its integer part
            rest = 2 * rest
            digit = rest.floor()
            rest = rest - digit
            code.append(digit != last)
            last = digit
        return torch.stack(code, 2).flatten(1)
