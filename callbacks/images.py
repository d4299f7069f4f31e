"""Pictures: how they are put together, and how they reach the run's folder and its loggers."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from pytorch_lightning.loggers import TensorBoardLogger, WandbLogger
from torch import Tensor

from ebmlab.files import whole

MIN_WIDTH = 600
DPI = 100


def log_image(trainer: pl.Trainer, key: str, image: Figure | Tensor) -> Path | None:
    """Writes a picture to `<run folder>/images/<key>_step<global step>.png` and shows it to every logger.

    Args:
        trainer: its `default_root_dir` is the run's folder.
        key: such as "samples/grid"; slashes become dashes in the file's name.
        image: a matplotlib figure, or a tensor `(C, H, W)` or `(H, W)` in [0, 1], enlarged if it is small.

    Returns:
        The file, or None on other ranks than 0, which do nothing.
    """
    if not trainer.is_global_zero:
        return None
    step = trainer.global_step
    path = Path(trainer.default_root_dir, "images", f"{key.replace('/', '-')}_step{step:07d}.png")
    with whole(path) as temporary:
        temporary.write_bytes(_figure_png(image) if isinstance(image, Figure) else _tensor_png(image))
    for logger in trainer.loggers:
        if isinstance(logger, WandbLogger):
            logger.log_image(key, [str(path)], step=step)
        elif isinstance(logger, TensorBoardLogger):
            with Image.open(path) as picture:
                logger.experiment.add_image(key, np.asarray(picture.convert("RGB")), step, dataformats="HWC")
    return path


def tile(images: Tensor, columns: int | None = None, fill: float = 1.0) -> Tensor:
    """Lays images `(N, C, H, W)` out in rows, one pixel of `fill` between and around them; `(C, H', W')`."""
    n, channels, height, width = images.shape
    columns = columns or math.ceil(math.sqrt(n))
    rows = math.ceil(n / columns)
    canvas = images.new_full((channels, rows * (height + 1) + 1, columns * (width + 1) + 1), fill)
    for i, image in enumerate(images):
        top, left = (i // columns) * (height + 1) + 1, (i % columns) * (width + 1) + 1
        canvas[:, top : top + height, left : left + width] = image
    return canvas


def enlarge(image: Tensor, factor: int) -> Tensor:
    """Repeats every pixel of `(C, H, W)` `factor` times in both directions."""
    return image.repeat_interleave(factor, -1).repeat_interleave(factor, -2)


def panels(pictures: dict[str, Tensor], gap: int = 24, min_width: int = MIN_WIDTH) -> Figure:
    """Pictures `(C, H, W)` in [0, 1] side by side under their titles, enlarged by a whole number."""
    width = sum(p.shape[2] for p in pictures.values()) + 1
    factor = max(1, math.ceil(min_width / width))
    large = {title: enlarge(p.detach().cpu().clamp(0, 1), factor) for title, p in pictures.items()}
    top = 34
    total_width = sum(p.shape[2] for p in large.values()) + gap * (len(large) + 1)
    total_height = max(p.shape[1] for p in large.values()) + gap + top
    figure = Figure(
        figsize=((total_width + 1e-6) / DPI, (total_height + 1e-6) / DPI), dpi=DPI
    )  # the canvas rounds down
    left = gap
    for title, picture in large.items():
        _, height, width = picture.shape
        box = (left / total_width, 1 - (top + height) / total_height, width / total_width, height / total_height)
        axes = figure.add_axes(box)
        axes.imshow(_rgb(picture), interpolation="none", aspect="auto")
        axes.set_axis_off()
        figure.text(
            (left + width / 2) / total_width, 1 - 17 / total_height, title, ha="center", va="center", fontsize=11
        )
        left += width + gap
    return figure


def _rgb(image: Tensor) -> np.ndarray:
    """`(H, W)` or `(C, H, W)` in [0, 1] as `(H, W, 3)`, uint8."""
    image = image.detach().cpu().float()
    image = image if image.dim() == 3 else image.unsqueeze(0)
    levels = image.nan_to_num().clamp(0, 1).mul(255).round().to(torch.uint8)
    return levels.expand(3, -1, -1).permute(1, 2, 0).numpy()


def _tensor_png(image: Tensor) -> bytes:
    levels = _rgb(image)
    factor = max(1, math.ceil(MIN_WIDTH / levels.shape[1]))
    buffer = io.BytesIO()
    Image.fromarray(levels.repeat(factor, 0).repeat(factor, 1)).save(buffer, "png")
    return buffer.getvalue()


def _figure_png(figure: Figure) -> bytes:
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=figure.dpi)
    return buffer.getvalue()
