"""Which samplers move the chains of a trained model: the learner's own, and what can take its place."""

from __future__ import annotations

from ebmlab.domains import Domain
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.product import Product
from ebmlab.samplers import DMALA, GWG, MALA, Alternate, BlockGibbs, ChromaticGibbs, Gibbs, Sampler


def samplers_of(own: Sampler, domain: Domain) -> list[Sampler]:
    """The learner's sampler, and what can take its place on the energy itself."""
    if isinstance(domain, Product):
        return [own, Alternate.usual(domain)]
    return [own, BlockGibbs(), DMALA(0.2), MALA(0.05)]


def conditional_sampler(own: Sampler, energy: Energy) -> Sampler:
    """The first of the learner's sampler and its substitutes that serves a conditional law."""
    domain = energy.domain
    if isinstance(domain, Product):
        mine = own.only(domain.parts) if isinstance(own, Alternate) else own
        return _first([mine, Alternate.usual(domain)], energy)
    return _first([own, BlockGibbs(), ChromaticGibbs(), Gibbs(), DMALA(0.2), MALA(0.05)], energy)


def another_sampler(used: Sampler, energy: Energy) -> str:
    """The name of a sampler of another kind that serves an energy and needs no settings; "" if there is none."""
    for sampler in (BlockGibbs(), Gibbs(), GWG()):
        if type(sampler) is not type(used) and _serves(sampler, energy):
            return type(sampler).__name__
    return ""


def _serves(sampler: Sampler, energy: Energy) -> bool:
    try:
        sampler.check(energy)
    except UserError:
        return False
    return True


def _first(samplers: list[Sampler], energy: Energy) -> Sampler:
    return next((sampler for sampler in samplers[:-1] if _serves(sampler, energy)), samplers[-1])
