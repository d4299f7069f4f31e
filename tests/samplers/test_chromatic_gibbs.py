"""ChromaticGibbs: a sweep's exact transition matrix on small graphs, by every outcome and as a product, mutants."""

from __future__ import annotations

from functools import reduce

import pytest
import torch
from helpers_blocks import Table, block_matrix
from helpers_errors import refused
from helpers_finite import Exact, Target, convergence_distance, invariance_p
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Real, Spin
from ebmlab.energies import Energy, Ising
from ebmlab.errors import UserError
from ebmlab.samplers.chromatic_gibbs import ChromaticGibbs, sites_first, sweep
from ebmlab.samplers.gibbs import Gibbs


class Pairwise(Energy):
    """E = the sum over edges (i, j) of T_ij[x_i, x_j] plus the sum over sites of U_i[x_i], with tables at random."""

    def __init__(
        self, domain: Finite, edges: list[tuple[int, int]], colours: list[list[int]], scale: float = 1
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        n, s = domain.size, domain.num_values
        self.domain = domain
        self.colours = [torch.tensor(sites) for sites in colours]
        self.edges = {e: scale * torch.randn(s, s, dtype=torch.float64, generator=generator) for e in edges}
        self.sites = scale * torch.randn(n, s, dtype=torch.float64, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        value = self.domain.to_index(x).flatten(1)
        energy = sum(u[value[:, i]] for i, u in enumerate(self.sites))
        energy = energy + sum(table[value[:, i], value[:, j]] for (i, j), table in self.edges.items())
        return energy.to(x.dtype)

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        value = self.domain.to_index(x).flatten(1)
        field = self.sites.expand(len(x), -1, -1).clone()
        for (i, j), table in self.edges.items():
            field[:, i] += table[:, value[:, j]].T
            field[:, j] += table[value[:, i]]
        logits = -field[:, sites].to(x.dtype)
        return logits if self.domain.num_values != 2 else logits[..., 1] - logits[..., 0]


CYCLE = [(0, 1), (1, 2), (2, 3), (0, 3)]
GRAPHS = {
    "lattice of spins": (
        Spin((2, 3)),
        [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)],
        [[0, 2, 4], [1, 3, 5]],
    ),
    "cycle of bits": (Binary(4), CYCLE, [[0, 2], [1, 3]]),
    "cycle of classes": (Categorical((2, 2), 3), CYCLE, [[2, 0], [1, 3]]),
    "kite of integers": (Ordinal(4, 3), [(0, 1), (1, 2), (0, 2), (2, 3)], [[0, 3], [1], [2]]),
}
every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
Graph = tuple[Finite, list[tuple[int, int]], list[list[int]]]


@cases("graph", GRAPHS, fast=("cycle of classes", "kite of integers"))
def test_a_sweep_is_one_gibbs_step_for_each_site(graph: Graph) -> None:
    """The sweep's P is the product of the single sites' P in the order of the colours, and pi P = pi."""
    energy = Pairwise(*graph)
    sweep, pi = block_matrix(ChromaticGibbs(), energy), Exact(energy).probabilities
    single = [block_matrix(Gibbs(), energy, at=int(i)) for sites in energy.colours for i in sites]
    torch.testing.assert_close(sweep, reduce(torch.matmul, single), rtol=1e-9, atol=1e-14)
    assert float((pi @ sweep - pi).abs().max()) < 1e-12


@cases("graph", GRAPHS, fast=("cycle of classes", "kite of integers"))
def test_exact_draws_stay_exact(graph: Graph) -> None:
    energy = Pairwise(*graph)
    assert invariance_p(ChromaticGibbs(), energy) > PASS
    assert convergence_distance(ChromaticGibbs(), energy, num_steps=20, num_chains=20_000) < 0.04


@every_graph
def test_one_step_is_one_sweep(graph: Graph) -> None:
    domain, edges, colours = graph
    energy = Pairwise(domain, edges, colours, scale=0)
    torch.manual_seed(0)
    x = domain.random(500).double()
    before = x.clone()
    state, info = ChromaticGibbs().step(energy, ChromaticGibbs().init(energy, x))
    assert torch.equal(x, before), "the start was changed in place"
    moved = (domain.to_index(state.x) != domain.to_index(x)).flatten(1).double().mean(0)
    assert (moved - (1 - 1 / domain.num_values)).abs().max() < 0.1, "every coordinate is redrawn"
    assert info.evaluations == 1 and state.step == 1 and (info.acceptance == 1).all()


def test_states_of_any_memory_layout() -> None:
    energy = Pairwise(*GRAPHS["cycle of classes"])
    torch.manual_seed(0)
    x = energy.domain.random(50).double()
    ends = []
    for start in (x, x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2), x[:1].expand(50, -1, -1, -1)):
        torch.manual_seed(1)
        ends.append(ChromaticGibbs().sample(energy, start, 3)[0])
        energy.domain.validate(ends[-1])
    assert torch.equal(ends[0], ends[1])


