"""Pictures of the model's samples and of the chains that lead to them."""

from __future__ import annotations

import pytorch_lightning as pl
import torch
from torch import Tensor

from ebmlab.callbacks.image_log import made_by
from ebmlab.callbacks.periodic import noise
from ebmlab.callbacks.requirements import data_showing, images, learner_of, split_of
from ebmlab.callbacks.sample_evaluation import SampleEvaluation
from ebmlab.data.interface import Images
from ebmlab.data.weighted import drawn_states
from ebmlab.drawing.figures import panels
from ebmlab.drawing.tiles import tile
from ebmlab.energies import Bipartite
from ebmlab.errors import UserError
from ebmlab.learners import Learner
from ebmlab.settings import require_count


class SampleGrid(SampleEvaluation):
    """Runs new chains from the same noise each time and shows their last states and the states on the way, on rank 0.

    Logs `samples/grid` (samples beside as many real images) and `samples/chain` (a row per chain, with evenly spaced
    steps that begin at the noise).

    Args:
        num_samples: number of chains, and of real images beside them (all, if there are fewer).
        num_steps: steps of each chain; default as in training.
        num_strips: number of chains in `samples/chain`.
        num_frames: number of states of each, including the noise.
        denoise: show E[v | h] in place of v; default: if the energy has hidden units.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise and the chains.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.learners import ContrastiveDivergence, FromData
        >>> from ebmlab.samplers import BlockGibbs
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[SampleGrid(num_samples=16)])
        >>> learner = ContrastiveDivergence(GRBM(64, 8), BlockGibbs(), start=FromData())
        >>> _ = trainer.test(learner, Digits(), verbose=False)  # writes images/samples-grid_step0000000.png
    """

    needs_images = True

    def __init__(
        self,
        num_samples: int = 64,
        num_steps: int | None = None,
        *,
        num_strips: int = 8,
        num_frames: int = 10,
        denoise: bool | None = None,
        every_n_epochs: int = 1,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed)
        require_count("SampleGrid", num_strips=num_strips)
        require_count("SampleGrid", least=2, num_frames=num_frames)
        self.num_strips = num_strips
        self.num_frames = num_frames
        self.denoise = denoise

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data_showing(trainer, Images, self)
        learner = learner_of(pl_module, self)
        if self.denoise and not isinstance(learner.energy, Bipartite):
            raise UserError(
                f"SampleGrid: denoise shows E[v | h], but {type(learner.energy).__name__} has no hidden units: set it "
                "to false"
            )

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data, learner = data_showing(trainer, Images, self), learner_of(pl_module, self)
        if not trainer.is_global_zero:
            return
        n, num_steps = self.size(trainer, learner)
        denoise = learner.shows_mean(self.denoise)
        samples, strips, steps = self._draw(learner, n, num_steps, denoise)
        shown = "E[v | h]" if denoise else "x"
        grid = {
            f"samples: {shown} after {num_steps} steps": tile(images(data, samples)),
            "data": tile(images(data, drawn_states(data, split_of(data, "train"), n=n))),
        }
        self.log_image(trainer, "samples/grid", panels(grid), caption=made_by(learner.sampler, num_steps))
        frames = torch.stack([images(data, x) for x in strips])  # (F, S, C, H, W)
        columns = {
            f"step {k}" if i == 0 else str(k): tile(f, columns=1)
            for i, (k, f) in enumerate(zip(steps, frames, strict=True))
        }
        self.log_image(trainer, "samples/chain", panels(columns, gap=4), caption=made_by(learner.sampler, num_steps))

    def _draw(self, learner: Learner, n: int, num_steps: int, denoise: bool) -> tuple[Tensor, list[Tensor], list[int]]:
        """The last states `(n, *event)`, the strips' states at each frame, and the frames' steps."""
        wanted = sorted({round(k) for k in torch.linspace(0, num_steps, self.num_frames).tolist()})
        start = x = noise(learner, n)
        strips = [start[: self.num_strips]]
        for k, x in enumerate(learner.trajectory(start, num_steps, denoise=denoise), start=1):
            if k in wanted:
                strips.append(x[: self.num_strips])
        return x, strips, wanted
