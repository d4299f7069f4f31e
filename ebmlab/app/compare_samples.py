"""`python -m ebmlab compare FILE FILE...`: files of samples, held against the first by their discrepancy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ebmlab.errors import WHY, UserError, explained, how_many
from ebmlab.evaluation import split_r_hat
from ebmlab.evaluation.r_hat import MIN_STEPS
from ebmlab.reading.number_files import SUFFIXES, read_numbers
from ebmlab.sequences.alignment_file import read_rows
from ebmlab.sequences.family import letters_of

MOST, PERMUTATIONS, SEED = 2000, 500, 0


def compare_samples(paths: Sequence[Path]) -> list[tuple[str, list[str]]]:
    """Rows of a table: numbers of samples, and whether each file's law can be told from that of the first.

    The discrepancy is the unbiased one under exp(-H / d), H the number of coordinates in which two samples differ. p is
    that of a permutation test. Of more than 2,000 samples as many are taken at equal distances.

    Args:
        paths: .npy, .npz, .csv, .pt, .json or .h5 files of discrete samples `(n, *shape)`, or chains
            `(num_steps, num_chains, d)`; or alignments.

    Raises:
        UserError: a file cannot be read, or samples have different shapes.
    """
    columns: list[list[str]] = []
    first: Tensor | None = None
    for path in paths:
        x = _read(path)
        chains = x if x.dim() == 3 and len(x) >= MIN_STEPS else None
        x = x.flatten(0, 1) if chains is not None else x
        states = x.flatten(1).double()
        if not bool((states == states.round()).all()):
            raise UserError(f"compare: {path} holds numbers that are not whole: discrete samples are compared")
        if first is not None and states.shape[1] != first.shape[1]:
            raise UserError(
                f"compare: {path} has samples of {how_many(states.shape[1], 'number')}, {paths[0]} of {first.shape[1]}"
            )
        r_hat = "-" if chains is None else f"{float(split_r_hat(chains.double()).nan_to_num(1).max()):.3f}"
        numbers = [str(len(states)), str(len(torch.unique(states, dim=0))), r_hat]
        part = states[:: -(-len(states) // MOST)]
        if first is None:
            first = part
            columns.append([*numbers, "-", "-"])
        else:
            columns.append([*numbers, *(f"{value:.3g}" for value in _discrepancy(first, part))])
    names = ("samples", "distinct", "largest R-hat", "MMD^2 to the first", "p")
    return [(name, [column[k] for column in columns]) for k, name in enumerate(names)]


def _read(path: Path) -> Tensor:
    """The samples of a file; of an alignment, a number for each letter."""
    if path.suffix.lower() in SUFFIXES:
        return read_numbers(path, None, "x")[0]
    with explained(f"compare: {WHY}, or samples in {', '.join(SUFFIXES)}", UserError):
        rows = read_rows(path)
    texts = [rows.columns(text) for text in rows.texts]
    if len(set(map(len, texts))) > 1:
        raise UserError(f"compare: {path} has sequences of {min(map(len, texts))} to {max(map(len, texts))} columns")
    return torch.from_numpy(letters_of(texts).copy())


def _discrepancy(x: Tensor, y: Tensor) -> tuple[float, float]:
    """The U-statistic, and the share of random splits of both sets with one as large."""
    both = torch.cat([x, y])
    kernel = torch.exp(-torch.cdist(both, both, p=0.0) / both.shape[1]).fill_diagonal_(0)
    n, m = len(x), len(y)
    generator = torch.Generator().manual_seed(SEED)
    orders = [torch.arange(n + m), *(torch.randperm(n + m, generator=generator) for _ in range(PERMUTATIONS))]
    sides = torch.zeros(len(orders), n + m, dtype=torch.float64)
    for row, order in zip(sides, orders, strict=True):
        row[order[:n]] = 1
    products = sides @ kernel
    own = (products * sides).sum(1)
    cross = products.sum(1) - own
    rest = kernel.sum() - own - 2 * cross
    values = own / (n * (n - 1)) + rest / (m * (m - 1)) - 2 * cross / (n * m)
    return float(values[0]), float((values >= values[0] - 1e-12).double().mean())
