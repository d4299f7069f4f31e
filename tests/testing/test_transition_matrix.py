"""Transition matrices from a kernel's own random decisions, however it makes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers_errors import refused
from torch import Tensor

from ebmlab.domains import Binary, Ordinal, Real, Spin
from ebmlab.energies import Energy, Ising
from ebmlab.samplers import ULA, DiscreteSVGD, Gibbs, RelaxedMALA, SwendsenWang
from ebmlab.testing import ExactLaw, Rugged, transition_matrix
from ebmlab.testing.outcomes import Outcomes
from ebmlab.testing.transitions import filled

P = torch.tensor([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])  # the laws of two chains


def law_of(draw: Callable[[], Tensor]) -> Tensor:
    """The probability of 0, 1 and 2 in each of two chains, `(2, 3)`."""
    table = torch.zeros(2, 3, dtype=torch.float64)
    for result, weight in Outcomes(2, 1000).of(draw):
        table[torch.arange(2), result.long().clamp(0, 2)] += weight
    return table


def gumbel() -> Tensor:
    return -(-torch.rand(2, 3).log()).log()


DRAWS: dict[str, Callable[[], Tensor]] = {
    "inversion": lambda: (P.cumsum(1)[:, :-1] <= torch.rand(2, 1)).sum(1),
    "inversion of a sum": lambda: (3 * P.cumsum(1)[:, :-1] < torch.rand(2, 1) * 3).sum(1),
    "searchsorted": lambda: torch.searchsorted(P.cumsum(1)[:, :-1], torch.rand(2, 1), right=True).squeeze(1),
    "multinomial": lambda: P.multinomial(1).squeeze(1),
    "gumbel": lambda: (P.log() + gumbel()).argmax(1),
    "gumbel, max": lambda: (P.log() + gumbel()).max(1).indices,
    "gumbel, the first of all": lambda: (P.log() + gumbel()).topk(1).indices.squeeze(1),
    "logarithm": lambda: (torch.rand(2, 1).log() > P.cumsum(1)[:, :-1].log()).sum(1),
    "one minus": lambda: ((1 - torch.rand(2, 1)).neg() > -(1 - P.cumsum(1)[:, :-1])).sum(1),
}
DRAWS["two coins"] = lambda: (1 - torch.bernoulli(P[:, 0])) * (1 + torch.bernoulli(P[:, 2] / (1 - P[:, 0])))


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_every_way_to_draw_gives_the_law(draw: Callable[[], Tensor]) -> None:
    torch.testing.assert_close(law_of(draw), P.double(), rtol=1e-6, atol=1e-7)


UNIFORM: dict[str, Callable[[], Tensor]] = {
    "randint": lambda: torch.randint(3, (2,)),
    "randint from 5": lambda: torch.randint(5, 8, (2,), generator=torch.Generator()) - 5,
    "randint by name": lambda: torch.randint(high=3, size=(2,)),
    "rounded down": lambda: (torch.rand(2) * 3).long(),
    "floor in place": lambda: torch.rand(2).mul_(3).floor_(),
    "topk": lambda: torch.rand(2, 3).topk(2, sorted=False).indices.sum(1) - 1,
    "order": lambda: torch.rand(2, 3).argsort(1)[:, 0],
    "randperm": lambda: torch.randperm(3)[:1].expand(2),
    "shared by all chains": lambda: torch.randint(3, ()).expand(2),
}


@pytest.mark.parametrize("draw", UNIFORM.values(), ids=UNIFORM)
def test_uniform_integers(draw: Callable[[], Tensor]) -> None:
    torch.testing.assert_close(law_of(draw), torch.full((2, 3), 1 / 3, dtype=torch.float64))


def test_a_number_that_is_asked_twice_remembers() -> None:
    """u < 1/2 and then u < 1/4: the second answer depends on the first."""

    def twice() -> Tensor:
        u = torch.rand(2)
        return (u < 0.5).int() + (u < 0.25).int()

    expected = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64).expand(2, 3)
    torch.testing.assert_close(law_of(twice), expected)


def test_chains_may_lie_in_any_axis() -> None:
    def sites_first() -> Tensor:
        return (torch.rand(3, 2) < P.T).sum(0)

    table = law_of(sites_first)
    p = P.double()
    none = (1 - p).prod(1)
    one = (none.unsqueeze(1) * p / (1 - p)).nan_to_num(nan=0.0).sum(1)
    assert table[:, 0].tolist() == pytest.approx(none.tolist())
    assert table[0, 1].item() == pytest.approx(one[0].item()) and table[1, 1].item() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("draw", "what"),
    [
        (lambda: torch.nn.functional.dropout(torch.ones(2), 0.5), "draws random numbers within a function of torch"),
        (lambda: torch.randn(2), "draws numbers by torch's randn"),
        (lambda: torch.rand(2).sin(), "uses random numbers in torch's sin"),
        (lambda: torch.rand(2) + torch.rand(2), "uses random numbers in torch's add"),
        (lambda: torch.cat([torch.rand(2), torch.rand(2)]), "uses random numbers in torch's cat"),
        (lambda: torch.rand(3) < 0.5, r"of shape \(3,\), of which no axis is the chains"),
        (lambda: torch.randint(10**6, (2,)), "rounds random numbers down"),
        (lambda: torch.rand(2, 40) < 0.5, "has more than 50 outcomes"),
        (lambda: torch.rand(2, 2) < 0.5, r"of shape \(2, 2\), of which no axis is the chains"),
        (lambda: (torch.rand(2, 3) + torch.tensor([0.0, 0.0, 1.0])).argsort(1)[:, 0], "not one row of uniform ones"),
        (lambda: (torch.rand(2, 3) * torch.tensor([1.0, 1.0, 2.0])).argsort(1)[:, 0], "not one row of uniform ones"),
        (lambda: torch.zeros(2).copy_(torch.rand(2)), "uses random numbers in torch's copy_"),
    ],
)
def test_what_cannot_be_followed_is_refused(draw: Callable[[], Tensor], what: str) -> None:
    from ebmlab.testing.lazy_uniform import NotEnumerableError

    with pytest.raises(NotEnumerableError, match=what):
        list(Outcomes(2, 50).of(draw))


def test_a_plain_function_is_a_kernel() -> None:
    """Metropolis with a flip of one random bit, written with torch alone, against the formula."""

    def kernel(energy: Energy, x: Tensor) -> Tensor:
        i = torch.randint(3, (len(x), 1))
        y = x.scatter(1, i, 1 - x.gather(1, i))
        return torch.where((torch.rand(len(x)) < (energy(x) - energy(y)).exp()).unsqueeze(1), y, x)

    energy = Rugged(Binary(3))
    law = ExactLaw(energy)
    p, near = law.probabilities, torch.cdist(law.states, law.states, p=1.0) == 1
    expected = torch.where(near, (p / p.unsqueeze(1)).clamp(max=1) / 3, 0)
    expected += torch.diag(1 - expected.sum(1))
    torch.testing.assert_close(transition_matrix(kernel, energy), expected, rtol=1e-12, atol=1e-14)


def test_the_chains_axis_need_not_be_found() -> None:
    """Swendsen-Wang draws for all edges and clusters of a batch at once: chains are then run one by one."""
    energy = Ising([[0.0, 0.4], [0.4, 0.0]], 0.3)
    pi, P = ExactLaw(energy).probabilities, transition_matrix(SwendsenWang(), energy)
    assert float((pi @ P - pi).abs().max()) < 1e-12
    torch.testing.assert_close(P.sum(1), torch.ones_like(pi))


def test_a_step_of_a_schedule_has_a_number() -> None:
    """A systematic scan begins at random, so that one step averages over the blocks; every step does."""
    energy = Rugged(Spin(3))
    first, later = (transition_matrix(Gibbs(), energy, step=k) for k in (0, 2))
    torch.testing.assert_close(first, later)
    assert int((first > 0).sum(1).max()) == 4, "the state itself and three neighbours"


def test_neither_the_energy_nor_the_stream_of_random_numbers_changes() -> None:
    energy = Rugged(Ordinal(2, 3)).float()
    torch.manual_seed(0)
    transition_matrix(Gibbs(), energy)
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(1)) and energy.quadratic.dtype == torch.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: transition_matrix(Gibbs(), Rugged(Binary(13))),
            r"transition_matrix: Binary\(13\) of Rugged has 2\^13",
        ),
        (lambda: transition_matrix(ULA(0.1), Real_()), r"Real\(2\) of Real_ is not finite"),
        (
            lambda: transition_matrix(RelaxedMALA(0.1), Rugged(Binary(3))),
            r"RelaxedMALA draws numbers by torch's randn_l",
        ),
        (
            lambda: transition_matrix(DiscreteSVGD(0.1), Rugged(Binary(3))),
            r"chains of DiscreteSVGD depend on each other",
        ),
        (lambda: transition_matrix(RelaxedMALA(0.1), Rugged(Ordinal(2, 3))), r"RelaxedMALA samples Binary or Spin"),
        (lambda: ExactLaw(Nothing()), r"ExactLaw: Nothing has no law: an energy is NaN or -inf"),
        (lambda: Rugged(Binary(3), "smooth"), r'kind is "smooth", but must be "quadratic", "cubic" or "flat"'),  # type: ignore[arg-type]
    ],
)
def test_one_clear_line(call: Callable[[], object], message: str) -> None:
    with refused(message):
        call()


class Real_(Energy):  # noqa: N801
    domain = Real(2)


class Nothing(Energy):
    domain = Binary(2)

    def forward(self, x: Tensor) -> Tensor:
        return x.sum(1) * torch.nan


@pytest.mark.parametrize("shape", [(2, 3), (32, 5), (18, 19), (17, 17), (48, 7)])
def test_the_number_of_chains_is_a_prime_that_no_other_axis_has(shape: tuple[int, int]) -> None:
    """A random number's axis of that length is then that of the chains."""
    states = torch.arange(shape[0]).unsqueeze(1).expand(shape)
    many = filled(states)
    n = len(many)
    assert n >= max(17, shape[0]) and n != shape[1] and all(n % k for k in range(2, n))
    assert torch.equal(many[:, 0], torch.arange(n) % shape[0])
