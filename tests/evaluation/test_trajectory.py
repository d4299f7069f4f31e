"""Log Z along a path of parameters, against enumeration."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from ebmlab.energies import MLP, RBM, Energy, Ising, reference
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_log_z, trajectory
from ebmlab.evaluation.trajectory import Trajectory
from ebmlab.samplers import DMALA, GWG, BlockGibbs, Gibbs


def make_mlp() -> Energy:
    energy = MLP(num_coordinates=6, hidden_dim=8)
    with torch.no_grad():
        for p in energy.parameters():
            p.mul_(2)
    return energy


CASES = {
    "RBM": (lambda: RBM(6, 4), BlockGibbs()),
    "RBM, DMALA": (lambda: RBM(6, 4), DMALA(0.4)),
    "Ising": (lambda: Ising.lattice(3, 0.1), Gibbs()),
    "deep": (make_mlp, GWG()),
}


def drift(name: str, cls: type[Trajectory] = Trajectory) -> float:
    """Error of log Z in nats after 20 random changes of the parameters, with 4,000 chains."""
    make, sampler = CASES[name]
    torch.manual_seed(0)
    energy: Energy = make()
    followed = cls(energy, sampler, reference(energy.domain), num_chains=4000, resample=0.8)
    tensors = list(energy.parameters()) or [energy.field]
    directions = [torch.randn_like(t) for t in tensors]
    for _ in range(20):
        with torch.no_grad():
            for t, direction in zip(tensors, directions, strict=True):
                t.add_(direction, alpha=0.08)
        followed.follow()
    return followed.log_z - float(exact_log_z(energy))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory, "TEMPERATURES", 30)


@pytest.mark.parametrize("name", CASES)
def test_it_agrees_with_enumeration(name: str) -> None:
    assert abs(drift(name)) < 0.08


class Late(Trajectory):
    """A mutant: moves the chains before it weighs them."""

    def follow(self, num_steps: int = 1) -> None:
        self._chains.x, _ = self._sampler.sample(self._energy, self._chains.x, num_steps)
        self._chains.log_w += self._at_x - self._energies(self._energy)
        self._at_x = self._energies(self._energy)


class Stale(Trajectory):
    """A mutant: does not update the energy of states that have moved."""

    def follow(self, num_steps: int = 1) -> None:
        before = self._energies(self._energy)
        super().follow(num_steps)
        self._at_x = before


@pytest.mark.parametrize("mutant", [Late, Stale])
def test_mutants_drift(mutant: type[Trajectory]) -> None:
    assert abs(drift("RBM", mutant)) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("num_chains", [2, 4])
def test_the_estimate_of_z_is_unbiased(num_chains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with few chains, and where the number of stops varies from one run to the next."""
    monkeypatch.setattr(trajectory, "TEMPERATURES", 2)
    torch.manual_seed(0)
    first, last = (RBM(5, 3).requires_grad_(False) for _ in range(2))
    for p, q in zip(first.parameters(), last.parameters(), strict=True):
        p.normal_(0, 0.5)
        q.copy_(p + 1.5 * torch.randn_like(p))
    log_z, ratios = float(exact_log_z(last)), []
    for _ in range(600):
        rbm = copy.deepcopy(first)
        followed = Trajectory(rbm, BlockGibbs(), reference(rbm.domain), num_chains)
        rbm.load_state_dict(last.state_dict())
        followed.follow(length=2.0)
        ratios.append(math.exp(followed.log_z - log_z))
    ratio = torch.tensor(ratios)
    assert abs(float(ratio.mean()) - 1) < 3.5 * float(ratio.std()) / len(ratios) ** 0.5


def test_chains_saved_without_scouts_go_on() -> None:
    rbm, sampler = RBM(6, 4), BlockGibbs()
    followed = Trajectory(rbm, sampler, reference(rbm.domain), 50)
    saved = followed.state_dict()
    old = {name: saved[name][:50] for name in ("x", "log_w", "family", "at_x")} | {"at": saved["at"]}
    again = Trajectory(rbm, sampler, None, saved=old)
    assert again.log_z == followed.log_z and again.families == followed.families and again.ess == followed.ess
    again.follow(3)
    assert again.log_z == pytest.approx(followed.log_z, abs=1e-6)


def test_an_unmoved_energy_keeps_its_log_z() -> None:
    rbm, sampler = RBM(6, 4), BlockGibbs()
    followed = Trajectory(rbm, sampler, reference(rbm.domain), 50)
    before = followed.log_z
    followed.follow(3)
    assert followed.log_z == pytest.approx(before, abs=1e-6) and followed.ess > 1


def test_a_long_way_has_stops() -> None:
    """One update far away is as good as many small ones, because the line to it is cut into short pieces."""
    torch.manual_seed(0)
    rbm, sampler = RBM(6, 4), BlockGibbs()
    followed = Trajectory(rbm, sampler, reference(rbm.domain), num_chains=4000)
    with torch.no_grad():
        rbm.W.normal_(0, 2.0)
        rbm.b_v.normal_(0, 2.0)
    followed.follow()
    assert abs(followed.log_z - float(exact_log_z(rbm))) < 0.1 and followed.families > 1000
    moving = RBM(6, 4)
    jumped = Trajectory(moving, sampler, reference(rbm.domain), num_chains=4000)
    moving.load_state_dict(rbm.state_dict())
    jumped.follow(length=1e9)
    assert jumped.families < followed.families
    with pytest.raises(UserError, match="length is 0, but must be above 0"):
        jumped.follow(length=0)
