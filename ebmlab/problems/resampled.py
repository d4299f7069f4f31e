"""Population annealing: chains that are resampled at every change of beta (Hukushima & Iba, 2003; Machta, 2010)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ebmlab.energies import Bipartite, Energy
from ebmlab.errors import UserError
from ebmlab.evaluation import LogZ
from ebmlab.evaluation.population import systematic
from ebmlab.problems.annealing import Schedule
from ebmlab.problems.chains import STRANGE, Chains
from ebmlab.samplers import Sampler


@dataclass(frozen=True)
class Resampled:
    """A schedule along which the chains of `minimise` are one population, resampled at every change of beta.

    At a change from beta to beta' chain i gets children in proportion to exp(-(beta' - beta) E(x_i)), by systematic
    resampling. Then all take a step at beta'. The mean of these weights estimates Z(beta') / Z(beta). The first change
    is that from 0, where states are uniform and Z is their number: so log Z comes with the search (`Minimum.log_z`).

    A step of beta should be small beside 1 / std(E), which is largest at random states: there, `Linear` from nearly 0.

    Args:
        schedule: of beta.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.evaluation import exact_log_z
        >>> from ebmlab.problems import Linear, minimise
        >>> from ebmlab.samplers import ChromaticGibbs
        >>> energy = Ising.lattice(3, coupling=0.4)
        >>> found = minimise(energy, ChromaticGibbs(), Resampled(Linear(0.01, 1.0)), num_chains=1000, num_steps=50)
        >>> abs(found.log_z.log_z - float(exact_log_z(energy))) < 4 * found.log_z.std_error
        True
    """

    schedule: Schedule

    def beta(self, progress: float) -> float:
        return self.schedule.beta(progress)


@dataclass(frozen=True)
class Generation:
    """Where a population is on its way from beta = 0.

    Attributes:
        family: `(B,)`, the number of the first state that each chain descends from.
        beta: the inverse temperature whose law the chains follow.
        log_ratio: the estimate of log Z(beta) / Z(0).
        steps: since beta was 0.

    Example:
        >>> Generation(torch.arange(3)).beta
        0.0
    """

    family: Tensor
    beta: float = 0.0
    log_ratio: float = 0.0
    steps: int = 0


class Resampling:
    """Chains that are resampled at every change of beta, in the place of `Chains`.

    The best state of a place is the lowest that was seen there, whatever lines have come by. So no state that was found
    is lost when its line dies out.

    Args:
        chains: what moves.
        energy: theirs.
        sampler: theirs.

    Attributes:
        at: where the population is.
        past: where the longest annealing has ended that is over; at first one of no steps.

    Raises:
        UserError: the sampler is not exact, or the energy has hidden units.
    """

    def __init__(self, chains: Chains, energy: Energy, sampler: Sampler) -> None:
        if not sampler.exact:
            raise UserError(
                f"Resampled needs a sampler that leaves the law at each beta invariant, but {type(sampler).__name__} "
                "is not exact: take one that is, such as ChromaticMetropolis or PathAuxiliary"
            )
        if isinstance(energy, Bipartite):
            raise UserError(
                f"Resampled: {type(energy).__name__} has hidden units, which are tempered, too: "
                "`ebmlab.evaluation.ais(energy, sampler, resample=0.5)` anneals and resamples both"
            )
        self.chains, self.log_states = chains, energy.domain.size * math.log(2)
        self.at = self.past = Generation(torch.arange(len(chains.now)))

    @property
    def energy(self) -> Tensor:
        return self.chains.energy

    @property
    def now(self) -> Tensor:
        return self.chains.now

    @property
    def shown(self) -> Generation:
        """The end of the longest annealing so far, or the present place if as many steps have led as far."""
        as_far = self.at.beta > (1 - 1e-6) * self.past.beta
        return self.at if as_far and self.at.steps >= self.past.steps else self.past

    @property
    def log_z(self) -> LogZ:
        """The estimate of log Z at `shown.beta`; its samples are the present chains.

        Its error says how few families are left. It does not know of a valley that no chain has found.
        """
        shown, chains = self.shown, len(self.now)
        log_weights = torch.full((1, chains), self.log_states + shown.log_ratio, dtype=torch.float64)
        method = "population annealing"
        return LogZ.of_chains(log_weights, self.present(), families=shown.family.unsqueeze(0), method=method)

    def restart(self) -> None:
        self.past, self.at = self.shown, Generation(torch.arange(len(self.now)))
        self.chains.restart()

    def anneal(self, betas: Sequence[float]) -> None:
        for beta in betas:
            if beta != self.at.beta:
                self._resample(beta)
            self.chains.anneal([beta])
            self.at = replace(self.at, steps=self.at.steps + 1)

    def take(self, parents: Tensor) -> None:
        self.chains.take(parents)

    def present(self) -> Tensor:
        return self.chains.present()

    def best(self) -> Tensor:
        return self.chains.best()

    def states(self) -> dict[str, Tensor]:
        both = self.at, self.past
        numbers = torch.tensor([(one.beta, one.log_ratio, one.steps) for one in both], dtype=torch.float64)
        return self.chains.states() | {"families": torch.stack([one.family for one in both]), "numbers": numbers}

    def put_back(self, states: Mapping[str, Tensor]) -> None:
        families, numbers = (states[name].cpu() for name in ("families", "numbers"))
        valid = numbers.isfinite().all() and (numbers[:, [0, 2]] >= 0).all()
        if not (valid and (families >= 0).all() and (families < len(self.now)).all()):
            raise UserError(STRANGE)
        self.at, self.past = (
            Generation(family, beta, log_ratio, int(steps))
            for family, (beta, log_ratio, steps) in zip(families, numbers.tolist(), strict=True)
        )
        self.chains.put_back(states)

    def _resample(self, beta: float) -> None:
        """The weighted chains of one beta become equally weighted ones of another."""
        log_w = (self.at.beta - beta) * self.now.cpu().double()
        mean = float(log_w.logsumexp(0)) - math.log(len(log_w))
        if not math.isfinite(mean):
            raise UserError("Resampled: no chain has a finite energy, so that there is nothing to resample from")
        parents = systematic(log_w.softmax(0))
        self.take(parents)
        self.at = replace(self.at, family=self.at.family[parents], beta=beta, log_ratio=self.at.log_ratio + mean)
