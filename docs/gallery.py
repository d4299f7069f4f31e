"""The README's gallery: `python -m docs.gallery` cuts docs/pictures/gallery.png out of the other pictures."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

PICTURES = Path(__file__).parent / "pictures"
Box = tuple[int, int, int, int]
ROWS: list[list[tuple[str, str, Box]]] = [  # title, file, and the box that is cut out: left, top, right, bottom
    [
        ("GRBM, MNIST", "grbm_mnist_small.png", (22, 32, 492, 502)),
        ("deep EBM, binary MNIST", "ebm_dynamic_mnist_small_6000.png", (22, 32, 492, 502)),
        ("RBM: top half given, truth, completions", "completed_rbm.png", (20, 34, 780, 557)),
        ("graphs by ratio matching", "rm_ego_small.png", (812, 24, 1208, 404)),
    ],
    [
        ("25 modes: the law", "modes_25.png", (41, 60, 457, 460)),
        ("the same by ACS", "modes_25.png", (1942, 60, 2358, 460)),
        ("densities by ratio matching on 32 bits: data, models", "rm_synthetic_32_8000.png", (18, 20, 1112, 320)),
    ],
]
WIDTH, GAP, TITLE = 1600, 14, 30  # pixels


def draw() -> Figure:
    """The pictures in rows under their titles."""
    heights = [_height(row) for row in ROWS]
    total = sum(heights) + len(ROWS) * (TITLE + GAP)
    figure = Figure(figsize=(WIDTH / 100, total / 100), dpi=100, facecolor="white")
    top = 0
    for row, height in zip(ROWS, heights, strict=True):
        left = 0.0
        for title, name, box in row:
            cut = Image.open(PICTURES / name).convert("RGB").crop(box)
            width = height * cut.width / cut.height
            figure.text((left + width / 2) / WIDTH, 1 - (top + TITLE / 2) / total, title, ha="center", va="center")
            bottom = total - top - TITLE - height
            axes = figure.add_axes((left / WIDTH, bottom / total, width / WIDTH, height / total))
            axes.imshow(np.asarray(cut), interpolation="lanczos", aspect="auto")
            axes.set_axis_off()
            left += width + GAP
        top += height + TITLE + GAP
    return figure


def _height(row: list[tuple[str, str, Box]]) -> int:
    """The height at which the pictures of a row fill its width."""
    return int((WIDTH - GAP * (len(row) - 1)) / sum((r - x) / (b - y) for _, _, (x, y, r, b) in row))


if __name__ == "__main__":
    buffer = io.BytesIO()
    draw().savefig(buffer)
    Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        PICTURES / "gallery.png", optimize=True
    )
