"""Sums, mixtures and other temperatures against the laws of their parts by enumeration."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from helpers_blocks import block_bias
from helpers_errors import refused
from helpers_finite import DOMAINS, MOSTLY_TWO_DOMAINS, Exact, Target, bias
from helpers_grbm import PASS, Banana, ExactGRBM, last_state, make_grbm
from helpers_mutants import mutant

from ebmlab.domains import Binary, Finite, Ordinal, Real, Spin
from ebmlab.energies import RBM, Clamped, Energy, Ising, Mixture, ScalarPotts, Scaled, StandardNormal, Sum, Uniform
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, exact_log_z
from ebmlab.samplers import DMALA, GWG, MALA, ChromaticGibbs, Gibbs

TIGHT = {"rtol": 1e-11, "atol": 1e-11}
every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)


def parts(domain: Finite) -> list[Energy]:
    """Two unrelated energies on the domain."""
    return [Target(domain, "cubic"), Target(domain, "quadratic", scale=-1.3)]


@every_domain
def test_a_sum_is_a_product_of_experts(domain: Finite) -> None:
    total, weights = Sum(parts(domain), [0.7, 1.9]), [0.7, 1.9]
    product = torch.ones(())
    for w, part in zip(weights, parts(domain), strict=True):
        product = product * Exact(part).probabilities ** w
    torch.testing.assert_close(Exact(total).probabilities, product / product.sum(), **TIGHT)
    plain = Sum(parts(domain))
    x = domain.enumerate().double()
    torch.testing.assert_close(plain(x), parts(domain)[0](x) + parts(domain)[1](x), **TIGHT)


@every_domain
def test_a_mixture_is_the_weighted_sum_of_its_laws(domain: Finite) -> None:
    log_z = [float(exact_log_z(part)) for part in parts(domain)]
    mixture = Mixture(parts(domain), [0.3, 0.7], log_z=log_z)
    laws = torch.stack([Exact(part).probabilities for part in parts(domain)])
    weighted = torch.tensor([[0.3], [0.7]], dtype=torch.float64) * laws
    torch.testing.assert_close(Exact(mixture).probabilities, weighted.sum(0), **TIGHT)
    assert float(exact_log_z(mixture)) == pytest.approx(0.0, abs=1e-10)
    x = domain.enumerate().double()
    torch.testing.assert_close(mixture.responsibilities(x), (weighted / weighted.sum(0)).T, **TIGHT)
    bare = Mixture(parts(domain))
    assert float(exact_log_z(bare)) == pytest.approx(math.log(sum(math.exp(z) / 2 for z in log_z)), abs=1e-10)


@every_domain
def test_a_scaled_law_is_a_power(domain: Finite) -> None:
    law = Exact(Target(domain, "cubic")).probabilities ** (1 / 2.5)
    torch.testing.assert_close(Exact(Scaled(Target(domain, "cubic"), 2.5)).probabilities, law / law.sum(), **TIGHT)
    rbm = RBM(4, 3).double()
    torch.testing.assert_close(Scaled(rbm, 2.5)(torch.ones(1, 4).double()), rbm(torch.ones(1, 4).double()) / 2.5)


@MOSTLY_TWO_DOMAINS
@pytest.mark.parametrize(
    "kind", [Sum, Mixture, lambda energies: Scaled(energies[0], 0.6)], ids=["Sum", "Mixture", "Scaled"]
)
def test_transition_matrices(domain: Finite, kind: type[Sum]) -> None:
    energy = kind(parts(domain))
    assert bias(DMALA(0.8), energy) < 1e-6
    assert block_bias(Gibbs(), energy, at=1) < 1e-12


@pytest.mark.slow
def test_ais_of_composed_energies() -> None:
    torch.manual_seed(2)
    rbms = [RBM(8, 4).double().requires_grad_(False) for _ in range(2)]
    for rbm in rbms:
        for p in rbm.parameters():
            p.normal_(0, 0.7)
    x = torch.randint(2, (8,)).double()
    for energy in (
        Sum(rbms, [1.0, 0.5]),
        Mixture(rbms, [0.9, 0.1]),
        Scaled(rbms[0], 0.5),
        Clamped(Sum(rbms), x, mask=x > 0),
    ):
        result = ais(energy, GWG(), num_chains=1000, num_temperatures=200)
        assert result.samples.dtype == torch.float64
        assert abs(result.log_z - float(exact_log_z(energy))) < 4 * result.std_error < 0.4


def test_langevin_on_a_sum_and_a_mixture() -> None:
    """The product and the mixture of a GRBM and a Gaussian, against the exact mixtures of Gaussians."""
    grbm = make_grbm(1).requires_grad_(False)
    exact = ExactGRBM(grbm)
    exact.weights = torch.cat([0.6 * exact.weights, torch.tensor([0.4]).double()])
    exact.means, exact.std = torch.cat([exact.means, torch.zeros(1, 1).double()]), exact.std
    mixture = Mixture(
        [grbm, StandardNormal(Real(1))], [0.6, 0.4], log_z=[float(exact.log_z), math.log(2 * math.pi) / 2]
    )
    torch.manual_seed(0)
    start = torch.where(torch.rand(50_000, 1) < 0.4, torch.randn(50_000, 1).double(), ExactGRBM(grbm).sample(50_000)[0])
    x = last_state(MALA(0.9), mixture, start, 20).x
    torch.testing.assert_close(x.mean(), 0.6 * ExactGRBM(grbm).mean().squeeze(), rtol=0, atol=0.03)
    banana = Banana(1)
    twice = Sum([banana, banana], [0.25, 0.75])
    x = last_state(MALA(0.5), twice, banana.sample(50_000), 3).x
    assert banana.p_value(x) > PASS


def test_another_temperature_keeps_the_colours() -> None:
    potts = ScalarPotts.lattice(2, 3, coupling=0.5, field=[0.2, 0.0, -0.1]).double()
    energy = Scaled(potts, 1.4)
    assert block_bias(ChromaticGibbs(), energy) < 1e-12
    with pytest.raises(UserError, match="ChromaticGibbs needs"):
        ChromaticGibbs().check(Sum([potts, potts]))


MUTANTS = {
    "sum without weights": (Sum, "[w * value for w, value", "[value for w, value"),
    "log Z with the wrong sign": (Mixture, "math.log(w) - z", "math.log(w) + z"),
    "weights without log": (Mixture, "math.log(w) - z", "w - z"),
    "gradients not weighed": (Mixture, "(shares * torch.stack(grads, 1)).sum(1)", "torch.stack(grads, 1).mean(1)"),
    "differences averaged": (
        Mixture,
        "-(shares - torch.stack(list(differences), 1)).logsumexp(1)",
        "(shares.exp() * torch.stack(list(differences), 1)).sum(1)",
    ),
    "temperature for its inverse": (Scaled, "torch.tensor(1 / temperature", "torch.tensor(temperature"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_fail(name: str) -> None:
    cls, old, new = MUTANTS[name]
    domain = DOMAINS["categorical"]
    arguments = {
        Sum: (parts(domain), [0.7, 1.9]),
        Mixture: (parts(domain), [0.2, 0.8]),
        Scaled: (parts(domain)[0], 2.0),
    }
    settings: dict[str, Any] = {"log_z": [0.5, -0.5]} if cls is Mixture else {}
    right, wrong = cls(*arguments[cls], **settings), mutant(cls, old, new)(*arguments[cls], **settings)
    x = domain.enumerate().double()
    ours = wrong(x), wrong.value_and_grad(x)[1], wrong.value_differences(x)
    expected = right(x), Energy.value_and_grad(right, x)[1], Energy.value_differences(right, x)
    assert not all(torch.allclose(a, b) for a, b in zip(ours, expected, strict=True))


def test_far_apart_energies_give_no_nan() -> None:
    """Energies of 1e6 in float32: the other component has weight 0 at x."""
    domain = Spin(4)
    x = domain.enumerate()
    for scale in (1e6, -1e6):
        mixture = Mixture([Target(domain, "cubic", scale=scale), Target(domain, "quadratic")])
        for value in (mixture(x), *mixture.value_and_grad(x), mixture.flip_differences(x)):
            assert value.isfinite().all()


def test_checkpoints_hold_the_parts_and_no_settings() -> None:
    torch.manual_seed(0)
    rbm = RBM(3, 2)
    names = {f"energies.{k}.{p}" for k in (0, 1) for p in rbm.state_dict()}
    assert set(Sum([rbm, rbm], [1, 2]).state_dict()) == names
    assert set(Scaled(rbm, 2.0).state_dict()) == {"energy.W", "energy.b_v", "energy.b_h"}
    for make in (lambda e: Sum([e, e]), lambda e: Mixture([e, e]), lambda e: Scaled(e, 2.0)):
        energy = make(Ising([[0.0, 1], [1, 0]]))
        assert energy.dtype == torch.float32 and energy.double().dtype == torch.float64
        assert energy(torch.ones(1, 2).double()).dtype == torch.float64
        x = torch.ones(3, 2).double()
        assert torch.equal(copy.deepcopy(energy)(x), energy(x))
    mixture = Mixture([rbm, rbm])
    x = torch.ones(3, 3)
    ours = torch.autograd.grad(mixture(x).sum(), list(rbm.parameters()))
    torch.testing.assert_close(ours, torch.autograd.grad(rbm(x).sum(), list(rbm.parameters())))
    grbm = make_grbm(2)
    assert Sum([grbm, StandardNormal(Real(2))]).step_unit() == grbm.step_unit()


def uniform(domain: Finite) -> Uniform:
    return Uniform(domain)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sum([]), "Sum: energies is empty"),
        (lambda: Mixture([]), "Mixture: energies is empty"),
        (
            lambda: Sum([uniform(Spin(3)), uniform(Binary(3))]),
            r"lives on Spin\(3\), but energy 1 on Binary\(3\)",
        ),
        (lambda: Sum([uniform(Spin(3)), uniform(Spin(4))]), r"energy 0 lives on Spin\(3\), but energy 1 on Spin\(4\)"),
        (lambda: Sum([uniform(Ordinal(3, 4)), uniform(Ordinal(3, 5))]), r"coordinates have 4 and 5 values"),
        (lambda: Sum([uniform(Spin(3))], [1.0, 2.0]), "Sum: 2 weights for 1 energies"),
        (lambda: Sum([uniform(Spin(3))], [math.nan]), "must be finite"),
        (lambda: Mixture([uniform(Spin(3))], [0.0]), "must be positive"),
        (lambda: Mixture([uniform(Spin(3))], [1.0], log_z=[1.0, 2.0]), "Mixture: 2 log_z for 1 energies"),
        (lambda: Mixture([uniform(Spin(3))], ["a"]), "weights must be a list of numbers"),
        (lambda: Scaled(uniform(Spin(3)), 0.0), "temperature is 0.0, but must be positive"),
        (lambda: Scaled(uniform(Spin(3)), math.inf), "temperature is inf"),
    ],
)
def test_one_clear_line(make: type[Sum], message: str) -> None:
    with refused(message):
        make()  # type: ignore[call-arg]
