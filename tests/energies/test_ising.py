"""The Ising model against the printed sum over edges, enumeration and autograd; the colours of its graphs."""

from __future__ import annotations

import copy

import pytest
import torch
from helpers_errors import refused
from torch import Tensor
from torch.nn.functional import logsigmoid

from ebmlab import graphs
from ebmlab.domains import Spin
from ebmlab.energies import Energy
from ebmlab.energies.pairwise.ising import Ising
from ebmlab.energies.pairwise.pairwise import Symmetric
from ebmlab.errors import UserError
from ebmlab.samplers import ChromaticGibbs

TIGHT = {"rtol": 1e-12, "atol": 1e-12}


def symmetric(d: int, seed: int = 0) -> Tensor:
    a = torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (a + a.T).fill_diagonal_(0)


def spins(n: int, d: int) -> Tensor:
    return 2 * torch.randint(2, (n, d), generator=torch.Generator().manual_seed(1)).double() - 1


def lopsided(sparse: bool) -> Ising:
    """Unequal couplings and fields, on 8 spins that are all joined or on a sparse ring of 300 with an isolated spin."""
    if not sparse:
        return Ising(symmetric(8), symmetric(8, 1)[0])
    ring, d = torch.zeros(300, 300, dtype=torch.float64), 299
    sites = torch.arange(d)
    ring[sites, (sites + 1) % d] = symmetric(300)[0, :d] + 3
    return Ising(ring + ring.T, symmetric(300, 1)[0])


both_paths = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])


@both_paths
def test_energy_is_the_sum_over_edges(sparse: bool) -> None:
    energy = lopsided(sparse)
    assert energy.sparse is sparse
    x, d = spins(5, len(energy.coupling)), len(energy.coupling)
    expected = torch.zeros(5, dtype=torch.float64)
    for i in range(d):
        expected -= energy.field[i] * x[:, i]
        for j in energy.coupling[i].nonzero().flatten().tolist():
            expected -= energy.coupling[i, j] * x[:, i] * x[:, j] * (j > i)
    torch.testing.assert_close(energy(x), expected, **TIGHT)


@pytest.mark.parametrize("inference", [False, True])
@both_paths
def test_closed_forms(sparse: bool, inference: bool) -> None:
    energy = lopsided(sparse)
    with torch.inference_mode(inference):
        x = spins(7, len(energy.coupling))
        value, grad = energy.value_and_grad(x)
        torch.testing.assert_close((value, grad), Energy.value_and_grad(energy, x), **TIGHT)
        assert grad.is_contiguous() and not grad.requires_grad
        at = energy.evaluate(x)
        assert torch.equal(at.energy, value) and torch.equal(at.grad, grad)
        flips = energy.flip_differences(x)
        torch.testing.assert_close(flips, Energy.flip_differences(energy, x), rtol=1e-10, atol=1e-10)
        index = torch.randint(len(energy.coupling), (7, 3))
        torch.testing.assert_close(energy.flip_differences(x, index), flips.gather(1, index), **TIGHT)
        table = energy.value_differences(x, index)
        torch.testing.assert_close(table, Energy.value_differences(energy, x, index), **TIGHT)


@both_paths
def test_answers_have_the_type_of_j_and_one_chain_does_not_know_the_others(sparse: bool) -> None:
    energy = lopsided(sparse)
    x = spins(6, len(energy.coupling))
    for value, reference in zip(energy.value_and_grad(x.float()), energy.value_and_grad(x), strict=True):
        assert value.dtype == torch.float64 and torch.equal(value, reference)
    assert copy.deepcopy(energy).float().flip_differences(x).dtype == torch.float32
    torch.testing.assert_close(energy(x[2:3]), energy(x)[2:3], **TIGHT)


