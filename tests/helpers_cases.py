"""One case for every sampler of finite domains; the contract tests run on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS
from helpers_tier import cases

from ebmlab.domains import Finite
from ebmlab.energies import RBM, Energy, Ising
from ebmlab.samplers import (
    ACS,
    DLMC,
    DMALA,
    DULA,
    GWG,
    AnyScale,
    Bfloat16Proposals,
    BlockGibbs,
    ChromaticGibbs,
    ChromaticMetropolis,
    DiscreteHAMS,
    DiscreteSVGD,
    Gibbs,
    GibbsSweep,
    HammingBall,
    LocallyBalanced,
    PathAuxiliary,
    RandomWalk,
    RegularisedLangevin,
    RelaxedMALA,
    Sampler,
    SwendsenWang,
    Tempered,
    TrajectoryTempered,
    Wolff,
)

ALL = tuple(DOMAINS)
TWO = ("binary", "spin")


@dataclass
class Case:
    """A sampler with settings.

    Attributes:
        make: builds it for a domain.
        domains: names of the domains in `DOMAINS` that it serves.
        enumerable: whether its random decisions can be enumerated; normal numbers cannot.
        exact: whether the law is invariant.
        gradients: energy-and-gradient evaluations a step, where the promise is a number.
    """

    make: Callable[[Finite], Sampler]
    domains: tuple[str, ...] = ALL
    enumerable: bool = True
    exact: bool = True
    gradients: int | None = None


def any_scale(variant: Any) -> Callable[[Finite], Sampler]:
    """An any-scale sampler with a curvature that is unrelated to the target."""

    def make(domain: Finite) -> Sampler:
        n = domain.size
        a = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        w = 0.5 * (a + a.T)
        if variant == "diagonal":
            return AnyScale(variant, step_size=0.8, balance=0.7, curvature=w.diagonal())
        shift = float(-torch.linalg.eigvalsh(w)[0]) + 0.1
        extra = torch.linspace(0, 0.5, n, dtype=torch.float64)
        return AnyScale(variant, step_size=2.0, balance=0.8, curvature=w, diagonal=shift + extra)

    return make


CASES: dict[str, Case] = {
    "Gibbs": Case(lambda d: Gibbs()),
    "Gibbs random 2": Case(lambda d: Gibbs(2, scan="random")),
    "GibbsSweep": Case(lambda d: GibbsSweep()),
    "HammingBall": Case(lambda d: HammingBall(2, 1)),
    "RandomWalk 1": Case(lambda d: RandomWalk()),
    "RandomWalk p": Case(lambda d: RandomWalk(probability=0.4)),
    "LB sqrt": Case(lambda d: LocallyBalanced()),
    "LB barker": Case(lambda d: LocallyBalanced("barker")),
    "LB min": Case(lambda d: LocallyBalanced("min")),
    "LB max": Case(lambda d: LocallyBalanced("max")),
    "GWG": Case(lambda d: GWG(), gradients=1),
    "GWG 3": Case(lambda d: GWG(3), gradients=1),
    "PAS": Case(lambda d: PathAuxiliary(2), gradients=1),
    "DMALA": Case(lambda d: DMALA(0.8), gradients=1),
    "DMALA balance": Case(lambda d: DMALA(0.8, balance=0.8), gradients=1),
    "DMALA precondition": Case(lambda d: DMALA(0.8, precondition=torch.linspace(0.3, 3, d.size))),
    "DMALA window": Case(lambda d: DMALA(3.0, window=1), ("ordinal",), gradients=1),
    "DULA": Case(lambda d: DULA(0.8), exact=False, gradients=1),
    "AB-1st": Case(lambda d: AnyScale("first", 0.8, balance=0.8), gradients=1),
    "AB-diagonal": Case(any_scale("diagonal"), ("binary", "spin", "ordinal"), gradients=1),
    "AB-shift": Case(any_scale("shift"), ("binary", "spin", "ordinal"), enumerable=False, gradients=1),
    "AB-max": Case(any_scale("max"), ("binary", "spin", "ordinal"), enumerable=False, gradients=1),
    "AB-trace": Case(any_scale("trace"), ("binary", "spin", "ordinal"), enumerable=False, gradients=1),
    "ACS": Case(lambda d: ACS(5.0, 0.2, cycle_length=3), gradients=1),
    "DLMC": Case(lambda d: DLMC(0.5), gradients=1),
    "DLMC euler": Case(lambda d: DLMC(0.5, solver="euler"), gradients=1),
    "RegularisedLangevin": Case(lambda d: RegularisedLangevin(0.9), gradients=1),
    "DiscreteHAMS": Case(lambda d: DiscreteHAMS(0.9), enumerable=False, gradients=1),
    "RelaxedMALA": Case(lambda d: RelaxedMALA(0.3), TWO, enumerable=False),
    "DiscreteSVGD": Case(lambda d: DiscreteSVGD(0.1), TWO, enumerable=False, exact=False),
    "Bfloat16Proposals": Case(lambda d: Bfloat16Proposals(DMALA(0.8), 2)),
    "Tempered": Case(lambda d: Tempered(DMALA(0.8), betas=[1.0])),
    "TrajectoryTempered": Case(lambda d: TrajectoryTempered(DMALA(0.8), [])),
}
# Samplers of energies with more structure than `Target`. Their own test files prove their exactness.
STRUCTURED: dict[type[Sampler], Callable[[], tuple[Sampler, Energy]]] = {
    BlockGibbs: lambda: (BlockGibbs(), RBM(4, 3)),
    ChromaticGibbs: lambda: (ChromaticGibbs(), Ising.lattice(4, 0.3)),
    ChromaticMetropolis: lambda: (ChromaticMetropolis(), Ising.lattice(4, 0.3)),
    SwendsenWang: lambda: (SwendsenWang(), Ising.lattice(4, 0.3)),
    Wolff: lambda: (Wolff(), Ising.lattice(4, 0.3)),
}
PAIRS = [(c, d) for c, case in CASES.items() for d in case.domains]
EXACT = [(c, d) for c, d in PAIRS if CASES[c].exact]


def mostly(*domains: str, pairs: list[tuple[str, str]] = PAIRS) -> pytest.MarkDecorator:
    """Samplers and domains as cases; the fast tier has these domains, or the first of a sampler without them."""
    own = {name: [d for d in CASES[name].domains if d in domains] or CASES[name].domains[:1] for name in CASES}
    return cases(("name", "domain"), pairs, fast=[k for k, (name, d) in enumerate(pairs) if d in own[name]])
