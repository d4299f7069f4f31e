"""Sweeps of an Ising model with couplings +J and -J, with one bit a spin: one operation moves 32 chains.

Pulls upwards are counted by adders on words (multi-spin coding over chains, Jacobs & Rebbi, 1981). Each count has a
probability of its own at each site. A uniform number is compared with it from the first binary digit on, until they
differ in all chains of a tile. Each chain has digits of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.fused.interpreter import interpreted, require_triton

MOST = 31  # neighbours of a site: counts have five binary digits
TILE = 128  # words of a program on a GPU
INTERPRETED_TILE = 4096


class SignedGraph:
    """An Ising model whose couplings are +J and -J, for 32 chains in a word.

    A sweep redraws each spin from its law given the others, one colour after the other, as `ChromaticGibbs` does.
    Fields may be any numbers. Probabilities are multiples of 2^-32 below 1. Chains are words `(d, W)`, int32: bit b of
    word w is the spin of chain 32 w + b, 1 if it is up. Couplings and fields are read once, here. No GPU has run the
    kernel yet. `Fused(ChromaticGibbs())` takes all other couplings.

    Args:
        energy: no site has more than 31 neighbours.

    Raises:
        UserError: the couplings are of several sizes, a number is not finite, or a site has too many neighbours.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.fused import SignedGraph
        >>> ising = Ising.lattice(6, coupling=-0.3)
        >>> graph = SignedGraph(ising.cuda() if torch.cuda.is_available() else ising)
        >>> words = graph.words(ising.random(64))
        >>> if torch.cuda.is_available():
        ...     graph.sweep(words, num_sweeps=10)
        >>> graph.spins(words).shape
        torch.Size([64, 36])
    """

    def __init__(self, energy: Ising) -> None:
        edges, field = energy.edges(), energy.field.detach()
        if not (field.isfinite().all() and edges.values.isfinite().all()):
            raise UserError("SignedGraph: couplings and fields must be finite numbers")
        sizes = edges.values.abs().unique()
        if len(sizes) > 1:
            raise UserError(
                f"SignedGraph: couplings are +J and -J of one J, but they have {len(sizes)} absolute values, from "
                f"{sizes[0]:g} to {sizes[-1]:g}: use Fused(ChromaticGibbs())"
            )
        degrees = torch.bincount(edges.rows, minlength=edges.size)
        largest = int(degrees.max())
        if largest > MOST:
            raise UserError(
                f"SignedGraph: a site has {largest} neighbours, but at most {MOST} can be counted: use "
                "Fused(ChromaticGibbs())"
            )
        self._colours, self._neighbours = energy.colours, edges.columns
        self._size = edges.size
        self._offsets = torch.cat([degrees.new_zeros(1), degrees.cumsum(0)])
        self._flips = -(edges.values < 0).int()
        up = torch.arange(1 << largest.bit_length(), device=field.device).unsqueeze(1)  # pulls upwards
        pull = (2 * up - degrees) * (sizes.double() if len(sizes) else 0.0) + field.double()
        chance = torch.sigmoid(2 * pull)
        self._thresholds = chance.mul(2**32).round().clamp(max=2**32 - 1).long().sub(2**31).int().bitwise_xor(-(2**31))

    def words(self, x: Tensor) -> Tensor:
        """Spins -1 and +1, `(B, d)`, as words; B must be a multiple of 32."""
        if x.dim() != 2 or len(x) % 32 or x.shape[1] != self._size:
            raise UserError(
                f"SignedGraph: chains must be spins (B, {self._size}), B a multiple of 32, but their shape "
                f"is {tuple(x.shape)}"
            )
        bits: Tensor = (x.T > 0).int().unflatten(1, (-1, 32))
        shifted = bits << torch.arange(32, dtype=torch.int32, device=x.device)
        return shifted.sum(2, dtype=torch.int32)

    def sweep(self, words: Tensor, num_sweeps: int = 1) -> None:
        """Redraws all spins in place, so many times.

        Raises:
            UserError: there is no Triton or no GPU, or words of another graph are given.
        """
        require_triton(words.device)
        if words.dim() != 2 or len(words) != self._size or words.dtype != torch.int32:
            raise UserError(f"SignedGraph: words must be int32 ({self._size}, W), as of words()")
        if words.device != self._thresholds.device or not words.is_contiguous():
            raise UserError("SignedGraph: words must be contiguous, and on the device of the energy")
        tile, width = INTERPRETED_TILE if interpreted() else TILE, words.shape[1]
        from ebmlab.fused.signed_kernel import colour_kernel  # not before there is Triton
        from ebmlab.fused.tiles import seed

        for _ in range(num_sweeps):
            key = seed(words.device)
            for sites in self._colours:
                colour_kernel[(-(-len(sites) * width // tile),)](
                    words, sites, self._offsets, self._neighbours, self._flips, self._thresholds, key,
                    len(sites), self._size, width, TILE=tile, COUNTS=len(self._thresholds),
                )  # fmt: skip

    def spins(self, words: Tensor) -> Tensor:
        """Spins -1 and +1, `(32 W, d)`, int8."""
        bits: Tensor = (words.unsqueeze(2) >> torch.arange(32, device=words.device)) & 1
        return bits.to(torch.int8).flatten(1).T * 2 - 1
