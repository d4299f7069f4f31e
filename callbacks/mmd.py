"""The maximum mean discrepancy between generated states and data, of discrete states and of graphs."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torchmetrics
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor

from ebmlab.callbacks.requirements import data_showing, held_out, learner_of, require_split, shown_as
from ebmlab.callbacks.set_comparison import SetComparison
from ebmlab.data.interface import Graphs
from ebmlab.data.weighted import drawn_states
from ebmlab.domains import Finite
from ebmlab.errors import UserError
from ebmlab.evaluation import metrics
from ebmlab.evaluation.headline import Headline
from ebmlab.learners import Learner
from ebmlab.lightning.run_data import data_of

KERNELS = {"hamming": "linear", "exponential": "exponential"}
SPLITS: dict[TrainerFn | None, str] = {
    TrainerFn.FITTING: "train",
    TrainerFn.VALIDATING: "val",
    TrainerFn.TESTING: "test",
}


class HammingMMD(SetComparison):
    """Draws states by new chains from noise and logs the squared MMD between them and the data.

    `mmd/hamming` has the kernel d - H (Dai et al. 2020; Liu et al. 2023, Sec. 5.1). H is the Hamming distance of states
    of d coordinates. It is a sum over single coordinates; on bits, it is twice the sum of the squared differences of
    their means. It does not depend on any interaction between coordinates: independent bits with the data's means have
    the value of a perfect model. `mmd/exponential` has the kernel exp(-H / d), which depends on interactions of every
    order, with a weight of about (2 d)^-k for one among k bits.

    The data are of the training split in fit, as in the paper, of the validation split in `validate`, else of the test
    split. They are as many states as are drawn, or all if there are fewer, the same each time. Each rank draws its
    share of the chains.

    Args:
        num_samples: number of chains, over all ranks; at least 2.
        num_steps: steps of each chain; default as in training.
        unbiased: use the U-statistic, as in the paper's code, in place of the V-statistic. It can be below 0 if the
            laws agree. The V-statistic never is, and is above 0 on average. See `ebmlab.evaluation.hamming_mmd`. Data
            of uneven weights raise both, since heavy samples are drawn several times.
        batch_size: chains that run at once.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise, the chains (the ranks derive different ones from it) and the choice of data.

    Example:
        >>> from ebmlab.datamodules import GrayCode2D
        >>> from ebmlab.energies import MLP
        >>> from ebmlab.learners import RatioMatching
        >>> mmd, data = HammingMMD(num_samples=50, num_steps=5), GrayCode2D(num_bits=16, num_samples=100)
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[mmd])
        >>> (scores,) = trainer.test(RatioMatching(MLP(16)), data, verbose=False)
        >>> sorted(name for name in scores if name.startswith("mmd/"))
        ['mmd/exponential', 'mmd/hamming']
    """

    group = "mmd"

    least = 2

    logs = tuple(f"mmd/{name}" for name in KERNELS)

    def __init__(
        self,
        num_samples: int = 4000,
        num_steps: int | None = None,
        *,
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
                f"HammingMMD counts coordinates that differ, but {type(learner.energy).__name__} lives on "
                f"{learner.energy.domain}, which is not finite: remove it"
            )
        split = SPLITS[trainer.state.fn]
        if (count := len(data.states(split, 2))) < 1 + self.unbiased:
            raise UserError(
                f"HammingMMD compares sets of {1 + self.unbiased} or more states, but {data.title} "
                f"has {count} in its {split} split: take more data"
            )

    def headline_of(self, trainer: pl.Trainer, metrics: dict[str, float]) -> Headline:
        return Headline("MMD", metrics["mmd/exponential"], about="exponential kernel")

    def metric(self, trainer: pl.Trainer, learner: Learner) -> torchmetrics.MetricCollection:
        domain = learner.energy.domain
        assert isinstance(domain, Finite)
        kernels: dict[str, Any] = {
            k: metrics.HammingMMD(how, self.unbiased, domain=domain) for k, how in KERNELS.items()
        }
        return torchmetrics.MetricCollection(kernels, compute_groups=False)

    def real(self, trainer: pl.Trainer, learner: Learner, num_samples: int) -> Tensor:
        return learner.to_event(drawn_states(data_of(trainer), SPLITS[trainer.state.fn], n=num_samples, seed=self.seed))


class GraphMMD(SetComparison):
    """Draws graphs by new chains from noise and logs their discrepancy from the data, see `evaluation.graph_mmds`.

    Logs `mmd/degree`, `mmd/clustering`, `mmd/orbit` and their mean, `mmd/average`, against all graphs of the validation
    split, or of the test split in `test`. Each rank draws its share of the chains.

    Args:
        num_samples: number of chains, over all ranks. The smaller of the two sets determines the values of a perfect
            model, which are above 0.
        num_steps: steps of each chain; default as in training.
        batch_size: chains that run at once.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise and the chains; the ranks derive different ones from it.

    Example:
        >>> from ebmlab.datamodules import EgoSmall
        >>> from ebmlab.energies import RGCN
        >>> from ebmlab.learners import RatioMatching
        >>> mmd, data = GraphMMD(20, num_steps=5), EgoSmall(source="embedded", num_graphs=10, max_nodes=8)
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[mmd])
        >>> (scores,) = trainer.test(RatioMatching(RGCN(8)), data, verbose=False)
        >>> sorted(name for name in scores if name.startswith("mmd/"))
        ['mmd/average', 'mmd/clustering', 'mmd/degree', 'mmd/orbit']
    """

    group = "mmd"

    logs = ("mmd/*",)

    def __init__(
        self,
        num_samples: int = 200,
        num_steps: int | None = None,
        *,
        batch_size: int = 200,
        every_n_epochs: int = 10,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed, batch_size)

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data = data_showing(trainer, Graphs, self)
        require_split(data, held_out(trainer), self, "give it a validation split, or remove it")
        learner_of(pl_module, self)

    def headline_of(self, trainer: pl.Trainer, metrics: dict[str, float]) -> Headline:
        return Headline("MMD of graphs", metrics["mmd/average"], about="mean of degree, clustering and orbit")

    def metric(self, trainer: pl.Trainer, learner: Learner) -> torchmetrics.Metric:
        data = data_showing(trainer, Graphs, self)
        return metrics.GraphMMD(shown_as(Graphs, data, data.states(held_out(trainer), 1)).adjacency.shape[-1])

    def real(self, trainer: pl.Trainer, learner: Learner, num_samples: int) -> Tensor:
        return drawn_states(data_showing(trainer, Graphs, self), held_out(trainer))
