"""Chains that have stayed in the noise in which they began."""

from __future__ import annotations

from ebmlab.domains import Finite
from ebmlab.energies import Energy
from ebmlab.energies.laws import num_laws
from ebmlab.samplers import Info

STUCK = 0.1  # acceptance, or changes per coordinate, below which chains have not left the noise
ENOUGH = 20  # coordinates of all chains, with fewer of which few changes may be chance: usually half of them change


def hardly_moved(info: Info, energy: Energy, num_steps: int) -> bool:
    """Whether most chains of one of the energy's laws have stayed where they began.

    Args:
        info: the report of the chains.
        energy: of one law, or of several, each of as many chains.
        num_steps: that they have taken.
    """
    laws = num_laws(energy)
    if bool((info.acceptance.view(laws, -1).median(1).values < STUCK).any()):
        return True
    size, hops = energy.domain.size, info.hops.view(laws, -1)
    if hops.shape[1] * size < ENOUGH:
        hops = hops.view(1, -1)
    few = bool((hops.mean(1) * num_steps < STUCK * size).any())
    return few and isinstance(energy.domain, Finite) and hops.numel() * size >= ENOUGH
