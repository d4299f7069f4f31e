"""A law of a few directions of the data as the start of an RBM."""

from __future__ import annotations

import pytorch_lightning as pl
import torch

from ebmlab.callbacks.requirements import buffer_of, energy_of
from ebmlab.data.batch_checks import check_first_batch
from ebmlab.data.weighted import weighted_states
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.io.progress import Meter
from ebmlab.learners.low_rank import CLIMB, LowRank, require_rank
from ebmlab.lightning.run_data import data_of


class LowRankStart(pl.Callback):
    """Starts an RBM of bits, and its persistent chains, from a law of the data's leading directions.

    Where data have few strong modes, such as two clusters, chains from noise lose modes as the weights grow, and the
    model runs away. This start has all modes with their weights, before the first step of a new run. A resumed run
    keeps its parameters and chains. See `ebmlab.learners.low_rank` (after Bereux et al., 2025).

    Args:
        rank: leading directions, from 1 to 3. Two clusters need one.

    Raises:
        UserError: the energy is no RBM of bits, or the data vary in fewer directions.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
        >>> from ebmlab.samplers import BlockGibbs
        >>> trainer = pl.Trainer(max_steps=0, barebones=True, callbacks=[LowRankStart(1)])
        >>> learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=ReplayBuffer(200))
        >>> trainer.fit(learner, Digits(binarize=True))
        >>> learner.start.slots.shape
        torch.Size([200, 64])
    """

    def __init__(self, rank: int = 2) -> None:
        require_rank("LowRankStart", rank)
        self.rank = rank

    @torch.no_grad()
    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        energy = energy_of(pl_module)
        if not isinstance(energy, RBM) or not energy.has_bits:
            raise UserError(f"LowRankStart needs an RBM with hidden bits, got {type(energy).__name__}")
        if trainer.ckpt_path is not None:
            return
        check_first_batch(data_of(trainer), "train", energy.domain, type(energy).__name__)
        x, weights = weighted_states(data_of(trainer), "train")
        law = LowRank(x, weights, rank=self.rank, num_hidden=energy.num_hidden)
        with Meter("LowRankStart", "step", CLIMB, shown=trainer.is_global_zero) as meter:
            law.fit(meter.passed)
        law.write_(energy)
        buffer = buffer_of(pl_module)
        if buffer is not None:
            buffer.fill(law.sample, energy.domain)
