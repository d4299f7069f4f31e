"""Log Z along training, from weighted chains that follow the energy as its parameters change."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Base, Bipartite, Energy
from ebmlab.errors import UserError
from ebmlab.evaluation.annealing import path_for
from ebmlab.evaluation.ladder import fixed_ladder
from ebmlab.evaluation.population import Population
from ebmlab.evaluation.walk import anneal
from ebmlab.samplers import Sampler, State, hidden_given_state
from ebmlab.samplers.state import EnergyState

TEMPERATURES = 1000  # of the way from the base law to the first energy
FARTHEST = 500.0  # nats of spread that still add stops
SCOUTS = 16  # chains that decide on the number of stops, and on nothing else


class Trajectory:
    """Annealed importance sampling along the path of the parameters themselves (Neal 2001, with E_t for E_beta).

    From one call of `follow` to the next the chains go along the straight line between the old and the new parameters.
    There are so many stops that the log-weights spread by about half a nat from each to the next. At a stop a chain's
    weight is multiplied by exp(E_last(x) - E_here(x)), and an exact sampler moves the chain. The mean weight times Z_0
    is an unbiased estimate of Z_t if neither the changes nor the number of stops depend on these chains. Therefore
    separate chains are used, and 16 more, the scouts, whose spread alone says how many stops there are. The learner's
    negative samples are unsuitable: they influence the parameters, and their initial law is unknown. Those in a replay
    buffer have also taken unequal numbers of steps.

    Args:
        energy: E, whose parameters change; it is referenced, not copied.
        sampler: an exact sampler; it is referenced, not copied.
        base: law of the first states; the chains are annealed from it to the present energy. Not needed with `saved`.
        num_chains: number of chains.
        resample: the effective share of the chains below which they are resampled.
        saved: what `state_dict` returned, from which the chains go on; none are annealed then.
    """

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler,
        base: Base | None,
        num_chains: int = 100,
        resample: float = 0.5,
        saved: dict[str, Any] | None = None,
    ) -> None:
        self._energy, self._sampler, self._resample = energy, sampler, resample
        self._at = copy.deepcopy(energy).requires_grad_(False).eval()  # where the chains are on the path
        if saved is not None:
            alone = "chains" not in saved  # versions without scouts: the first chains are copied
            self._num_chains = len(saved["x"]) if alone else int(saved["chains"])
            several = torch.arange(self._num_chains + SCOUTS) % len(saved["x"]) if alone else slice(None)
            x, log_w, family, at_x = (saved[name][several] for name in ("x", "log_w", "family", "at_x"))
            self._chains = chains = Population(x.to(energy.device, energy.dtype), [self._num_chains, SCOUTS])
            chains.log_w, chains.family = log_w.to(chains.log_w), family.to(chains.family)
            self._at_x = at_x.to(chains.log_w)
            for p, kept in zip(_tensors(self._at), saved.get("at", []), strict=False):
                p.copy_(kept)
            return
        assert base is not None
        path = path_for(sampler, base.to(energy.device), energy)
        self._num_chains = num_chains
        self._chains = Population(path.base.sample(num_chains + SCOUTS).to(energy.dtype), [num_chains, SCOUTS])
        anneal(path, sampler, self._chains, fixed_ladder("linear", TEMPERATURES), resample=resample)
        self._chains.log_w += path.log_z
        self._at_x = self._energies(self._at)

    @torch.no_grad()
    def follow(self, num_steps: int = 1, length: float = 0.5) -> None:
        """Takes the chains to the present parameters, with one step of the chains at each stop on the way.

        Args:
            num_steps: stops at least.
            length: nats by which the log-weights of different chains may spread from one stop to the next. Chains that
                mix slowly need many steps where the model changes fast, and so a small length.

        Raises:
            UserError: length is not above 0.
        """
        if not length > 0:
            raise UserError(f"Trajectory: length is {length}, but must be above 0")
        moving, target = _tensors(self._at), _tensors(self._energy)
        start = [p.clone() for p in moving]
        walls = [(p, b) for p, a, b in zip(moving, start, target, strict=True) if not (b - a).isfinite().all()]
        spread = float((self._at_x - self._energies(self._energy))[self._num_chains :].std())
        wanted = math.ceil(min(spread, FARTHEST) / length) if math.isfinite(spread) else 1
        stops = max(num_steps, wanted)
        for k in range(1, stops + 1):
            for p, a, b in zip(moving, start, target, strict=True):
                torch.lerp(a, b, k / stops, out=p)  # b itself where k is `stops`
            for p, b in walls:  # nothing lies between infinity and another number
                p.copy_(torch.where(p.isfinite(), p, b))
            state = self._sampler.init(self._at, self._chains.x, 1)
            self._chains.log_w += self._at_x - self._energies(self._at, state)
            if self._chains.resample(self._resample) is not None:
                state = self._sampler.init(self._at, self._chains.x, 1)
            state, _ = self._sampler.step(self._at, state)
            self._chains.x = state.x
            self._at_x = self._energies(self._at, state)

    @property
    def log_z(self) -> float:
        """Log Z of the energy as it was at the last `follow`; `UserError` if it has none."""
        self._at.check_law()
        return float(self._log_w.logsumexp(0)) - math.log(self._num_chains)

    @property
    def families(self) -> int:
        """The number of first states that have descendants; with few, log Z is too small by an unknown amount."""
        return len(set(self._chains.family[: self._num_chains].tolist()))

    @property
    def ess(self) -> float:
        """Effective number of chains since they were last resampled."""
        return float(1 / self._log_w.softmax(0).square().sum())

    def state_dict(self) -> dict[str, Any]:
        """States, log-weights, families and energies of chains and scouts, and the parameters that these are for."""
        x, log_w, family = self._chains.x, self._chains.log_w, self._chains.family
        count, at = torch.tensor(self._num_chains), _tensors(self._at)
        return {"x": x, "log_w": log_w, "family": family, "at_x": self._at_x, "chains": count, "at": at}

    @property
    def _log_w(self) -> Tensor:
        """The log-weights of all chains but the scouts."""
        return self._chains.log_w[: self._num_chains]

    @torch.no_grad()
    def _energies(self, energy: Energy, state: State | None = None) -> Tensor:
        """An energy at the chains' states; a state of its sampler may hold them, or the hidden logits."""
        state = State(x=self._chains.x) if state is None else state
        if isinstance(state, EnergyState):
            energies = state.energy
        elif isinstance(energy, Bipartite):
            energies = energy.marginal_energy(state.x, hidden_given_state(energy, state))
        else:
            energies = energy(state.x)
        return energies.to(self._chains.log_w)


def _tensors(energy: Energy) -> list[Tensor]:
    """What the energy depends on: its parameters, and its buffers of floating-point numbers."""
    return [*(p.data for p in energy.parameters()), *(b for b in energy.buffers() if b.is_floating_point())]
