"""Scores of all single mutants of a sequence as a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ebmlab.drawing.figures import DPI, new_figure
from ebmlab.sequences import Alphabet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 80  # sites in a line
SPAN = 0.98  # share of the scores within the range of colours


def draw_mutations(scores: Tensor, values: Tensor, numbers: Tensor, alphabet: Alphabet, title: str = "") -> Figure:
    """Draws a column for each residue and a row for each letter; red mutants are less likely than the sequence.

    Dots are the sequence itself. The numbers of the residues stand below.

    Args:
        scores: `(d, q)`.
        values: of the sequence, `(d,)`.
        numbers: of its residues, `(d,)`.
        alphabet: of the values. Of the gap no row is drawn.
        title: of the figure.
    """
    rows = [a for a in range(len(alphabet.letters)) if a != alphabet.gap_value]
    shown = scores[:, rows].detach().cpu()
    limit = float(shown.abs().flatten().quantile(SPAN)) or 1.0
    lines = math.ceil(len(scores) / WIDTH)
    across = min(WIDTH, len(scores))
    figure = new_figure(
        figsize=(1.8 + 0.16 * across, 0.9 + lines * (0.7 + 0.16 * len(rows))), dpi=DPI, layout="compressed"
    )
    figure.suptitle(title, fontsize=11)
    panels = figure.subplots(lines, 1, squeeze=False)[:, 0]
    for line, axes in enumerate(panels):
        part = slice(line * WIDTH, (line + 1) * WIDTH)
        table = torch.full((across, len(rows)), torch.nan)
        table[: len(shown[part])] = shown[part]
        picture = axes.imshow(
            table.T.numpy(), cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto", interpolation="none"
        )
        for x, value in enumerate(values[part].tolist()):
            if value in rows:
                axes.plot(x, rows.index(value), "k.", markersize=4)
        ticks = [x for x, number in enumerate(numbers[part].tolist()) if number % 10 == 0 or x == 0]
        axes.set_xticks(ticks, [str(int(numbers[part][x])) for x in ticks], fontsize=8)
        axes.set_yticks(range(len(rows)), [alphabet.letters[a] for a in rows], fontsize=7)
    panels[-1].set_xlabel("residue")
    figure.colorbar(picture, ax=list(panels), label="log p(mutant) - log p(sequence)", extend="both", fraction=0.03)
    return figure
