"""States of several kinds: their domain, rows of mixed tables, and kernels that move part by part."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest
import scipy.stats
import torch
from helpers_errors import refused
from helpers_trainer import quiet_trainer

from ebmlab.data import mixed
from ebmlab.datamodules import Arrays
from ebmlab.domains import Binary, Categorical, Ordinal, Real, Spin
from ebmlab.energies import Energy, Part, ProductMLP
from ebmlab.energies.laws import of_chains
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.product import Product
from ebmlab.samplers import DMALA, HMC, MALA, NUTS, ULA, Alternate, DiscreteHAMS, DiscreteSVGD, Gibbs

GRID = torch.linspace(-6, 6, 2401, dtype=torch.float64)
CELLS = 8  # of the real number, in the chi-square test


class Mixed(Energy):
    """3 bits and a real number, whose law given the bits is neither symmetric nor normal."""

    domain = Product(bits=Binary(3), place=Real(1))

    def forward(self, x):
        a, b, c, r = x.unbind(1)
        return r**4 / 8 + (0.5 + a) * r**2 / 2 - r * (1.2 * a - 0.9 * b + 0.4 * c) + 0.8 * a * b - 0.5 * c + 0.3 * b


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def law():
    """All states of the bits with the real number on a grid, and their probabilities, `(8, 2401)`."""
    bits = Binary(3).enumerate().double()
    states = torch.cat([bits[:, None].expand(-1, len(GRID), -1), GRID[None, :, None].expand(8, -1, -1)], 2)
    return states, (-Mixed()(states.flatten(0, 1))).softmax(0).view(8, -1)


def exact_draws(n):
    states, p = law()
    x = states.flatten(0, 1)[torch.multinomial(p.flatten(), n, replacement=True)]
    x[:, 3] += (torch.rand(n, dtype=torch.float64) - 0.5) * (GRID[1] - GRID[0])
    return x


def cells(x):
    """The number of the cell that a state is in: its bits, and the place of its real number."""
    edges = torch.linspace(-2.2, 2.2, CELLS - 1, dtype=torch.float64)
    return (x[:, :3] @ torch.tensor([4.0, 2.0, 1.0], dtype=x.dtype)).long() * CELLS + torch.bucketize(
        x[:, 3].contiguous(), edges
    )


def p_value(x):
    """Of a chi-square test of states `(n, 4)` against the law by enumeration and quadrature."""
    states, p = law()
    expected = torch.zeros(8 * CELLS, dtype=torch.float64).index_add(0, cells(states.flatten(0, 1)), p.flatten())
    found = torch.bincount(cells(x), minlength=8 * CELLS)
    few = expected * len(x) < 10
    found, expected = ([*v[~few], v[few].sum()] for v in (found.double(), expected * len(x)))
    kept = [(f, e) for f, e in zip(found, expected, strict=True) if e > 0]
    return scipy.stats.chisquare([f for f, _ in kept], [e for _, e in kept], sum_check=False).pvalue


EXACT = [
    Alternate(bits=DMALA(0.6), place=MALA(0.4)),
    Alternate(place=HMC(0.7, num_leapfrog=2), bits=Gibbs()),
    pytest.param(Alternate(place=NUTS(0.6, max_depth=3), bits=DiscreteHAMS(0.5)), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("sampler", EXACT, ids=lambda s: "-".join(type(k).__name__ for k in s.kernels.values()))
def test_exact_draws_stay_exact_and_a_bad_start_gets_there(sampler):
    assert sampler.exact
    x, info = sampler.sample(Mixed(), exact_draws(30000), 2)
    assert p_value(x) > 1e-4
    assert 0.1 < info.acceptance.mean() <= 1 and info.hops.mean() > 0.1
    start = torch.tensor([[1.0, 1.0, 0.0, -1.5]], dtype=torch.float64).expand(5000, -1)
    assert p_value(start) < 1e-100
    assert p_value(sampler.last_states(Mixed(), start, 40)) > 1e-4


def test_wrong_kernels_are_caught(monkeypatch):
    start = exact_draws(60000)
    unadjusted = Alternate(bits=DMALA(0.6), place=ULA(0.4))
    assert not unadjusted.exact
    assert p_value(unadjusted.last_states(Mixed(), start, 3)) < 1e-4

    def stale(self, x):  # the other parts are those of another chain
        return self._product.join(self._product.split(self.x.roll(1, 0)) | {self.name: x})

    monkeypatch.setattr(Part, "merge", stale)
    assert p_value(Alternate(bits=DMALA(0.6), place=MALA(0.4)).last_states(Mixed(), start, 3)) < 1e-4


def test_a_part_has_the_conditional_energies_gradients_and_neighbours():
    energy, x = Mixed(), exact_draws(5)
    place, bits = Part(energy, "place", x=x), Part(energy, "bits", x=x)
    r = torch.randn(5, 1, dtype=torch.float64)
    whole = torch.cat([x[:, :3], r], 1)
    value, grad = place.value_and_grad(r)
    assert torch.equal(value, energy(whole))
    assert torch.allclose(grad, energy.value_and_grad(whole)[1][:, 3:])
    flips = bits.flip_differences(x[:, :3])
    for i in range(3):
        other = x.clone()
        other[:, i] = 1 - other[:, i]
        assert torch.allclose(flips[:, i], energy(other) - energy(x))
    index = torch.tensor([3, 0])
    assert torch.equal(of_chains(place, index, len(r))(r[index]), value[index])
    with pytest.raises(UserError, match="7 states do not belong to 5 chains"):
        bits(torch.zeros(7, 3))
    with pytest.raises(UserError, match="no part colour"):
        Part(energy, "colour", x=x)


def test_categories_keep_their_law_beside_numbers():
    """A class from 3 and a real number: p(class) by quadrature, and every state stays one of the domain."""
    domain = Product(kind=Categorical(1, 3), place=Real(1))

    class Kinds(Energy):
        def __init__(self):
            super().__init__()
            self.domain = domain

        def forward(self, x):
            centre, depth = x[:, :3] @ x.new_tensor([-1.0, 0.5, 2.0]), x[:, :3] @ x.new_tensor([0.0, 0.7, 0.3])
            return (x[:, 3] - centre) ** 2 * (1 + depth) / 2 + depth

    x = Alternate(kind=Gibbs(), place=MALA(0.8)).last_states(Kinds(), domain.random(5000).double(), 30)
    domain.validate(x)
    depth = torch.tensor([0.0, 0.7, 0.3])
    expected = (-depth).exp() / (1 + depth).sqrt()
    found = domain.split(x)["kind"].mean(0).flatten()
    assert torch.allclose(found.float(), expected / expected.sum(), atol=4 * 0.5 / 5000**0.5)


def test_a_product_takes_states_apart_and_puts_them_together():
    domain = Product(a=Spin((2, 2)), b=Categorical(2, 3), c=Real(2), d=Ordinal(1, 5))
    x = domain.random(50)
    domain.validate(x)
    assert x.shape == (50, 4 + 6 + 2 + 1) and domain.size == 4 + 2 + 2 + 1
    parts = domain.split(x)
    assert parts["b"].shape == (50, 2, 3) and torch.equal(domain.join(parts), x)
    new = x.clone()
    new[:, 0] *= -1
    new[:, 10] += 3.0
    new[:, 11] += 4.0
    assert torch.allclose(domain.hops(new, x), torch.tensor(6.0))
    assert (
        repr(copy.deepcopy(domain))
        == repr(domain)
        == "Product(a=Spin(2x2), b=Categorical(2x3), c=Real(2), d=Ordinal(1, num_values=5))"
    )


def test_what_is_no_product_or_no_state_of_one_is_one_line():
    domain = Product(bits=Binary(2), place=Real(1))
    energy = ProductMLP(domain, hidden_dim=4)
    x = domain.random(3)
    broken, nan = x.clone(), x.clone()
    broken[1, 0], nan[2, 2] = 0.5, torch.nan
    for call, words in (
        (lambda: Product(), "has no parts"),
        (lambda: Product(a=3), "a is 3, but must be a domain"),
        (lambda: Product(a=domain), "must be a domain"),
        (lambda: Product.of_columns([1]), "classes from 2"),
        (lambda: domain.validate(broken), "bits: state number 1, counted from 0, is not in Binary"),
        (lambda: domain.validate(nan), "1 of 3 states are not finite"),
        (lambda: domain.validate(x[:, :2]), "have shape"),
        (lambda: domain.join({"bits": x}), "have parts bits, place, got bits"),
        (lambda: domain.join({"bits": x[:, :1], "place": x[:, :2]}), r"states of Binary\(2\) have shape \(B, 2\)"),
        (lambda: domain.split(x[:, :2]), r"have shape \(B, 3\), got \(3, 2\)"),
        (lambda: domain.with_shape(3), "no other shape"),
        (lambda: Alternate(bits=Gibbs()).sample(energy, x, 1), "name a sampler for each part"),
        (lambda: Alternate(bits=MALA(0.1), place=MALA(0.1)).sample(energy, x, 1), "bits: MALA samples Real"),
        (lambda: Alternate(bits=Gibbs(), place=3), "place is 3, but must be a sampler"),
        (lambda: Alternate(bits=DiscreteSVGD(0.1), place=MALA(0.1)), "move together"),
        (lambda: MALA(0.1).sample(energy, x, 1), "MALA samples Real domains"),
        (lambda: Gibbs().sample(energy, x, 1), "lives on Product"),
    ):
        with refused(words):
            call()


COLUMNS = [3, 0, 2, 0, 4, 3]


def test_rows_of_a_table_become_states_and_come_back():
    table = torch.stack([torch.randint(k, (40,)).float() if k else torch.randn(40) for k in COLUMNS], 1)
    x = mixed.to_states(table, COLUMNS)
    Product.of_columns(COLUMNS).validate(x)
    assert x.shape == (40, 2 + 1 + 2 * 3 + 4) and torch.equal(mixed.to_table(x, COLUMNS), table)
    parts = Product.of_columns(COLUMNS).split(x)
    assert torch.equal(parts["numbers"], table[:, [1, 3]]) and torch.equal(parts["bits"], table[:, [2]])
    assert torch.equal(parts["classes_3"].argmax(2), table[:, [0, 5]].long())
    table[7, 2] = 2.0
    with pytest.raises(
        UserError, match="row 7, column 2, both counted from 0, holds 2, but must hold classes from 0 to 1"
    ):
        mixed.to_states(table, COLUMNS)


def table_of(path, n=400):
    """A class that says where a number is, and a bit that follows its sign."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, n)
    height = 170 + 10 * (kind - 1) + 3 * rng.normal(size=n)
    tall = (height > 170).astype(int)
    rows = [f"{k},{h:.3f},{t}" for k, h, t in zip(kind, height, tall, strict=True)]
    path.write_text("kind,height,tall\n" + "\n".join(rows) + "\n")
    return str(path)


