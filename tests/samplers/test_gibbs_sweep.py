"""GibbsSweep: exact transition matrices on both ways, a sweep as a product of conditionals, mutants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, Exact, Target
from helpers_mutants import mutant

from ebmlab.domains import Finite
from ebmlab.energies import Energy, Potts, Scaled
from ebmlab.energies.pairwise import site_tables as tables_module
from ebmlab.errors import UserError
from ebmlab.samplers import GibbsSweep
from ebmlab.testing import assert_invariant, transition_matrix

PAIRS = {"dense": None, "some pairs": [[2, 0]], "no pairs": []}
SCANS = ("systematic", "random")


def model(pairs: Any = None, d: int = 3, q: int = 3) -> Potts:
    generator = torch.Generator().manual_seed(2)
    energy = Potts(d, q, pairs=pairs).double()
    with torch.no_grad():
        for tensor in (energy.coupling, energy.field):
            tensor.copy_(torch.randn(tensor.shape, generator=generator, dtype=torch.float64))
    return energy


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("pairs", PAIRS.values(), ids=PAIRS)
def test_a_sweep_by_tables_leaves_the_law_invariant(pairs: Any, scan: Any) -> None:
    found = assert_invariant(GibbsSweep(scan), model(pairs, q=2 if scan == "random" else 3))
    assert found.exact and found.error < 1e-12


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_a_sweep_of_any_energy_leaves_the_law_invariant(domain: Finite, scan: Any) -> None:
    if scan == "random" and domain.size > 3:
        domain = domain.with_shape(3)
    found = assert_invariant(GibbsSweep(scan), Target(domain, "cubic"))
    assert found.exact and found.error < 1e-12


@pytest.mark.parametrize("pairs", PAIRS.values(), ids=PAIRS)
def test_a_sweep_in_order_is_the_product_of_the_conditionals(pairs: Any) -> None:
    """By enumeration: P(x, y) = the product over i of p(y_i | y_1 .. y_(i-1), x_(i+1) .. x_d). Both ways agree."""
    energy = model(pairs)
    exact = Exact(energy)
    digits = energy.domain.to_index(exact.states)
    expected = torch.eye(len(digits), dtype=torch.float64)
    for i in range(digits.shape[1]):
        others = torch.arange(digits.shape[1]) != i
        agree = (digits[:, None, others] == digits[None, :, others]).all(-1)
        law = torch.where(agree, exact.probabilities, 0)
        expected = expected @ (law / law.sum(1, keepdim=True))
    for sampled in (energy, Scaled(energy, 1.0)):  # the second one has no tables
        torch.testing.assert_close(transition_matrix(GibbsSweep(), sampled), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.cat([coupling.mT, coupling, ", "torch.cat([coupling, coupling.mT, "),  # a and b exchanged
        ("torch.cat([i, j, each]), torch.cat([j, i, each])", "torch.cat([i, j, each]), torch.cat([i, j, each])"),
        ("field.unsqueeze(1)", "field.unsqueeze(2)"),  # h_i(b) in place of h_i(a)
        ("(site * d + neighbour)", "site"),  # neighbours are not in order
    ],
)
def test_wrong_tables_are_found(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = mutant(tables_module.site_tables, old, new)
    energy = model(d=3)
    monkeypatch.setattr(type(energy), "site_tables", lambda self: wrong(self.pairs, self.coupling, self.field))
    with pytest.raises(AssertionError):
        assert_invariant(GibbsSweep(), energy)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i * x.shape[2]", "0"),  # the place of another site
        ("(torch.arange(len(sites), device=sites.device) - sites) * q", "0 * sites"),
        ("places = Merge(valid)(places, state.places)", "places = state.places"),  # stands still
    ],
)
def test_wrong_sweeps_are_found(old: str, new: str) -> None:
    with pytest.raises((AssertionError, IndexError, RuntimeError, UserError)):
        assert_invariant(mutant(GibbsSweep, old, new)(), model([[2, 0]]))


@pytest.mark.parametrize("pairs", [None, [[3, 0], [30, 7], [7, 9], [39, 38]]], ids=["dense", "some pairs"])
def test_rows_add_up_to_the_local_field(pairs: Any) -> None:
    energy = model(pairs, d=40, q=21)
    x = energy.domain.random(6).double()
    state = GibbsSweep().init(energy, x)
    assert state.tables is not None and state.places is not None
    for i, (sites, rows) in enumerate(state.tables):
        near = range(40) if sites is None else sites.tolist()
        values = energy.domain.to_index(x)[:, list(near)]
        found = rows.view(len(near), 21, 21)[torch.arange(len(near)), values].sum(1)
        torch.testing.assert_close(found, energy.local_field(x)[:, i])
    assert sum(len(rows) for _, rows in state.tables) == 21 * (40 + 2 * len(energy.pairs))  # memory grows with pairs


def test_a_chain_without_a_law_stays() -> None:
    energy = model()
    energy.field.data[1, 2] = torch.inf
    x = energy.domain.random(5).double()
    new, info = GibbsSweep().sample(energy, x, 1)
    assert torch.equal(new, x) and info.acceptance.isnan().all()


def test_couplings_that_change_between_chains_are_read_anew() -> None:
    energy = model(q=2)
    x = energy.domain.from_index(torch.zeros(200, 3)).double()
    for value in (0, 1):
        energy.field.data.zero_()[:, value] = 100.0
        x, info = GibbsSweep().sample(energy, x, 1)
        assert bool((energy.domain.to_index(x) == value).all())
        assert bool((info.hops == 3 * value).all())


def test_another_forward_has_no_tables() -> None:
    class Doubled(Potts):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    energy: Energy = Doubled(2, 3).double()
    torch.nn.init.normal_(energy.coupling)
    torch.nn.init.normal_(energy.field)
    assert GibbsSweep().init(energy, energy.domain.random(2).double()).tables is None
    assert_invariant(GibbsSweep(), energy)


def test_an_unknown_scan_is_refused() -> None:
    with pytest.raises(UserError, match="scan is 'sideways', but must be systematic or random"):
        GibbsSweep("sideways")  # type: ignore[arg-type]
