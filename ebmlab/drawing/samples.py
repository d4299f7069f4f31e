"""What samples look like, whatever they are samples of."""

from __future__ import annotations

from importlib.util import find_spec

from ebmlab.data.interface import Graphs, Images, Points, Shown, Table
from ebmlab.drawing.figures import figure_png
from ebmlab.drawing.graph_panels import draw_graphs
from ebmlab.drawing.plane import draw_points
from ebmlab.drawing.table import draw_table
from ebmlab.drawing.tiles import image_png, tile
from ebmlab.errors import how_many

MAX_IMAGES = 400
MAX_GRAPHS = 64


def picture(shown: Shown | None) -> bytes | None:
    """A PNG of samples, of as many as fit, or None where there is no picture of them.

    Images are laid out in rows; graphs are drawn if networkx is installed.

    Args:
        shown: what the data's `show` says of the samples.
    """
    if isinstance(shown, Images):
        return image_png(tile(shown.values[:MAX_IMAGES], fill=0.5))
    match shown:
        case Table():
            return figure_png(draw_table({"samples": shown}))
        case Points(values, extent):
            return figure_png(draw_points(values, extent))
        case Graphs(adjacency) if find_spec("networkx") is not None:
            matrices = adjacency[:MAX_GRAPHS]
            return figure_png(draw_graphs({how_many(len(matrices), "sample"): matrices}))
    return None