def test_a_table_goes_in_and_samples_and_scores_of_the_right_types_come_out(tmp_path):
    data = Arrays(table_of(tmp_path / "people.csv"), domain="mixed", categories=["kind", 2], batch_size=40)
    data.setup("fit")
    assert data.event_shape == (1 + 1 + 3,)
    domain = Product.of_columns([3, 0, 2])
    x = data.states("train")
    domain.validate(x)
    numbers = domain.split(x)["numbers"]
    assert abs(numbers.mean()) < 1e-5 and abs(numbers.std() - 1) < 0.01
    raw = data.preprocessing.to_raw(x)
    assert torch.allclose(raw.double(), data.raw("train").double(), atol=1e-3)
    assert torch.equal(raw[:, [0, 2]], data.raw("train")[:, [0, 2]])

    learner = trained(data, tmp_path, epochs=1)
    x = learner.draw(learner.energy.random(100), 5)
    domain.validate(x)
    kinds, heights, tall = data.preprocessing.to_raw(x).unbind(1)
    assert set(kinds.tolist()) == {0.0, 1.0, 2.0} and set(tall.tolist()) == {0.0, 1.0}
    assert 100 < heights.mean() < 240


def trained(data, folder, epochs):
    """Persistent contrastive divergence, a kernel for each part."""
    learner = ContrastiveDivergence(
        ProductMLP(Product.of_columns(data.preprocessing.classes), hidden_dim=32, scale=2.0),
        Alternate(numbers=MALA(0.2), bits=Gibbs(), classes_3=Gibbs()),
        start=ReplayBuffer(400),
        num_steps=3,
        optimizer=partial(torch.optim.Adam, lr=1e-2),
    )
    quiet_trainer(folder, max_epochs=epochs, limit_val_batches=0).fit(learner, datamodule=data)
    return learner


@pytest.mark.slow
def test_a_mixed_table_is_learnt(tmp_path):
    data = Arrays(table_of(tmp_path / "people.csv"), domain="mixed", categories=["kind", "tall"], batch_size=160)
    learner = trained(data, tmp_path, epochs=100)
    samples = data.preprocessing.to_raw(learner.draw(learner.energy.random(1000), 100))
    kinds, heights, tall = samples.unbind(1)
    assert heights[kinds == 0].mean() + 10 < heights[kinds == 2].mean()
    assert ((heights > 170).float() == tall).float().mean() > 0.8


def test_bad_mixed_tables_are_one_line(tmp_path):
    path = table_of(tmp_path / "people.csv")
    for options, words in (
        ({"categories": ["colour"]}, "has no column colour; it has kind, height, tall"),
        ({"categories": ["height"]}, "column height of .* must hold classes"),
        ({"domain": "real", "categories": ["kind"]}, "set domain to mixed"),
    ):
        with refused(words):
            Arrays(path, **{"domain": "mixed", **options})
