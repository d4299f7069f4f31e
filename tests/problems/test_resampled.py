"""Population annealing: the law of the population and log Z against enumeration, and mutants that both tests catch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ebmlab.energies import RBM, Energy, Ising
from ebmlab.energies.paths.tempering import tempered
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_log_z
from ebmlab.evaluation.population import systematic
from ebmlab.exchange import read
from ebmlab.problems import Linear, Minimum, Qubo, Reheated, Resampled, minimise, plus_minus_j
from ebmlab.problems.chains import Words, random_chains
from ebmlab.problems.resampled import Resampling
from ebmlab.samplers import DULA, GWG, BlockGibbs, ChromaticGibbs, ChromaticMetropolis, Sampler, Tempered
from ebmlab.samplers.multi_spin import MultiSpin

CHAINS = 20_000
BITS = {("a", "b"): -3.0, ("b", "c"): 2.0, ("c", "d"): -1.5, ("a", "a"): 0.5, ("a", "d"): 1.0, ("d", "e"): -1.0}
ENERGIES: dict[str, Energy] = {
    "ferromagnet": Ising.lattice(3, 0.5, field=0.2),
    "glass": plus_minus_j(3, seed=1),
    "QUBO": Qubo(read(BITS)).energy,
}


def misfit(coupling: float) -> tuple[float, type]:
    """Chi-square of a population after three sweeps on 2 x 2 spins, on 15 degrees of freedom; and what it is."""
    torch.manual_seed(0)
    energy, last = Ising.lattice(2, coupling, field=0.3), 1.5
    states = energy.domain.enumerate().to(energy.dtype)
    found = minimise(energy, ChromaticGibbs(), Resampled(Linear(0.3, last)), num_chains=CHAINS, num_steps=3)
    assert found.log_z is not None and isinstance(found.chains, Resampling)
    law = (-last * energy(states).double()).softmax(0)
    counts = torch.bincount(((found.log_z.samples > 0).long() * torch.tensor([8, 4, 2, 1])).sum(1), minlength=16)
    return float(((counts - CHAINS * law) ** 2 / (CHAINS * law)).sum()), type(found.chains.chains)


def pulls(name: str, seeds: int, sampler: Sampler) -> Tensor:
    """How far log Z is from the truth, in its standard errors, for each seed."""
    energy, last, found = ENERGIES[name], 1.5, []
    exact = float(exact_log_z(tempered(energy, last)))
    for seed in range(seeds):
        torch.manual_seed(seed)
        one = minimise(energy, sampler, Resampled(Linear(0.01, last)), num_chains=200, num_steps=10)
        assert one.log_z is not None and one.beta == last
        found.append((one.log_z.log_z - exact) / one.log_z.std_error)
    return torch.tensor(found)


@pytest.mark.parametrize("coupling", [0.7, 0.6])
def test_the_population_has_the_law_of_the_last_beta(coupling: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """As states and, where couplings are multiples of the field, in words."""
    monkeypatch.setattr(MultiSpin, "pays", lambda *_: True)
    chi_square, kind = misfit(coupling)
    assert chi_square < 40 and (kind is Words) == (coupling == 0.6)


@pytest.mark.parametrize("name", ENERGIES)
def test_log_z_is_within_its_error(name: str) -> None:
    of_seeds = pulls(name, 6, GWG())
    assert of_seeds.abs().max() < 4 and of_seeds.square().mean() < 3


@pytest.mark.parametrize("mutant", ["no weight", "wrong sign"])
def test_parents_that_ignore_their_weights_or_turn_them_round_are_caught(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: dict[str, Callable[[Tensor], Tensor]] = {
        "no weight": lambda shares: torch.randint(len(shares), (len(shares),)),
        "wrong sign": lambda shares: systematic((1 / shares) / (1 / shares).sum()),
    }
    monkeypatch.setattr("ebmlab.problems.resampled.systematic", wrong[mutant])
    assert misfit(0.7)[0] > 400 and misfit(0.6)[0] > 400
    assert pulls("ferromagnet", 3, GWG()).abs().min() > 6


def test_chains_in_words_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MultiSpin, "pays", lambda *_: True)
    torch.manual_seed(0)
    chains, parents = random_chains(plus_minus_j(32, seed=1), ChromaticGibbs(), 100), torch.randint(100, (100,))
    before, words = chains.present(), chains.states()["now"].clone()
    chains.take(parents)
    assert isinstance(chains, Words) and torch.equal(chains.present(), before[parents])
    assert not torch.equal(chains.states()["now"], words) and not chains.states()["now"][-1].any()


def test_the_best_state_of_a_place_is_never_lost() -> None:
    """Lines die out, and with them nothing that they have found."""
    torch.manual_seed(0)
    energy, before = plus_minus_j(6, seed=3), [torch.full((70,), torch.inf)]

    def report(found: Minimum) -> bool:
        assert bool((found.energy <= before[-1]).all())
        before.append(found.energy.clone())
        return False

    schedule = Resampled(Linear(0.01, 3.0))
    found = minimise(energy, ChromaticMetropolis(), schedule, num_chains=70, num_steps=60, report=report)
    assert torch.equal(energy(found.x.float()), found.energy)
    assert found.log_z is not None and found.log_z.num_families < 70 and len(found.log_z.samples) == 70


def test_the_longest_annealing_is_shown() -> None:
    """One that has only begun, or the last short one, says less than a longer one that is over."""
    torch.manual_seed(0)
    energy = ENERGIES["glass"]
    found = minimise(energy, GWG(), Resampled(Linear(0.01, 1.5)), num_chains=50, num_steps=30)
    chains = found.chains
    assert isinstance(chains, Resampling)
    whole = chains.at
    chains.restart()
    assert chains.at.beta == 0 and chains.shown is whole
    chains.anneal([0.5, 1.5])
    assert chains.at.beta == 1.5 and chains.shown is whole
    chains.anneal([1.5] * 28)
    assert chains.shown is chains.at
    assert minimise(energy, GWG(), Linear(0.01, 1.5), num_chains=5, num_steps=2).log_z is None


def test_what_cannot_be_resampled_is_one_line() -> None:
    torch.manual_seed(0)
    glass, schedule = ENERGIES["glass"], Resampled(Linear(0.1, 1.0))
    for energy, sampler, message in (
        (glass, DULA(0.1), "DULA is not exact: take one that is"),
        (glass, Tempered(GWG(), [1.0, 0.5]), "Tempered is not exact"),
        (RBM(4, 3), BlockGibbs(), "RBM has hidden units, which are tempered, too"),
    ):
        with pytest.raises(UserError, match=message):
            minimise(energy, sampler, schedule, num_chains=4, num_steps=2)
    for nested in (Reheated(schedule), Resampled(Reheated(schedule))):
        with pytest.raises(UserError, match="either reheated or resampled"):
            minimise(glass, GWG(), nested, num_chains=4, num_steps=2)