@both_paths
def test_conditional_is_the_ratio_of_the_energies(sparse: bool) -> None:
    energy = lopsided(sparse)
    x = spins(4, len(energy.coupling))
    for sites in energy.colours:
        differences = energy.value_differences(x, sites.expand(4, -1))
        logits = energy.conditional(x, sites)
        torch.testing.assert_close(logits, differences[..., 0] - differences[..., 1], rtol=1e-10, atol=1e-10)


def test_conditional_of_an_enumerated_law() -> None:
    """p(all sites of a colour | rest) is the product of what `conditional` says."""
    energy = Ising.lattice(3, 0.4, field=symmetric(9)[0].tolist(), periodic=False).double()
    states = Spin(9).enumerate().double()
    p = (-energy(states)).softmax(0)
    for sites in energy.colours:
        x = states[[37]]
        rest = [i for i in range(9) if i not in sites.tolist()]
        same = (states[:, rest] == x[:, rest]).all(1)
        odds = energy.conditional(x, sites)
        product = logsigmoid(states[same][:, sites] * odds).sum(1).exp()
        torch.testing.assert_close(product, p[same] / p[same].sum(), **TIGHT)


def test_an_edge_counts_once_on_the_2_x_2_lattice() -> None:
    energy = Ising.lattice(2, 0.5, field=0.25)
    x = torch.tensor([[1.0, 1, 1, 1], [1, -1, -1, 1], [1, 1, -1, -1]])
    torch.testing.assert_close(energy(x), torch.tensor([-4 * 0.5 - 1, 4 * 0.5, 0.0]))


@pytest.mark.parametrize("side", [2, 4, 20])
def test_even_lattices_have_two_colours(side: int) -> None:
    colours = Ising.lattice(side, 0.3).colours
    assert [len(sites) for sites in colours] == [side**2 // 2] * 2


def random_bipartite() -> Tensor:
    mask = torch.rand(12, 15, generator=torch.Generator().manual_seed(0)) < 0.2
    matrix = torch.zeros(27, 27)
    matrix[:12, 12:] = mask.float()
    order = torch.randperm(27, generator=torch.Generator().manual_seed(1))
    return (matrix + matrix.T)[order][:, order]


GRAPHS = {
    "odd lattice": (graphs.lattice(5, -0.3), 3),
    "scale-free": (graphs.barabasi_albert(100, 4, coupling=0.3), 5),
    "complete": (symmetric(6), 6),
    "no edges": (torch.zeros(4, 4), 1),
    "bipartite in random order": (random_bipartite(), 2),
}


@pytest.mark.parametrize(("coupling", "most"), GRAPHS.values(), ids=GRAPHS)
def test_colours_are_proper_and_few(coupling: Tensor, most: int) -> None:
    energy = Ising(coupling)
    assert len(energy.colours) <= most
    assert sorted(torch.cat(energy.colours).tolist()) == list(range(len(coupling)))
    for sites in energy.colours:
        assert sites.dtype == torch.long and not coupling[sites][:, sites].any()
    assert energy.colours is energy.colours, "computed once"


def test_saves_loads_and_copies_with_its_graph() -> None:
    """A lattice that loads another graph of its size follows it, colours and neighbour lists too."""
    ring = torch.zeros(400, 400)
    sites = torch.arange(400)
    ring[sites, (sites + 7) % 400] = 0.2
    saved = Ising(ring + ring.T, 0.4)
    energy, x = Ising.lattice(20, 0.3), spins(3, 400).float()
    assert energy.colours and energy.sparse
    lists = {f"neighbours.{name}" for name in ("sites", "weights", "offsets")}
    assert set(energy.state_dict()) == {"field", *lists}, "J is no matrix"
    energy.load_state_dict(saved.state_dict())
    old = Ising.lattice(20, 0.3)
    old.load_state_dict({"coupling": ring + ring.T, "field": saved.field})  # a checkpoint of an earlier version
    for model in (energy, old, copy.deepcopy(energy), copy.deepcopy(energy).double()):
        assert model.sparse and torch.equal(model.coupling, (ring + ring.T).to(model.field))
        torch.testing.assert_close(model(x), saved(x).to(model.dtype), rtol=1e-5, atol=1e-6)
        assert all(not ring[s][:, s].any() for s in model.colours)


def test_extreme_fields_and_a_single_spin() -> None:
    energy = Ising([[0.0]], 1e4)
    value, grad = energy.value_and_grad(torch.ones(1, 1))
    assert value.tolist() == [-1e4] and grad.tolist() == [[-1e4]]
    assert energy.conditional(torch.ones(1, 1), energy.colours[0]).sigmoid().tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ising([[0.0, 1.0]]), r"shape \(1, 2\).*square matrix"),
        (lambda: Ising([[0.0, 1.0], [0.5, 0.0]]), r"not symmetric; \(J \+ J'\) / 2"),
        (lambda: Ising([[1.0, 0.5], [0.5, 0.0]]), "non-zero diagonal"),
        (lambda: Ising([[0.0, float("nan")], [float("nan"), 0.0]]), "not finite"),
        (lambda: Ising([[0.0, 1.0], [1.0]]), "coupling is no array of numbers: its rows have different lengths"),
        (lambda: Ising.lattice(3, 0.3, field=[1.0, 2.0]), r"field must be a number or .* \(9,\)"),
        (lambda: Ising.lattice(3, 0.3, field=float("inf")), "field has entries that are not finite"),
        (lambda: Ising.lattice(0, 0.3), "side is 0"),
        (lambda: Ising.barabasi_albert(4, 4, coupling=0.3), "num_edges is 4, but must be from 1 to num_nodes - 1 = 3"),
    ],
)
def test_errors(make: object, message: str) -> None:
    with refused(message):
        make()  # type: ignore[operator]


