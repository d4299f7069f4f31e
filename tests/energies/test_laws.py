"""Chains with laws of their own: what is built of such an energy, and samplers that move chains in parts."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Real
from ebmlab.energies import (
    RBM,
    Clamped,
    Energy,
    Ising,
    Mixture,
    NoisyMLP,
    Part,
    ProductMLP,
    StandardNormal,
    Sum,
    materialised,
    reference,
    tempered,
)
from ebmlab.energies.laws import num_laws, of_chains
from ebmlab.energies.noisy import NoisyEnergy
from ebmlab.energies.paths.tempering import Scaled
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, exact_log_z, exact_mean, exchange_log_z, stein_test
from ebmlab.product import Product
from ebmlab.samplers import (
    DMALA,
    GWG,
    MALA,
    NUTS,
    ChromaticGibbs,
    ChromaticMetropolis,
    Gibbs,
    GibbsSweep,
    Sampler,
    Tempered,
    TrajectoryTempered,
    sampler,
)
from ebmlab.samplers.sweeps_in_cpp import pairwise

CHAINS = 6
BETAS = torch.linspace(0.1, 1.5, CHAINS)
WRAPPERS: dict[str, Callable[[Energy], Energy]] = {
    "as it is": lambda e: e,
    "Scaled": lambda e: Scaled(e, 0.7),
    "Sum": lambda e: Sum([e, StandardNormal(e.domain)] if isinstance(e.domain, Real) else [e]),
    "Mixture": lambda e: Mixture([e, Scaled(e, 2.0)]),
    "twice": lambda e: tempered(e, BETAS[:2]),
}


def lattice(betas: Tensor = BETAS) -> Energy:
    torch.manual_seed(3)
    coupling = torch.randn(4, 4).triu(1)
    return tempered(Ising(coupling + coupling.T, torch.randn(4)), betas)


def parts() -> Part:
    torch.manual_seed(3)
    whole = ProductMLP(Product(bits=Binary(3), place=Real(1)), hidden_dim=8)
    return Part(whole, "bits", x=whole.random(CHAINS))


def clamped(e: Energy) -> Energy:
    return Clamped(e, torch.ones(4), mask=torch.tensor([True, False, False, False]))


LAWS: dict[str, Callable[[], Energy]] = {
    **{f"Ising, {name}": lambda wrap=wrap: wrap(lattice()) for name, wrap in WRAPPERS.items()},  # type: ignore[misc]
    "Ising, Clamped": lambda: clamped(lattice()),
    "Ising, three temperatures": lambda: Sum([lattice(BETAS[:3])]),
    "RBM": lambda: Sum([tempered(RBM(4, 3), BETAS)]),
    "noise": lambda: Scaled(NoisyMLP(2, hidden_dim=8).at(BETAS), 0.5),
    "parts": lambda: Sum([parts()]),
}


@pytest.mark.parametrize("name", LAWS)
def test_some_chains_have_the_energies_that_they_had(name: str) -> None:
    law = LAWS[name]()
    x, index = law.random(CHAINS), torch.tensor([4, 1, 1, 5])
    assert num_laws(law) == (3 if "three" in name else CHAINS)
    torch.testing.assert_close(of_chains(law, index, CHAINS)(x[index]), law(x)[index])
    assert num_laws(law) == (3 if "three" in name else CHAINS), "the energy itself stays as it is"
    several = x.repeat_interleave(3, 0)
    torch.testing.assert_close(law(several), law(x).repeat_interleave(3))
    with pytest.raises(UserError, match="7 states do not belong to"):
        law(law.random(7))


@pytest.mark.parametrize("name", [name for name in LAWS if name not in ("noise", "Ising, as it is")])
def test_neighbours_belong_to_their_chains(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    law = LAWS[name]()
    x = law.random(CHAINS)
    monkeypatch.setattr(materialised, "MANY", 5)
    found = Energy.flip_differences(law, x)
    for i in range(CHAINS):
        one = of_chains(law, torch.tensor([i]), CHAINS)
        torch.testing.assert_close(found[i : i + 1], Energy.flip_differences(one, x[i : i + 1]))


@pytest.mark.parametrize("kernel", [DMALA(0.2), Gibbs(), GWG(), ChromaticGibbs()], ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("name", [name for name in LAWS if name.startswith("Ising")])
def test_chains_with_laws_of_their_own_move_together(
    kernel: Sampler, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = LAWS[name]()
    if isinstance(kernel, ChromaticGibbs) and not hasattr(law, "colours"):
        pytest.skip("has no colours")
    x, found = law.random(CHAINS), []
    for rows in (sampler.SMALLEST, 1):
        monkeypatch.setattr(sampler, "SMALLEST", rows)
        monkeypatch.setattr(sampler, "CACHED", rows)
        torch.manual_seed(1)
        found.append(kernel.sample(law, x, 4)[0])
    assert torch.equal(*found)


@cases("name", {name: name for name in WRAPPERS}, fast=["Sum", "twice"])
def test_nuts_keeps_chains_at_their_temperatures(name: str) -> None:
    """Chains at each temperature are as wide as those of MALA."""
    torch.manual_seed(2)
    betas = torch.tensor([1.0, 0.05])
    law = WRAPPERS[name](tempered(StandardNormal(Real(2)), betas))
    y, z = (kernel.last_states(law, law.random(800), steps) for kernel, steps in ((NUTS(0.6), 10), (MALA(0.5), 150)))
    for mine, its in zip(y.chunk(2), z.chunk(2), strict=True):
        torch.testing.assert_close(mine.var(), its.var(), rtol=0.3, atol=0)


class Wide(NoisyEnergy):
    """A normal law as wide as the noise."""

    domains = (Real,)

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(1)

    def noisy(self, x: Tensor, sigma: Tensor) -> Tensor:
        return x.square().sum(1) / (2 * sigma.square())


def test_tempered_chains_stay_at_their_noise_levels() -> None:
    torch.manual_seed(4)
    law = Wide().at(torch.tensor([0.5, 1.5]))
    x = Tempered(MALA(0.3), num_temperatures=2).last_states(law, law.random(3000), 60)
    for part, sigma in zip(x.chunk(2), (0.5, 1.5), strict=True):
        assert abs(float(part.std()) / sigma - 1) < 0.1


@pytest.mark.parametrize(
    "kernel", [ChromaticGibbs(), GibbsSweep(), ChromaticMetropolis()], ids=lambda k: type(k).__name__
)
def test_temperatures_of_temperatures(kernel: Sampler) -> None:
    inner, outer = torch.linspace(0.1, 1, 4), torch.linspace(0.2, 1, 12)
    model = Ising.lattice(3, 0.3)
    _, beta = pairwise(tempered(tempered(model, inner), outer))
    assert isinstance(beta, Tensor)
    torch.testing.assert_close(beta, inner.repeat_interleave(3) * outer)
    torch.manual_seed(5)
    free = tempered(Ising([[0.0]], field=[1.0]), torch.tensor([0.2, 1.0]))  # the mean is tanh(beta)
    x = Tempered(kernel, num_temperatures=3).last_states(free, free.random(4000), 20)
    for part, beta in zip(x.chunk(2), (0.2, 1.0), strict=True):
        assert abs(float(part.mean()) - math.tanh(beta)) < 5 / 2000**0.5


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: Sum([e])], ids=["as it is", "Sum"])
def test_what_needs_one_law_refuses_several(wrap: Callable[[Energy], Energy]) -> None:
    law = wrap(lattice())
    for ask in (
        lambda: exact_log_z(law),
        lambda: exact_mean(law),
        lambda: ais(law, Gibbs(), num_chains=6, num_temperatures=3),
        lambda: stein_test(law, law.random(6)),
        lambda: exchange_log_z(
            law, TrajectoryTempered(Gibbs(), [lattice()]), base=reference(law.domain), x=law.random(6)
        ),
    ):
        with pytest.raises(UserError, match=r"needs one law, but .* has 6"):
            ask()
    assert exact_log_z(wrap(lattice(torch.tensor([0.5])))).isfinite()
