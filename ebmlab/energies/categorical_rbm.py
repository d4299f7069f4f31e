"""The restricted Boltzmann machine of sequences: categorical visible units (Tubiana et al., 2019)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ebmlab.domains import Categorical
from ebmlab.energies.bipartite import Bipartite
from ebmlab.energies.energy import Around
from ebmlab.energies.hidden_units import Kind, units_of
from ebmlab.native import affine
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_count

CHUNK = 2**22  # entries of the largest tensor that `value_differences` makes


class CategoricalRBM(Bipartite):
    """E(v, h) = -sum_ij W_i(v_i, j) h_j - sum_i b_i(v_i) - b_h'h, v_i one of q values and h binary.

    This is Eq. 2 of Tubiana, Cocco & Monasson (2019) with binary hidden units. Gaussian and rectified ones add the
    sum of h_j^2 / 2, and h is integrated out. Called on x = v, one-hot `(B, d, q)`, it gives the marginal energy. E is
    linear in v, which extends it to real v and defines its gradient.

    Args:
        num_coordinates: d, the visible units.
        num_values: q, the values of each, the gap of an alignment included.
        num_hidden: H, the length of h.
        hidden: `bits`; `gaussian`, any numbers; or `rectified`, numbers from 0.

    Attributes:
        W: weights `(d, q, H)`, drawn from N(0, 0.01^2).
        b_v: visible bias `(d, q)`, zero at first.
        b_h: hidden bias `(H,)`, zero at first.

    Example:
        >>> energy = CategoricalRBM(num_coordinates=4, num_values=3, num_hidden=2)
        >>> v = energy.random(5)
        >>> v.shape, energy(v).shape, energy.hidden_given_visible(v).shape
        (torch.Size([5, 4, 3]), torch.Size([5]), torch.Size([5, 2]))
    """

    domains = (Categorical,)

    def __init__(self, num_coordinates: int, num_values: int, *, num_hidden: int, hidden: Kind = "bits") -> None:
        super().__init__()
        require_count("CategoricalRBM", num_coordinates=num_coordinates, num_values=num_values, num_hidden=num_hidden)
        self.domain = Categorical(num_coordinates, num_values)
        self.num_hidden = num_hidden
        self.units = units_of("CategoricalRBM", hidden)
        self.W = nn.Parameter(0.01 * torch.randn(num_coordinates, num_values, num_hidden))
        self.b_v = nn.Parameter(torch.zeros(num_coordinates, num_values))
        self.b_h = nn.Parameter(torch.zeros(num_hidden))

    @torch.no_grad()
    def set_base(self, mean: Tensor) -> None:
        """Sets b_v to the logarithm of the frequencies `mean` `(d, q)`, at least 0.01: the law while W is 0."""
        self.check_mean(mean)
        self.b_v.copy_(mean.to(self.b_v).view_as(self.b_v).clamp(min=0.01).log())

    @unrounded
    def hidden_given_visible(self, v: Tensor) -> Tensor:
        """The sums of W_i(v_i, j) plus b_h, `(B, H)`: for bits, the logits of p(h_j = 1 | v)."""
        return affine(self.b_h, v.flatten(1), self.W.flatten(0, 1))

    @unrounded
    def visible_given_hidden(self, h: Tensor) -> Tensor:
        """Logits of p(v_i | h), `(B, d, q)`."""
        return affine(self.b_v.flatten(), h, self.W.flatten(0, 1).T).view(len(h), *self.b_v.shape)

    @unrounded
    def visible_energy(self, v: Tensor) -> Tensor:
        return -(v * self.b_v).flatten(1).sum(-1)

    def around(self, x: Tensor) -> Around:
        """E(x) `(B,)` and the hidden pre-activations `(B, H)`."""
        logits = self.hidden_given_visible(x)
        return self.marginal_energy(x, logits), logits

    @unrounded
    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        """As in `Energy`. Another value changes the hidden pre-activations by a row of W: O(k q H) per chain."""
        logits = self.hidden_given_visible(x)
        here = self.units.log_sum(logits).view(-1, 1, 1)
        if index is None:
            index = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
        parts = []
        for i in torch.split(index, max(1, CHUNK // max(1, logits.numel() * x.shape[2])), 1):
            present = x.gather(1, i.unsqueeze(2).expand(-1, -1, x.shape[2])).unsqueeze(2)  # (B, k, 1, q)
            rows, bias = self.W[i], self.b_v[i]
            there = self.units.log_sum(logits[:, None, None] + (rows - present @ rows))
            parts.append(here - there - (bias - (present * bias.unsqueeze(2)).sum(3)))
        return torch.cat(parts, 1)
