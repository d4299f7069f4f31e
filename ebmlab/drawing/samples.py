"""What samples look like, whatever they are samples of."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from torch import Tensor

from ebmlab.drawing.figures import figure_png
from ebmlab.drawing.graph_panels import draw_graphs
from ebmlab.drawing.plane import draw_points
from ebmlab.drawing.tiles import image_png, tile

MAX_IMAGES = 400
MAX_GRAPHS = 64


def picture(datamodule: Any, samples: Tensor) -> bytes | None:
    """A PNG of samples, of as many as fit, or None where nothing is known of how they look.

    Images, and spins of a square lattice (a datamodule with `side`), are laid out in rows; codes of points in the plane
    (`decode`, `extent`) become points; graphs (`num_nodes`, `adjacency`) are drawn if networkx is installed. Means of
    bits, which `denoise` gives, are rounded to codes and graphs.

    Args:
        datamodule: whose samples they are.
        samples: as its `denormalize` gives them, `(N, *event_shape)`.
    """
    if samples.dim() == 4:
        return _rows(samples)
    if hasattr(datamodule, "decode"):
        return figure_png(draw_points(datamodule.decode(samples.round()), datamodule.extent))
    if hasattr(datamodule, "adjacency"):
        if find_spec("networkx") is None:
            return None
        matrices = datamodule.adjacency(samples[:MAX_GRAPHS].round())
        return figure_png(draw_graphs({f"{len(matrices)} samples": matrices}))
    if hasattr(datamodule, "side"):
        return _rows((samples.view(-1, 1, datamodule.side, datamodule.side) + 1) / 2)
    return None


def _rows(images: Tensor) -> bytes:
    """Images `(N, C, H, W)` in [0, 1]."""
    return image_png(tile(images[:MAX_IMAGES], fill=0.5))