def test_learnt_couplings_stay_symmetric_and_agree_with_given_ones() -> None:
    torch.manual_seed(0)
    coupling = torch.randn(5, 5).triu(1)
    given = Ising(coupling + coupling.T, torch.randn(5))
    learnt = Ising(given.coupling, given.field, learn=True)
    x = given.domain.random(7)
    torch.testing.assert_close(learnt(x), given(x))
    torch.testing.assert_close(learnt.flip_differences(x), given.flip_differences(x))
    for a, b in zip(learnt.value_and_grad(x), given.value_and_grad(x), strict=True):
        torch.testing.assert_close(a, b)
    optimizer = torch.optim.SGD(learnt.parameters(), lr=0.1)
    learnt(x).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert torch.equal(learnt.coupling, learnt.coupling.T) and (learnt.coupling.diagonal() == 0).all()
    pairs = torch.einsum("bi,bj->ij", x, x).fill_diagonal_(0)
    torch.testing.assert_close(learnt.coupling, given.coupling + 0.1 * pairs)  # dE/dJ_ij = -x_i x_j, i < j
    torch.testing.assert_close(learnt.field.detach(), given.field + 0.1 * x.sum(0))


def test_learnt_couplings_are_never_stale() -> None:
    """Chains use the current couplings after an optimizer step, loading, a copy or a change of precision."""
    energy, other, x = Ising.learnable(3), Ising.learnable(3), torch.tensor([[1.0, 1.0, -1.0]])

    def agrees(energy: Ising) -> bool:
        upper = energy.parametrizations.coupling.original.detach().triu(1)  # type: ignore[union-attr, operator]
        with torch.no_grad():
            return torch.equal(energy.coupling, upper + upper.T)

    assert agrees(energy)
    with torch.no_grad():
        other.parametrizations.coupling.original.normal_()  # type: ignore[union-attr]
    for fused in (False, True):  # a fused optimizer does not raise the version counter of the parameters
        optimizer = torch.optim.Adam(energy.parameters(), lr=0.1, fused=fused)
        for _ in range(3):
            energy(x).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            assert agrees(energy)
    energy.parametrizations.coupling.original.data.copy_(torch.ones(3, 3))  # type: ignore[union-attr]
    assert agrees(energy), "Lightning's averaging swaps weights in this way"
    energy.load_state_dict(other.state_dict())
    assert agrees(energy) and agrees(copy.deepcopy(energy)) and agrees(energy.double())