@pytest.mark.parametrize("name", GRAPHS)
def test_a_chain_does_not_depend_on_its_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    energy = Pairwise(*GRAPHS[name])
    start, runs = energy.domain.random(8).double(), []
    for rows in (slice(None), slice(3, 4)):
        calls: list[int] = []

        def fed(x: Tensor, rows: slice = rows, calls: list[int] = calls) -> Tensor:
            calls.append(0)
            generator = torch.Generator().manual_seed(len(calls))
            uniform = torch.rand(len(x), 8, *x.shape[2:], dtype=x.dtype, generator=generator)
            return uniform[:, rows]

        with monkeypatch.context() as patch:
            patch.setattr(torch, "rand_like", fed)
            runs.append(ChromaticGibbs().sample(energy, start[rows], 10)[0])
    assert torch.equal(runs[0][3:4], runs[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@every_graph
def test_extreme_energies_of_one_chain(graph: Graph, dtype: torch.dtype) -> None:
    """The chain goes downhill until each site has its lowest energy given the others."""
    torch.manual_seed(0)
    energy = Pairwise(*graph, scale=1e4)
    x, info = ChromaticGibbs().sample(energy, energy.domain.random(1).to(dtype), 20)
    energy.domain.validate(x)
    assert x.dtype == info.acceptance.dtype == dtype and (info.acceptance == 1).all()
    assert energy.value_differences(x).min() >= 0


def test_one_state() -> None:
    energy = Pairwise(Ordinal(3, 1), [(0, 1)], [[0, 2], [1]])
    x, info = ChromaticGibbs().sample(energy, torch.zeros(2, 3), 4)
    assert not x.any() and not info.hops.any() and (info.acceptance == 1).all()


def test_nan_stays_visible() -> None:
    energy = Pairwise(*GRAPHS["cycle of bits"])
    energy.edges[0, 1][1, 0] = torch.nan
    torch.manual_seed(0)
    x = energy.domain.random(100).double()
    last, info = ChromaticGibbs().sample(energy, x, 1)
    broken = info.acceptance.isnan()
    assert broken.any() and not broken.all() and torch.equal(last[broken], x[broken])
    energy.domain.validate(last)


def test_run_goes_step_by_step_after_a_nan() -> None:
    energy = Pairwise(*GRAPHS["cycle of bits"])
    energy.edges[0, 1][1, 0] = torch.nan
    x = energy.domain.random(100).double()
    torch.manual_seed(0)
    for _ in range(3):  # the sweeps in vain
        sweep(energy, *sites_first(energy, x))
    reports = list(ChromaticGibbs().chain(energy, x, 3))
    torch.manual_seed(0)
    last, info = ChromaticGibbs().sample(energy, x, 3)
    assert torch.equal(last, reports[-1][0].x)
    hops = torch.stack([report.hops for _, report in reports]).mean(0)
    torch.testing.assert_close(info.hops, hops)
    torch.manual_seed(0)
    assert torch.equal(ChromaticGibbs().last_states(energy, x, 3), last)


BEGIN = "graph, total = cast(Coloured, energy), x.new_zeros(len(x))"
MUTANTS = {
    "wrong sign": ("draw_sites(graph.conditional", "draw_sites(-graph.conditional"),
    "stale fields": (BEGIN, f"{BEGIN}\nx = x.clone()"),
    "all sites of one colour": ("graph.colours if groups is None else groups", "[torch.cat(graph.colours)]"),
}


@cases(("old", "new"), MUTANTS, fast=list(MUTANTS)[:1])
@cases("graph", GRAPHS, fast=list(GRAPHS)[:1])
def test_mutants_are_caught(graph: Graph, old: str, new: str) -> None:
    assert invariance_p(mutant(ChromaticGibbs, old, new)(), Pairwise(*graph)) < FAIL


def test_check_names_what_is_wrong() -> None:
    ChromaticGibbs().check(Pairwise(*GRAPHS["cycle of bits"]))
    target = Table(Target(Spin(4), "cubic"))
    with refused(r"ChromaticGibbs .* \(Ising or Potts\), but Table has no colours"):
        ChromaticGibbs().check(target)
    target.domain = Real(4)
    with pytest.raises(UserError, match=r"ChromaticGibbs samples Binary or Spin or .* Real\(4\)"):
        ChromaticGibbs().check(target)


@pytest.mark.parametrize("side", [3, 20], ids=["matrix", "lists"])
@pytest.mark.parametrize("inference", [False, True])
def test_couplings_may_change_without_a_word(side: int, inference: bool) -> None:
    """A write through `.data`, or to tensors made in inference mode, does not count as a change in torch."""
    with torch.inference_mode(inference):
        energy = Ising.lattice(side, 0.1, periodic=False)
        sampler, x = ChromaticGibbs(), torch.ones(500, side * side)
        sampler.last_states(energy, x, 1)
        weights = energy.neighbours.weights if energy.sparse else energy.coupling
        assert energy.sparse == (side == 20)
        weights.data.mul_(50)
        assert (sampler.last_states(energy, x, 1) == 1).all(), "spins of a strong magnet have turned over"
        if not energy.sparse:
            weights.data[0, 4] = weights.data[4, 0] = 5.0
            assert all(not {0, 4} <= set(sites.tolist()) for sites in energy.colours)
