"""The sampler of those who name none."""

from __future__ import annotations

from ebmlab.domains import Domain, Real
from ebmlab.product import Product
from ebmlab.samplers.alternate import Alternate
from ebmlab.samplers.gibbs import Gibbs
from ebmlab.samplers.langevin import MALA
from ebmlab.samplers.sampler import Sampler


def usual_sampler(domain: Domain) -> Sampler:
    """A sampler that needs no settings of the user's."""
    if isinstance(domain, Product):
        return Alternate.usual(domain)
    return MALA(0.1) if isinstance(domain, Real) else Gibbs()
