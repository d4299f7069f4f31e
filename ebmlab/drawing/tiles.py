"""Images in rows, enlarged by whole numbers, and as PNG files. This module does not need matplotlib."""

from __future__ import annotations

import io
import math

import numpy as np
import torch
from PIL import Image
from torch import Tensor

MIN_WIDTH = 600  # pixels


def tile(images: Tensor, columns: int | None = None, fill: float = 1.0) -> Tensor:
    """Lays out images in rows, with one pixel of `fill` between and around them.

    Args:
        images: `(N, C, H, W)`.
        columns: images in a row; by default the grid is square.
        fill: value of the pixels between the images.

    Returns:
        One image `(C, H', W')`.
    """
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


def rgb(image: Tensor) -> np.ndarray:
    """Rounds `(H, W)`, `(1, H, W)` or `(3, H, W)` in [0, 1] to `(H, W, 3)`, uint8; NaN becomes black."""
    image = image.detach().cpu().float()
    image = image if image.dim() == 3 else image.unsqueeze(0)
    levels = image.nan_to_num().clamp(0, 1).mul(255).round().to(torch.uint8)
    return levels.expand(3, -1, -1).permute(1, 2, 0).numpy()


def image_png(image: Tensor) -> bytes:
    """An image `(H, W)` or `(C, H, W)` in [0, 1] as a PNG file, enlarged by a whole number to at least 600 pixels."""
    levels = rgb(image)
    factor = max(1, math.ceil(MIN_WIDTH / levels.shape[1]))
    buffer = io.BytesIO()
    Image.fromarray(levels.repeat(factor, 0).repeat(factor, 1)).save(buffer, "png")
    return buffer.getvalue()
