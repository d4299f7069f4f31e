"""The discrepancy between generated states and data, under kernels of the Hamming distance."""

from __future__ import annotations

import pytorch_lightning as pl
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor

from ebmlab.callbacks.requirements import learner_of
from ebmlab.callbacks.sample_evaluation import SampleEvaluation, metric_device
from ebmlab.data.foreign_loaders import data_of
from ebmlab.domains import Finite
from ebmlab.errors import UserError
from ebmlab.evaluation.metrics import HammingMMD

KERNELS = {"mmd/hamming": "linear", "mmd/exponential": "exponential"}
SPLITS: dict[TrainerFn | None, str] = {
    TrainerFn.FITTING: "train",
    TrainerFn.VALIDATING: "val",
    TrainerFn.TESTING: "test",
}


class HammingMMDEvaluation(SampleEvaluation):
    """Draws states by new chains from noise and logs the squared MMD between them and the data.

    `mmd/hamming` has the kernel d - H, with H the Hamming distance of states of d coordinates (Dai et al. 2020; Liu et
    al. 2023, Sec. 5.1). It is a sum over single coordinates; on bits, it is twice the sum of the squared differences of
    their means. It does not depend on any interaction between coordinates: independent bits with the data's means have
    the value of a perfect model. `mmd/exponential` has the kernel exp(-H / d), which depends on interactions of every
    order, with a weight of about (2 d)^-k for one among k bits.

    The data are of the training split in fit, as in the paper, of the validation split in `validate` and of the test
    split in `test`: as many states as are drawn, or all if there are fewer, the same each time. Each rank draws its
    share of the chains.

    Args:
        num_samples: number of chains, over all ranks; at least 2.
        num_steps: steps of each chain; default as in training.
        unbiased: use the U-statistic, as in the paper's code, which can be below 0 if the laws agree, in place of the
            V-statistic, which is never below 0 and above 0 on average. See `ebmlab.evaluation.hamming_mmd`.
        batch_size: chains that run at once.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise, the chains (the ranks derive different ones from it) and the choice of data.

    Example:
        >>> from ebmlab.datamodules import GrayCode2D
        >>> from ebmlab.energies import MLP
        >>> from ebmlab.learners import RatioMatching
        >>> mmd, data = HammingMMDEvaluation(num_samples=50, num_steps=5), GrayCode2D(num_bits=16, num_samples=100)
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[mmd])
        >>> (scores,) = trainer.test(RatioMatching(MLP(16)), data, verbose=False)
        >>> sorted(name for name in scores if name.startswith("mmd/"))
        ['mmd/exponential', 'mmd/hamming']
    """

    least = 2

    logs = tuple(KERNELS)

    def __init__(
        self,
        num_samples: int = 4000,
        num_steps: int | None = None,
        unbiased: bool = True,
        batch_size: int = 4000,
        every_n_epochs: int = 10,
        at_start: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed, batch_size)
        self.unbiased = unbiased

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner, data = learner_of(pl_module, self), data_of(trainer)
        if not isinstance(learner.energy.domain, Finite):
            raise UserError(
                f"HammingMMDEvaluation counts coordinates that differ, but {type(learner.energy).__name__} lives on "
                f"{learner.energy.domain}, which is not finite: remove it"
            )
        split = SPLITS[trainer.state.fn]
        if (count := len(data.states(split, 2))) < 1 + self.unbiased:
            raise UserError(
                f"HammingMMDEvaluation compares sets of {1 + self.unbiased} or more states, but {data.title} "
                f"has {count} in its {split} split: take more data"
            )

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner = learner_of(pl_module, self)
        n, num_steps = self.size(trainer, learner)
        device = metric_device(learner)
        domain = learner.energy.domain
        assert isinstance(domain, Finite)
        metrics = {key: HammingMMD(kernel, self.unbiased, domain).to(device) for key, kernel in KERNELS.items()}

        def add(x: Tensor, real: bool) -> None:
            for metric in metrics.values():
                metric.update(x.to(device), real=real)

        data = data_of(trainer).states(SPLITS[trainer.state.fn], n, self.seed)
        add(learner.to_event(data[trainer.global_rank :: trainer.world_size]), real=True)
        for x in self.samples(trainer, learner, n, num_steps, batch_size=self.batch_size):
            add(x, real=False)
        self.log_metrics(trainer, pl_module, {key: float(metric.compute()) for key, metric in metrics.items()})
