"""Images in rows."""

from __future__ import annotations

import torch

from ebmlab.drawing.tiles import tile


def test_tile_lays_images_out_in_rows() -> None:
    images = torch.arange(5.0).view(5, 1, 1, 1)
    assert tile(images, columns=3, fill=9)[0].tolist() == [
        [9, 9, 9, 9, 9, 9, 9],
        [9, 0, 9, 1, 9, 2, 9],
        [9, 9, 9, 9, 9, 9, 9],
        [9, 3, 9, 4, 9, 9, 9],
        [9, 9, 9, 9, 9, 9, 9],
    ]