def test_neighbours_of_learnt_couplings_are_differentiable() -> None:
    torch.manual_seed(0)
    energy = Ising.learnable(4).double()
    assert type(energy).__name__ == "Ising", "what messages call it"
    assert not energy.coupling.any() and [p.shape for p in energy.parameters()] == [(4,), (4, 4)]
    with torch.no_grad():
        for p in energy.parameters():
            p.normal_()
    x, index = energy.domain.random(3).double(), torch.tensor([[0, 2], [1, 1], [3, 0]])
    for pick in (None, index):
        fast, slow = energy.flip_differences(x, pick), Energy.flip_differences(energy, x, pick)
        torch.testing.assert_close(fast, slow)
        for a, b in zip(
            *(torch.autograd.grad(d.square().sum(), list(energy.parameters())) for d in (fast, slow)), strict=True
        ):
            torch.testing.assert_close(a, b)


def test_learnt_couplings_have_no_colours() -> None:
    with pytest.raises(UserError, match="use Gibbs in place of ChromaticGibbs"):
        ChromaticGibbs().sample(Ising.learnable(4), torch.ones(2, 4), 1)


def test_the_symmetric_matrix_is_made_anew_only_when_its_entries_change(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    plain = Symmetric.make
    monkeypatch.setattr(Symmetric, "make", staticmethod(lambda matrix: made.append(1) or plain(matrix)))
    symmetric, matrix = Symmetric(), torch.tensor([[5.0, 1.0], [7.0, 5.0]])
    with torch.no_grad():
        for _ in range(3):
            assert symmetric(matrix).tolist() == [[0, 1], [1, 0]]
        assert len(made) == 1
        matrix[0, 1] = 2.0
        assert symmetric(matrix).tolist() == [[0, 2], [2, 0]]
        assert symmetric(matrix.double()).dtype == torch.float64
        assert len(made) == 3


@torch.no_grad()
def test_couplings_that_change_in_place_reach_every_colour() -> None:
    """As where chains follow a training: `Trajectory` writes into an energy's buffers."""
    ising = lopsided(sparse=True)
    assert len(ising.colours) > 1 and ising.sparse
    ising.neighbours.weights.mul_(-2.0)
    x = spins(5, 300)
    for sites in ising.colours:
        torch.testing.assert_close(ising.local_field(x, sites), ising.local_field(x)[:, sites], **TIGHT)


@torch.no_grad()
def test_an_edge_that_appears_parts_its_colour() -> None:
    ising = Ising(torch.zeros(2, 2))
    assert len(ising.colours) == 1
    ising.coupling.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    assert len(ising.colours) == 2


def test_a_learnt_model_has_compiled_chains() -> None:
    """The cache of the symmetric matrix, which compares tensors, is passed over while a program is compiled."""
    ising, x = Ising.learnable(4), spins(3, 4).float()
    with torch.no_grad():
        field = ising.local_field(x)  # fills the cache
        compiled = torch.compile(ising.local_field, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), field)


@pytest.mark.parametrize("name", ["sites", "weights", "offsets"])
def test_lists_of_a_file_that_do_not_fit_together_are_refused(name: str) -> None:
    energy = Ising.lattice(20, 0.3)
    saved = energy.state_dict()
    part = saved[f"neighbours.{name}"]
    saved[f"neighbours.{name}"] = part + 5 if name == "offsets" else part[:-4].clone()
    with pytest.raises(UserError, match="do not fit together; the file is damaged"):
        energy.load_state_dict(saved)
    assert energy(torch.ones(2, 400)).tolist() == pytest.approx([-240, -240])
