"""Sweeps of the square lattice with one bit a spin: 32 spins of a row are redrawn by operations on one word.

Neighbours are counted by full adders on words (multi-spin coding, Jacobs & Rebbi, 1981). A uniform number is compared
with a spin's probability from its first binary digit on, all 32 spins at once, until they differ at every spin of the
tile: after some 16 of the 32 digits.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.fused.interpreter import interpreted, require_triton
from ebmlab.samplers.spin_rules import ODDS, heat_bath, thresholds

TILE = 256  # words of a program on a GPU
INTERPRETED_TILE = 4096


class SquareLattice:
    """An Ising model on a periodic square lattice with one coupling and no field, for one chain of one bit a spin.

    A sweep redraws each spin from its law given the others, black ones first, as `ChromaticGibbs` does. Probabilities
    are multiples of 2^-32. A chain is words `(2, side, side / 64)`, int32: the bits of colour c in row r are the
    spins of columns 2 k + (r + c) % 2, k from 0, the lowest bit first. No GPU has run the kernel yet.

    Args:
        side: a multiple of 64.
        coupling: J; E(x) is -J times the sum of x_i x_j over neighbours.

    Example:
        >>> from ebmlab.fused import SquareLattice
        >>> lattice = SquareLattice(64, coupling=0.44)
        >>> words = lattice.random("cpu")
        >>> if torch.cuda.is_available():
        ...     lattice.sweep(words := words.cuda(), num_sweeps=10)
        >>> lattice.spins(words).shape
        torch.Size([64, 64])
    """

    def __init__(self, side: int, coupling: float) -> None:
        if side < 64 or side % 64:
            raise UserError(f"SquareLattice: side is {side}, but must be a multiple of 64, whose rows fill whole words")
        if not math.isfinite(coupling):
            raise UserError(f"SquareLattice: coupling is {coupling}, but must be a finite number")
        self.side, self.coupling = side, coupling

    def random(self, device: torch.device | str) -> Tensor:
        """Words of independent fair spins."""
        return torch.randint(-(2**31), 2**31, (2, self.side, self.side // 64), dtype=torch.int32, device=device)

    def sweep(self, words: Tensor, num_sweeps: int = 1) -> None:
        """Redraws all spins in place, so many times.

        Raises:
            UserError: there is no Triton or no GPU, or words of another lattice are given.
        """
        require_triton(words.device)
        if words.shape != (2, self.side, self.side // 64) or words.dtype != torch.int32 or not words.is_contiguous():
            raise UserError(f"SquareLattice: words must be int32 {(2, self.side, self.side // 64)}, as of random()")
        _, two, four = thresholds(ODDS[heat_bath], 4, self.coupling)
        size, tile = words[0].numel(), INTERPRETED_TILE if interpreted() else TILE
        from ebmlab.fused.lattice_kernel import colour_kernel  # not before there is Triton
        from ebmlab.fused.tiles import seed

        for _ in range(num_sweeps):
            key = seed(words.device)
            for colour in (0, 1):
                colour_kernel[(-(-size // tile),)](
                    words[colour], words[1 - colour], key, self.side, self.side // 64, colour, two, four, TILE=tile
                )

    def spins(self, words: Tensor) -> Tensor:
        """Spins -1 and +1, `(side, side)`, int8."""
        bits = (words.unsqueeze(-1) >> torch.arange(32, device=words.device)) & 1
        colours = bits.view(2, self.side, self.side // 2)
        spins = words.new_empty(self.side, self.side, dtype=torch.int8)
        for row in (0, 1):
            for colour in (0, 1):
                spins[row::2, (row + colour) % 2 :: 2] = 2 * colours[colour, row::2].to(torch.int8) - 1
        return spins
