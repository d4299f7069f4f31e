"""GibbsSweep: exact transition matrices on both ways, a sweep as a product of conditionals, mutants."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from helpers_family import drawn_potts
from helpers_finite import MOSTLY_TWO_DOMAINS, Exact, Target
from helpers_mutants import mutant
from torch import nn

from ebmlab.domains import Finite
from ebmlab.energies import Bridge, Clamped, Energy, Frequencies, Potts, Scaled, TemperedEnergy, Uniform
from ebmlab.energies.pairwise import site_tables as tables_module
from ebmlab.errors import UserError
from ebmlab.samplers import GibbsSweep
from ebmlab.samplers.gibbs_sweep import SiteLaws
from ebmlab.testing import assert_invariant, transition_matrix

PAIRS = {"dense": None, "some pairs": [[2, 0]], "no pairs": []}
SCANS = ("systematic", "random")


class OwnForward(Potts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)


def model(pairs: Any = None, d: int = 3, q: int = 3) -> Potts:
    return drawn_potts(d, q, pairs, seed=2)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("pairs", PAIRS.values(), ids=PAIRS)
def test_a_sweep_by_tables_leaves_the_law_invariant(pairs: Any, scan: Any) -> None:
    found = assert_invariant(GibbsSweep(scan), model(pairs, q=2 if scan == "random" else 3))
    assert found.exact and found.error < 1e-12


@pytest.mark.parametrize("scan", SCANS)
@MOSTLY_TWO_DOMAINS
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
    own = copy.deepcopy(energy)
    own.__class__ = OwnForward  # has no tables
    for sampled in (energy, own):
        torch.testing.assert_close(transition_matrix(GibbsSweep(), sampled), expected, rtol=1e-10, atol=1e-13)


def frequencies(d: int = 3, q: int = 3) -> Frequencies:
    return Frequencies(torch.randn(d, q, generator=torch.Generator().manual_seed(1)).softmax(-1)).double()


def given_two(d: int, q: int, pairs: Any = None) -> Clamped:
    """The law of all sites but the second and the last."""
    potts = model(pairs, d + 2, q)
    return Clamped(potts, potts.random(1)[0], mask=[i in (1, d + 1) for i in range(d + 2)])


def by_tables(d: int = 3, q: int = 3) -> dict[str, Energy]:
    """Potts models given some sites, at other temperatures, and on the way from independent sites."""
    potts = model(d=d, q=q)
    return {
        "tempered": Scaled(potts, 2.5),
        "from uniform": Bridge(Uniform(potts.domain), potts, beta=0.3),
        "from frequencies": Bridge(frequencies(d, q), potts, beta=0.3),
        "at the base": Bridge(frequencies(d, q), potts, beta=0.0),
        "tempered at the end": Bridge(frequencies(d, q), Scaled(potts, 0.5), beta=0.8),
        "given some sites": given_two(d, q),
        "given some sites, some pairs": given_two(d, q, [[0, 2], [1, 2], [3, 4]]),
        "given some sites, tempered": Scaled(given_two(d, q), 0.5),
    }


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("name", by_tables())
def test_a_sweep_by_tables_of_what_is_made_of_a_model_leaves_the_law_invariant(name: str, scan: Any) -> None:
    energy = by_tables(q=2 if scan == "random" else 3)[name]
    assert cast(Any, GibbsSweep(scan).init(energy, energy.random(2))).laws is not None
    found = assert_invariant(GibbsSweep(scan), energy)
    assert found.exact and found.error < 1e-12


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("logits * laws.factor", "logits"),
        ("laws.others[..., table.begin + i, :]", "laws.others[..., i, :]"),
        ("+ laws.others", "- laws.others"),
    ],
)
def test_wrong_factors_and_fields_are_found(old: str, new: str) -> None:
    wrong = mutant(GibbsSweep, old, new)()  # before, for it raises if there is no such text
    with pytest.raises(AssertionError):
        assert_invariant(wrong, by_tables(d=4, q=2)["from frequencies"])


def test_chains_at_temperatures_of_their_own_sweep_as_each_at_its_own() -> None:
    potts, betas = model(d=5), torch.tensor([0.2, 0.9, 0.5], dtype=torch.float64)
    x = potts.random(3)

    def swept(beta: Any) -> torch.Tensor:
        torch.manual_seed(0)
        return GibbsSweep().last_states(TemperedEnergy(potts, beta), x, 20)

    together = swept(betas)
    for i, beta in enumerate(betas):
        assert together[i].equal(swept(beta)[i])


@torch.no_grad()
def test_a_path_without_tables_of_its_own_is_swept_one_by_one() -> None:
    inner = Bridge(frequencies(), model(), beta=0.5)
    energy = Scaled(inner, 2.0)
    assert cast(Any, GibbsSweep().init(energy, energy.random(2))).laws is None
    assert assert_invariant(GibbsSweep(), energy).error < 1e-12


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
    tables = lambda self, joint: wrong(self.pairs, self.coupling, self.field)  # noqa: E731
    monkeypatch.setattr(type(energy), "site_tables", tables)
    with pytest.raises(AssertionError):
        assert_invariant(GibbsSweep(), energy)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("blocks[j[after], :, m] = coupling[after].mT", "pass"),  # one site of a pair alone feels it
        ("blocks[i[before], :, m] = coupling[before]", "pass"),
        ("coupling[after].mT", "coupling[after]"),
        ("coupling[before]", "coupling[before].mT"),
        ("own.permute(2, 0, 1, 3)", "own.permute(2, 0, 3, 1)"),  # a and b exchanged within a table
        ("own.zero_().diagonal", "own.diagonal"),  # pairs within a table count twice
        ("field[begin:begin + k].T.expand(q, q, k)", "field[begin:begin + k].T.unsqueeze(1).expand(q, q, k)"),
    ],
)
def test_wrong_joint_tables_are_found(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = mutant(tables_module.joint_tables, old, new)
    energy = model(d=3)
    tables = lambda self, joint: wrong(self.pairs, self.coupling, self.field, 2)  # noqa: E731
    monkeypatch.setattr(type(energy), "site_tables", tables)
    with pytest.raises((AssertionError, RuntimeError)):
        assert_invariant(GibbsSweep(), energy)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(torch.arange(len(sites), device=sites.device) - sites) * q", "-sites * q"),
        ("places = Merge(valid)(places, state.places)", "places = state.places"),  # stands still
    ],
)
def test_wrong_sweeps_are_found(old: str, new: str) -> None:
    with pytest.raises((AssertionError, IndexError, RuntimeError, UserError)):
        assert_invariant(mutant(GibbsSweep, old, new)(), model([[2, 0]], d=4, q=2))  # few pairs


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("own = places[:, table.begin:table.begin + k] - first", "own = places[:, :k]"),
        ("i * q", "0 * q"),  # the place of another site
        ("table.within[i]", "table.within[0]"),
        ("table.within is not None", "False"),
        ("out=own[:, i]", "out=own.clone()[:, i]"),
    ],
)
def test_wrong_sweeps_by_joint_tables_are_found(old: str, new: str) -> None:
    with pytest.raises((AssertionError, IndexError, RuntimeError)):
        assert_invariant(mutant(GibbsSweep, old, new)(), model(d=4, q=2))


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("pairs", [None, [[3, 0], [30, 7], [7, 9], [39, 38]]], ids=["dense", "some pairs"])
def test_rows_add_up_to_the_local_field(pairs: Any, scan: Any) -> None:
    energy = model(pairs, d=40, q=21)
    x = energy.domain.random(6).double()
    state, values = GibbsSweep(scan).init(energy, x), cast(Finite, energy.domain).to_index(x)
    assert state.laws is not None and state.places is not None
    for begin, sites, rows, within in state.laws.tables:
        near = torch.arange(40) if sites is None else sites
        k = 1 if within is None else len(within)
        assert not rows[:, k * 21 :].any()
        found = rows[:, : k * 21].view(len(near), 21, k, 21)[torch.arange(len(near)), values[:, near]].sum(1)
        if within is not None:
            inner = within.view(k, k, 21, 21)[:, torch.arange(k), values[:, begin : begin + k]]
            found = found + inner.sum(2).transpose(0, 1)
        torch.testing.assert_close(found, energy.local_field(x)[:, begin : begin + k])
    joint = scan == "systematic" and pairs is None
    assert len(state.laws.tables) == (14 if joint else 40)
    if not joint:  # memory grows with pairs
        assert sum(table.rows.numel() for table in state.laws.tables) == 21**2 * (40 + 2 * len(energy.pairs))


@pytest.mark.parametrize("pairs", PAIRS.values(), ids=PAIRS)
def test_joint_tables_are_those_of_single_sites_at_any_size(pairs: Any) -> None:
    """Seven sites by tables of one, two, three and seven: the same chains, whatever the last table is."""
    energy = model(pairs, d=7, q=4)
    x, chains = energy.domain.random(50).double(), []
    for size in (1, 2, 3, 7):
        tables = tables_module.joint_tables(energy.pairs, energy.coupling.detach(), energy.field.detach(), size)
        torch.manual_seed(0)
        chains.append(GibbsSweep().step(energy, replace(GibbsSweep().init(energy, x), laws=SiteLaws(tables)))[0].x)
    assert all(torch.equal(chain, chains[0]) for chain in chains) and not torch.equal(chains[0], x)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("pairs", PAIRS.values(), ids=PAIRS)
def test_tables_are_kept_until_a_parameter_changes(pairs: Any, scan: Any) -> None:
    """Bit for bit the chains of tables made anew, after whatever changes a parameter."""
    energy, other = model(pairs), model(pairs)
    x = energy.domain.random(20).double()

    def held() -> Any:
        laws = GibbsSweep(scan).init(energy, x).laws
        assert laws is not None
        return laws.tables

    def check() -> None:
        chains = []
        for made in (copy.deepcopy(energy), energy):  # the copy keeps nothing
            torch.manual_seed(1)
            chains.append(GibbsSweep(scan).last_states(made, x, 3))
        assert torch.equal(*chains)

    first = held()
    assert held() is first
    check()
    optimizer = torch.optim.SGD(energy.parameters(), lr=1.0)
    energy(x).sum().backward()
    optimizer.step()
    assert held() is not first
    check()
    for change in (
        lambda: energy.field.data.add_(1.0),
        lambda: energy.coupling.data.mul_(2.0),
        lambda: setattr(energy, "field", nn.Parameter(torch.zeros_like(energy.field))),
        lambda: energy.load_state_dict(other.state_dict()),
        lambda: energy.lattice_gas_(),
    ):
        before = held()
        change()
        assert held() is not before or (len(energy.pairs) == 0 and torch.equal(energy.coupling, energy.coupling * 2))
        check()


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
    assert GibbsSweep().init(energy, energy.domain.random(2).double()).laws is None
    assert_invariant(GibbsSweep(), energy)


def test_an_unknown_scan_is_refused() -> None:
    with pytest.raises(UserError, match='scan is "sideways", but must be "systematic" or "random"'):
        GibbsSweep("sideways")  # type: ignore[arg-type]


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("pairs", PAIRS.values(), ids=PAIRS)
def test_sweeps_in_place_are_the_steps(pairs: Any, scan: Any) -> None:
    energy, sampler = model(pairs, d=5), GibbsSweep(scan)
    start = energy.domain.random(30).double()
    torch.manual_seed(0)
    state, hops = sampler.init(energy, start), torch.zeros(30)
    for _ in range(3):
        state, info = sampler.step(energy, state)
        hops = hops + info.hops / 3
    for run in (lambda: sampler.sample(energy, start, 3), lambda: (sampler.last_states(energy, start, 3), None)):
        torch.manual_seed(0)
        x, report = run()
        assert torch.equal(x, state.x) and not torch.equal(x, start)
        if report is not None:
            assert report.evaluations == 1.0 and torch.equal(report.acceptance, torch.ones(30).double())
            torch.testing.assert_close(report.hops, hops.double())
    assert torch.equal(start, start.round()) and bool((start.sum(2) == 1).all())
