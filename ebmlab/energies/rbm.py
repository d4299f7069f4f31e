"""The restricted Boltzmann machine, with binary visible units (Smolensky, 1986; Hinton, 2002)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ebmlab.domains import Binary
from ebmlab.energies.bilinear_sum import BilinearSum
from ebmlab.energies.bipartite import Bipartite
from ebmlab.energies.energy import Around
from ebmlab.energies.hidden_units import Kind, units_of
from ebmlab.energies.weighted_sum import WeightedSum
from ebmlab.native import affine
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_count

CHUNK = 2**22  # entries of the largest tensor that `flip_differences` makes


class RBM(Bipartite):
    """E(v, h) = -v'W h - b_v'v - b_h'h, v and h binary.

    Called on x = v, it gives the marginal energy -b_v'v - sum of softplus(W'v + b_h). Gaussian and rectified hidden
    units add the sum of h_j^2 / 2 to E(v, h), and h is integrated out.

    Args:
        num_coordinates: V, the length of v.
        num_hidden: H, the length of h.
        hidden: `bits`; `gaussian`, any numbers; or `rectified`, numbers from 0.

    Attributes:
        W: weights `(V, H)`, drawn from N(0, 0.01^2).
        b_v: visible bias `(V,)`, zero at first.
        b_h: hidden bias `(H,)`, zero at first.

    Example:
        >>> energy = RBM(num_coordinates=4, num_hidden=3)
        >>> v = energy.random(5)
        >>> energy(v).shape, energy.hidden_given_visible(v).shape
        (torch.Size([5]), torch.Size([5, 3]))
    """

    domains = (Binary,)

    def __init__(self, num_coordinates: int, num_hidden: int, *, hidden: Kind = "bits") -> None:
        super().__init__()
        require_count("RBM", num_coordinates=num_coordinates, num_hidden=num_hidden)
        self.domain = Binary(num_coordinates)
        self.num_hidden = num_hidden
        self.units = units_of("RBM", hidden)
        self.W = nn.Parameter(0.01 * torch.randn(num_coordinates, num_hidden))
        self.b_v = nn.Parameter(torch.zeros(num_coordinates))
        self.b_h = nn.Parameter(torch.zeros(num_hidden))

    @torch.no_grad()
    def set_base(self, mean: Tensor) -> None:
        """Sets b_v to the logits of `mean` `(V,)`, clamped to [0.01, 0.99]: while W is 0, p(v) is Bernoulli(mean)."""
        self.check_mean(mean)
        self.b_v.copy_(mean.to(self.b_v).view_as(self.b_v).clamp(0.01, 0.99).logit())

    @unrounded
    def hidden_given_visible(self, v: Tensor) -> Tensor:
        """W'v + b_h, `(B, H)`: for bits, the logits of p(h_j = 1 | v)."""
        return affine(self.b_h, v, self.W)

    @unrounded
    def visible_given_hidden(self, h: Tensor) -> Tensor:
        """Logits W h + b_v of p(v_i = 1 | h), `(B, V)`."""
        return affine(self.b_v, h, self.W.T)

    @unrounded
    def visible_energy(self, v: Tensor) -> Tensor:
        return -(v * self.b_v).sum(-1)  # oneDNN takes longer for v @ b_v

    def around(self, x: Tensor) -> Around:
        """E(x) `(B,)` and the hidden pre-activations `(B, H)`."""
        logits = self.hidden_given_visible(x)
        return self.marginal_energy(x, logits), logits

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        """As in `Energy`. A flip changes the hidden pre-activations by one row of W: O(k H) per chain."""
        logits = around[1] if around else self.hidden_given_visible(x)
        here = self.units.log_sum(logits).unsqueeze(1)
        change = 1 - 2 * x
        if index is None:
            index = torch.arange(x.shape[1], device=x.device).expand_as(x)
        parts = []
        for i in torch.split(index, max(1, CHUNK // max(1, logits.numel())), 1):
            sign = change.gather(1, i)
            there = self.units.log_sum(logits.unsqueeze(1) + sign.unsqueeze(2) * self.W[i])
            parts.append(here - there - sign * self.b_v[i])
        return torch.cat(parts, 1)

    def weighted_sum(self) -> WeightedSum:
        return BilinearSum(self) if self.has_bits else super().weighted_sum()
