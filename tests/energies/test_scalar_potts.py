"""The Potts model against the printed sum over edges, enumeration, autograd and the Ising model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ebmlab.domains import Categorical, Spin
from ebmlab.energies import Energy
from ebmlab.energies.pairwise.ising import Ising
from ebmlab.energies.pairwise.scalar_potts import ScalarPotts
from ebmlab.errors import UserError

TIGHT = {"rtol": 1e-11, "atol": 1e-11}


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def lopsided(sparse: bool) -> ScalarPotts:
    """3 classes, unequal couplings and fields; 5 sites, all joined, or a sparse ring of 300 with an isolated one."""
    if not sparse:
        a = normal(5, 5)
        return ScalarPotts((a + a.T).fill_diagonal_(0), normal(5, 3), num_values=3)
    ring, sites = torch.zeros(300, 300, dtype=torch.float64), torch.arange(299)
    ring[sites, (sites + 1) % 299] = normal(299) + 3
    return ScalarPotts(ring + ring.T, normal(300, 3))


def draw(energy: ScalarPotts, n: int) -> Tensor:
    torch.manual_seed(1)
    return energy.domain.random(n).double()


both_paths = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])


@both_paths
def test_energy_is_the_sum_over_edges(sparse: bool) -> None:
    energy = lopsided(sparse)
    assert energy.sparse is sparse
    x = draw(energy, 4)
    classes, expected = energy.domain.to_index(x), torch.zeros(4, dtype=torch.float64)
    for i in range(classes.shape[1]):
        expected -= energy.field[i][classes[:, i]]
    for i, j in energy.coupling.nonzero().tolist():
        if i < j:
            expected -= energy.coupling[i, j] * (classes[:, i] == classes[:, j])
    torch.testing.assert_close(energy(x), expected, **TIGHT)


@pytest.mark.parametrize("inference", [False, True])
@both_paths
def test_closed_forms(sparse: bool, inference: bool) -> None:
    energy = lopsided(sparse)
    with torch.inference_mode(inference):
        x = draw(energy, 6)
        value, grad = energy.value_and_grad(x)
        torch.testing.assert_close((value, grad), Energy.value_and_grad(energy, x), **TIGHT)
        assert grad.is_contiguous() and not grad.requires_grad
        index = torch.randint(x.shape[1], (6, 4))
        table = energy.value_differences(x)
        assert table.shape == x.shape and not (table * x).any(), "0 at the value that the site has"
        torch.testing.assert_close(
            energy.value_differences(x, index), Energy.value_differences(energy, x, index), **TIGHT
        )
        if not sparse:
            torch.testing.assert_close(table, Energy.value_differences(energy, x), **TIGHT)


@both_paths
def test_answers_have_the_type_of_j(sparse: bool) -> None:
    energy = lopsided(sparse)
    x = draw(energy, 6)
    for value, reference in zip(energy.value_and_grad(x.float()), energy.value_and_grad(x), strict=True):
        assert value.dtype == torch.float64 and torch.equal(value, reference)
    torch.testing.assert_close(energy(x[2:3]), energy(x)[2:3], **TIGHT)


@both_paths
def test_conditional_is_the_ratio_of_the_energies(sparse: bool) -> None:
    energy = lopsided(sparse)
    x = draw(energy, 4)
    for sites in energy.colours:
        assert not energy.coupling[sites][:, sites].any()
        logits = energy.conditional(x, sites)
        assert logits.shape == (4, len(sites), 3)
        differences = Energy.value_differences(energy, x, sites.expand(4, -1))
        torch.testing.assert_close(logits.log_softmax(-1), (-differences).log_softmax(-1), **TIGHT)


def test_conditional_of_an_enumerated_law() -> None:
    """p(all sites of a colour | rest) is the product of what `conditional` says."""
    energy = ScalarPotts.lattice(2, 3, coupling=0.8, field=normal(4, 3).tolist()).double()
    states = Categorical(4, 3).enumerate().double()
    p, classes = (-energy(states)).softmax(0), states.argmax(-1)
    assert [len(sites) for sites in energy.colours] == [2, 2]
    for sites in energy.colours:
        rest = [i for i in range(4) if i not in sites.tolist()]
        for start in (5, 41):
            same = (classes[:, rest] == classes[start, rest]).all(1)
            logs = energy.conditional(states[[start]], sites)[0].log_softmax(-1)
            product = logs.gather(1, classes[same][:, sites].T).sum(0).exp()
            torch.testing.assert_close(product, p[same] / p[same].sum(), **TIGHT)


def test_two_classes_are_an_ising_model() -> None:
    """[a = b] = (1 + s_a s_b) / 2, so that J halves and the energies differ by a constant."""
    potts = ScalarPotts.lattice(3, 2, coupling=0.6, field=[0.1, 0.5]).double()
    ising = Ising.lattice(3, 0.3, field=0.2).double()
    spins = Spin(9).enumerate().double()
    difference = potts(Categorical(9, 2).enumerate().double()) - ising(spins)
    torch.testing.assert_close(difference, difference[:1].expand(512), rtol=1e-6, atol=1e-6)


def test_lattice_edges_and_field() -> None:
    energy = ScalarPotts.lattice(4, 5, coupling=0.3)
    assert int((energy.coupling != 0).sum()) == 2 * 32 and energy.domain.event_shape == (16, 5)
    assert not energy.field.any() and energy.field.shape == (16, 5)
    assert torch.equal(
        ScalarPotts.lattice(2, 3, coupling=1.0, field=[1.0, 2.0, 3.0]).field, torch.tensor([1.0, 2.0, 3.0]).expand(4, 3)
    )
    assert int((ScalarPotts.lattice(4, 5, coupling=0.3, periodic=False).coupling != 0).sum()) == 2 * 24
    one = ScalarPotts([[0.0]], num_values=1)
    assert one.value_and_grad(torch.ones(2, 1, 1))[0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScalarPotts([[0.0, 1.0], [0.5, 0.0]]), "ScalarPotts: coupling is not symmetric"),
        (lambda: ScalarPotts([[0.0, 1.0], [1.0, 0.0]], field=[1.0, 2.0]), r"ScalarPotts: field must be .* \(2, 3\)"),
        (lambda: ScalarPotts([[0.0, 1.0], [1.0, 0.0]], num_values=0), "num_values is 0"),
    ],
)
def test_errors(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]
