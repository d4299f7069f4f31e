"""Contrastive divergence, which lowers the energy of data and raises the energy of the sampler's states."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from ebmlab.data.interface import Data
from ebmlab.domains import Real
from ebmlab.energies import Bipartite, Energy
from ebmlab.energies.accumulated import known
from ebmlab.energies.weighted_sum import WeightedSum
from ebmlab.engine import Replayed, run_compiled
from ebmlab.errors import UserError
from ebmlab.learners.changes_with_training import ChangesWithTraining
from ebmlab.learners.compiled_chains import check_compilation
from ebmlab.learners.fitting_data import by_their_weights, weight_of_chains, weighted_mean
from ebmlab.learners.hidden_of_chains import hidden_at_start, hidden_of_data, hidden_of_state, keep_hidden
from ebmlab.learners.learner import Interval, Learner
from ebmlab.native import normal
from ebmlab.numerics.products import fast_products
from ebmlab.numerics.unrounded import no_autocast
from ebmlab.samplers import Info, Leg, Sampler, State
from ebmlab.samplers.initial_states import FromNoise, Start
from ebmlab.samplers.schedules import scaled_steps
from ebmlab.settings import require_choice, require_factor

SGD: OptimizerCallable = partial(torch.optim.SGD, lr=0.01)


class ContrastiveDivergence(Learner):
    """Fits an energy by the gradient <dE/dtheta>_data - <dE/dtheta>_negatives (Liao et al. 2022, Alg. 3 and 4).

    The negatives are states of the sampler's chains. Weighted data count by their weights.

    Args:
        energy: the model.
        sampler: moves the negative chains.
        start: where the negative chains start: `FromNoise()` (modified CD, the default), `FromData()` (plain CD) or
            `ReplayBuffer(size)` (persistent CD).
        num_steps: K, steps of each chain per training step.
        burn_in: number of first steps whose states are not used. Default: only the last state is used (CD-K).
        density: the density that a bipartite energy fits: "joint" draws the hidden units (Eq. 13), "marginal" sums over
            them (Eq. 18). Energies without hidden units need "marginal".
        l1: see `Learner`.
        energy_l2: factor of the mean squared energies of data and negatives. This term of the loss keeps energies near
            0.
        gradient_penalty: factor of the mean of |dE/dx|^2 / 2 over the data, which is added to the loss.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.
        data_noise: standard deviation of Gaussian noise that each training step adds to its data, for real states only.
            Where pixels are always black it keeps their variance in the model from vanishing, and so large steps of
            Langevin dynamics stable.
        compile_chains: let `torch.compile` make one program of eight steps of the chains, in all training steps but
            those that log the acceptance. These are every `trainer.log_every_n_steps`-th, so the random numbers of the
            run depend on this option. It pays for many steps of small models. It needs CD-K (no `burn_in`) of at least
            eight steps, and the marginal density. A GPU records the chains, the energies and their gradients as one
            CUDA graph instead and replays it in every step (`engine.Replayed`). This works for any energy, density and
            number of steps. The sampler's steps may neither wait for the GPU nor change with the training.

    Attributes:
        energies: mean energies of the data and of the negatives in the last training step, whose difference is its
            loss; None before the first step. For bipartite energies they are means of E(v, h), where h is drawn for
            the joint density and E[h | v] for the marginal density.
        chain_steps: steps of each chain in the current training step, which `callbacks.ShortChains` sets; None for
            num_steps.
        step_factor: that of the sampler's `step_size` in the current training step, which `callbacks.AnnealedSteps`
            sets. Outside of training steps the sampler has its own.

    Raises:
        UserError: the settings do not fit each other or the energy.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ContrastiveDivergence, FromData
        >>> from ebmlab.samplers import BlockGibbs
        >>> learner = ContrastiveDivergence(RBM(6, 3), BlockGibbs(), start=FromData(), num_steps=1)
        >>> learner.draw(learner.energy.random(4)).shape
        torch.Size([4, 6])
    """

    takes_weights = asks_sampler = True
    energies: tuple[Tensor, Tensor] | None = None
    chain_steps: int | None = None
    step_factor: float = 1.0

    logs: tuple[str, ...] = (
        *("train/energy_data", "train/energy_negative", "train/energy_gap", "train/grad_norm", "train/learning_rate"),
        *("val/energy", "sampler/acceptance", "sampler/hops"),
    )

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler,
        *,
        start: Start | None = None,
        num_steps: int = 1,
        burn_in: int | None = None,
        density: Literal["joint", "marginal"] = "marginal",
        l1: float = 0.0,
        energy_l2: float = 0.0,
        gradient_penalty: float = 0.0,
        optimizer: OptimizerCallable = SGD,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_interval: Interval = "epoch",
        data_noise: float = 0.0,
        compile_chains: bool = False,
    ) -> None:
        schedule: dict[str, Any] = {"lr_scheduler": lr_scheduler, "lr_interval": lr_interval}
        super().__init__(energy, sampler, num_steps=num_steps, l1=l1, optimizer=optimizer, **schedule)
        require_factor(
            type(self).__name__, energy_l2=energy_l2, gradient_penalty=gradient_penalty, data_noise=data_noise
        )
        self.energy_l2 = energy_l2
        self.gradient_penalty = gradient_penalty
        self.data_noise = data_noise
        self.start = start or FromNoise()
        self.burn_in = num_steps - 1 if burn_in is None else burn_in
        self.density = density
        self.compile_chains = compile_chains
        self._replayed = Replayed()
        require_choice(type(self).__name__, ("joint", "marginal"), density=density)
        if not 0 <= self.burn_in < num_steps:
            raise UserError(
                f"burn_in is {burn_in}, but must be from 0 to num_steps - 1 = {num_steps - 1}: "
                "at least one state must be used"
            )
        if data_noise and not isinstance(energy.domain, Real):
            raise UserError(
                f"data_noise is {data_noise}, but {type(energy).__name__} lives on {energy.domain}: set it to 0"
            )
        if density == "joint" and not isinstance(energy, Bipartite):
            raise UserError(
                f'density "joint" needs a bipartite energy, {type(energy).__name__} has no hidden units: set it to '
                '"marginal"',
                option="model.density",
            )

    def check_data(self, data: Data, training: bool = True) -> None:
        super().check_data(data, training)
        if training:
            self.start.check(self.energy.domain, data.batch_size)

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage == "fit" and self.compile_chains:
            check_compilation(
                self.energy,
                self.sampler,
                device=self.trainer.strategy.root_device,
                num_steps=self.num_steps,
                burn_in=self.burn_in,
                density=self.density,
            )

    def teardown(self, stage: str) -> None:
        super().teardown(stage)
        self._replayed = Replayed()  # a recording keeps its memory

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        difference, penalty = self.contrast(batch)
        return difference + penalty if isinstance(penalty, Tensor) else difference

    def contrast(self, batch: Any) -> tuple[Tensor, Tensor | float]:
        """Moves the chains. Gives the difference of the energies of data and chains, a scalar, and the penalties."""
        x, weights = self.states(batch), self.weights(batch)
        if self.data_noise:
            x = x + self.data_noise * normal(x)
        with fast_products(self.energy, len(x)), scaled_steps(self.sampler, self.step_factor):
            if self.compile_chains and x.is_cuda:
                info, y, data_energy, difference = self._replayed_contrast(x, weights)
            else:
                contrast = self.energy.weighted_sum()
                data_energy = self._add_data(contrast, x, weights)
                info, y = self._subtract_negatives(contrast, self._starts(x, weights), weights)
                difference = contrast.value()
            penalty = self.penalty() + self._regularizer(x, y, weights)
        self.energies = data_energy, data_energy - difference.detach()
        if info is not None:
            self._log_chains(info, x, y, weights)
        return difference, penalty

    def _starts(self, x: Tensor, weights: Tensor | None) -> Tensor:
        return self.start.draw(self.energy, len(x), by_their_weights(x, weights))

    def _add_data(self, contrast: WeightedSum, x: Tensor, weights: Tensor | None) -> Tensor:
        """Adds the mean energy of data x `(B, *event)`, and returns it."""
        share = 1 / len(x) if weights is None else weights / len(x)
        contrast.add(x, *hidden_of_data(self.energy, x, density=self.density), weight=share)
        return contrast.number()

    def _subtract_negatives(
        self, contrast: WeightedSum, x: Tensor, weights: Tensor | None = None
    ) -> tuple[Info | None, Tensor]:
        """Subtracts the mean energy of chains from x. Gives their mean `Info`, if it is logged, and last states."""
        total, logs = None, self.log_is_due
        sampler, num_steps = self.sampler, self.chain_steps or self.num_steps
        if isinstance(sampler, ChangesWithTraining):
            sampler, x, num_steps = sampler.at_iteration(self.energy, x, self.global_step, num_steps)
        kernel = sampler.compilable(self.energy) if self.compile_chains and not logs else None
        if kernel is not None:
            state = State(x=run_compiled(kernel, self.energy, x, num_steps, "compile_chains").x)
            contrast.add(state.x, weight=-weight_of_chains(weights, len(x)))
        else:
            leg = hidden_at_start(sampler, self.start)
            state, total = self._walk(contrast, sampler, x, num_steps, weights=weights, report=logs, leg=leg)
        self.start.put_back(state.kept)
        keep_hidden(self.start, state)
        return total, state.x

    def _walk(
        self,
        contrast: WeightedSum,
        sampler: Sampler,
        x: Tensor,
        num_steps: int,
        *,
        weights: Tensor | None,
        report: bool,
        leg: Leg | None = None,
    ) -> tuple[State, Info | None]:
        """Runs chains from x, and subtracts the mean energy of their states after burn-in.

        Returns:
            The last state; the mean `Info` if there shall be a report, else None.
        """
        used, total = min(self.num_steps - self.burn_in, num_steps), None
        for k, (state, info) in enumerate(sampler.chain(self.energy, x, num_steps, leg)):
            if report:
                total = info if total is None else total + info
            if k >= num_steps - used:
                hidden = hidden_of_state(self.energy, state, density=self.density)
                contrast.add(state.x, *hidden, weight=-weight_of_chains(weights, len(state.x), used))
        return state, None if total is None else total / num_steps

    def _replayed_contrast(self, x: Tensor, weights: Tensor | None) -> tuple[Info | None, Tensor, Tensor, Tensor]:
        """The step by one CUDA graph: `Info` and last states of the chains, mean energy of the data, difference."""
        num_steps = self.chain_steps or self.num_steps
        parameters = [p for p in self.energy.parameters() if p.requires_grad]

        def contrasted(starts: Tensor, x: Tensor, weights: Tensor | None = None) -> tuple[Tensor | None, ...]:
            contrast = self.energy.weighted_sum()
            data_energy = self._add_data(contrast, x, weights)
            state, mean = self._walk(contrast, self.sampler, starts, num_steps, weights=weights, report=True)
            assert mean is not None
            with torch.enable_grad():
                value = contrast.value()
                grads = torch.autograd.grad(value, parameters, allow_unused=True)
            return state.x, state.kept, mean.acceptance, mean.hops, data_energy, value.detach(), *grads

        last, kept, acceptance, hops, data_energy, value, *grads = self._replayed(
            contrasted,
            [self._starts(x, weights), x, *([] if weights is None else [weights])],
            self.energy,
            self.sampler,
            settings=(num_steps, self.num_steps, self.burn_in, self.density),
        )
        assert not (last is None or kept is None or acceptance is None or hops is None)
        assert not (data_energy is None or value is None)
        self.start.put_back(kept)
        info = Info(acceptance, hops) if self.log_is_due else None
        return info, last, data_energy, known(value, grads, parameters)

    def _log_chains(self, info: Info, x: Tensor, y: Tensor, weights: Tensor | None) -> None:
        """Logs the chains' acceptance and hops, and mean (marginal) energies of data x and negatives y."""
        assert self.energies is not None
        data, negative = self.energies
        if isinstance(self.energy, Bipartite):
            with torch.no_grad():
                data = weighted_mean(self.energy(x), weights)
                negative = (weight_of_chains(weights, len(y)) * self.energy(y)).sum()
        values = {
            "train/energy_data": data,
            "train/energy_negative": negative,
            "train/energy_gap": negative - data,
            "sampler/acceptance": info.acceptance.mean(),
        }
        self.log_dict(values, prog_bar=True, sync_dist=True)
        self.log("sampler/hops", info.hops.mean(), sync_dist=True)

    def _regularizer(self, x: Tensor, y: Tensor, weights: Tensor | None) -> Tensor | float:
        """The penalties of Grathwohl et al. (2021) on energies and their gradients; x are data, y negatives."""
        penalty: Tensor | float = 0.0
        if self.energy_l2:
            squares = weighted_mean(self.energy(x).square(), weights)
            penalty = self.energy_l2 * (squares + self.energy(y).square().mean())
        if self.gradient_penalty:
            x = x.detach().clone().requires_grad_()
            total = self.energy(x).sum()
            with no_autocast(x.device):
                (grad,) = torch.autograd.grad(total, x, create_graph=True)
            penalty = penalty + self.gradient_penalty * weighted_mean(grad.flatten(1).square().sum(1), weights) / 2
        return penalty
