"""Log Z along training, from weighted chains that follow the energy as its parameters change."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ebmlab.energies import Base, Bipartite, Energy, bridge
from ebmlab.evaluation.annealing import anneal
from ebmlab.evaluation.ladder import fixed_ladder
from ebmlab.evaluation.population import Population
from ebmlab.samplers import Sampler, State, hidden_logits

TEMPERATURES = 1000  # of the way from the base law to the first energy


class Trajectory:
    """Annealed importance sampling along the path of the parameters themselves (Neal 2001, with E_t for E_beta).

    After each change of the parameters a chain's weight is multiplied by exp(E_old(x) - E_new(x)), and an exact sampler
    moves the chain under the new energy. The mean weight times Z_0 is an unbiased estimate of Z_t if the changes do not
    depend on these chains. Therefore separate chains are used. The learner's negative samples are unsuitable: they
    influence the parameters, their initial law is unknown, and those in a replay buffer have taken unequal numbers of
    steps.

    Args:
        energy: E, whose parameters change; it is referenced, not copied.
        sampler: an exact sampler; it is referenced, not copied.
        base: law of the first states; the chains are annealed from it to the present energy. Not needed with `saved`.
        num_chains: number of chains.
        resample: the effective share of the chains below which they are resampled.
        saved: what `state_dict` returned, from which the chains go on; none are annealed then.

    Example:
        >>> from ebmlab.energies import RBM, reference
        >>> from ebmlab.evaluation import exact_log_z
        >>> from ebmlab.samplers import BlockGibbs
        >>> rbm = RBM(4, 3)
        >>> trajectory = Trajectory(rbm, BlockGibbs(), reference(rbm.domain), num_chains=100)
        >>> rbm.b_v.data += 0.3
        >>> trajectory.follow()
        >>> abs(trajectory.log_z - float(exact_log_z(rbm))) < 0.3
        True
    """

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler,
        base: Base | None,
        num_chains: int = 100,
        resample: float = 0.5,
        saved: dict[str, Tensor] | None = None,
    ) -> None:
        self._energy, self._sampler, self._resample = energy, sampler, resample
        if saved is not None:
            self._chains = chains = Population(saved["x"].to(energy.device, energy.dtype))
            chains.log_w, chains.family = saved["log_w"].to(chains.log_w), saved["family"].to(chains.family)
            self._at_x = saved["at_x"].to(chains.log_w)
            return
        assert base is not None
        path = bridge(base.to(energy.device), energy)
        self._chains = Population(path.base.draw(num_chains).to(energy.dtype))
        anneal(path, sampler, self._chains, fixed_ladder("linear", TEMPERATURES), resample=resample)
        self._chains.log_w += path.log_z
        self._at_x = self._energies()

    @torch.no_grad()
    def follow(self, num_steps: int = 1) -> None:
        """Updates the weights for the present parameters, resamples, and moves each chain `num_steps` steps."""
        self._chains.log_w += self._at_x - self._energies()
        self._chains.resample(self._resample)
        state: State | None = None
        for state, _ in self._sampler.chain(self._energy, self._chains.x, num_steps):
            self._chains.x = state.x
        self._at_x = self._energies(state)

    @property
    def log_z(self) -> float:
        """Log Z of the energy as it was at the last `follow`."""
        return float(self._chains.log_w.logsumexp(0)) - math.log(len(self._chains.log_w))

    @property
    def ess(self) -> float:
        """Effective number of chains since they were last resampled."""
        return float(1 / self._chains.log_w.softmax(0).square().sum())

    def state_dict(self) -> dict[str, Tensor]:
        """The chains' states, log-weights, families and energies."""
        chains = self._chains
        return {"x": chains.x, "log_w": chains.log_w, "family": chains.family, "at_x": self._at_x}

    @torch.no_grad()
    def _energies(self, state: State | None = None) -> Tensor:
        """E at the chains' states; `state` is that of the sampler there, which may hold the hidden logits already."""
        state = State(x=self._chains.x) if state is None else state
        if isinstance(self._energy, Bipartite):
            energies = self._energy.marginal_energy(state.x, hidden_logits(self._energy, state))
        else:
            energies = self._energy(state.x)
        return energies.to(self._chains.log_w)
