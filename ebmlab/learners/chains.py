"""Where the negative chains of contrastive divergence start."""

from __future__ import annotations

from torch import Tensor

from ebmlab.domains import Domain


class Chains:
    """Gives the negative chains their first states at each training step."""

    def start(self, x: Tensor, domain: Domain) -> Tensor:
        """First states for a batch of data x `(B, *event)`: one chain each."""
        raise NotImplementedError


class FromData(Chains):
    """Plain contrastive divergence: at the data (Hinton, 2002)."""

    def start(self, x: Tensor, domain: Domain) -> Tensor:
        return x


class FromNoise(Chains):
    """Modified contrastive divergence: at fresh draws from the domain's reference law, N(0, I) on Real.

    The chains then start in training where they start in generation (Liao et al. 2022, Alg. 3 and 4).
    """

    def start(self, x: Tensor, domain: Domain) -> Tensor:
        return domain.random(len(x), device=x.device).to(x.dtype)
