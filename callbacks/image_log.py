"""Writes pictures to the run's folder and sends them to its loggers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytorch_lightning as pl
from PIL import Image
from pytorch_lightning.loggers import TensorBoardLogger, WandbLogger
from torch import Tensor

from ebmlab.drawing.captions import with_texts
from ebmlab.drawing.figures import figure_png
from ebmlab.drawing.tiles import image_png
from ebmlab.io.files import write_whole
from ebmlab.samplers import Sampler

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def log_image(trainer: pl.Trainer, key: str, image: Figure | Tensor, *, caption: str = "") -> Path | None:
    """Writes a picture to `<run folder>/images/<key>_step<global step>.png` and sends it to every logger.

    The file holds its key and its caption, which W&B and the dashboard show.

    Args:
        trainer: its `default_root_dir` is the run's folder.
        key: such as "samples/grid"; slashes become dashes in the file's name.
        image: a matplotlib figure, or a tensor `(C, H, W)` or `(H, W)` in [0, 1], which is enlarged if it is small.
        caption: how it was made, such as "Gibbs, 30 steps" (see `made_by`); "step N" is put before it.

    Returns:
        The file, or None on ranks other than 0, which do nothing.

    Example:
        >>> trainer = pl.Trainer(default_root_dir=".", logger=False)
        >>> log_image(trainer, "samples/grid", torch.rand(1, 8, 8)).name
        'samples-grid_step0000000.png'
    """
    if not trainer.is_global_zero:
        return None
    step = trainer.global_step
    path = Path(trainer.default_root_dir, "images", f"{key.replace('/', '-')}_step{step:07d}.png")
    caption = ", ".join(filter(None, [f"step {step}", caption]))
    png = image_png(image) if isinstance(image, Tensor) else figure_png(image)
    write_whole(path, with_texts(png, {"Title": key, "Description": caption}))
    for logger in trainer.loggers:
        if isinstance(logger, WandbLogger):
            logger.log_image(key, [str(path)], step=step, caption=[caption])
        elif isinstance(logger, TensorBoardLogger):
            with Image.open(path, formats=("PNG",)) as picture:
                logger.experiment.add_image(key, np.asarray(picture.convert("RGB")), step, dataformats="HWC")
    return path


def made_by(sampler: Sampler, num_steps: int) -> str:
    """The caption of samples: the sampler and its steps."""
    return f"{type(sampler).__name__}, {num_steps} step{'s' * (num_steps != 1)}"
