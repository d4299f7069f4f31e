"""`python -m ebmlab compare FILE FILE...`: files of samples, held against the first by their discrepancy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ebmlab.data.columns import check_columns
from ebmlab.errors import WHY, UserError, explained, how_many
from ebmlab.evaluation import effective_sample_size, split_r_hat
from ebmlab.evaluation.r_hat import MIN_STEPS
from ebmlab.exchange.samples import variables
from ebmlab.reading.number_files import SUFFIXES, read_numbers
from ebmlab.reading.tables import read_head
from ebmlab.sequences.alignment_file import letters_of, read_rows

MOST, PERMUTATIONS, SEED = 2000, 500, 0
INSTEAD = {"letters": "numbers", "numbers": "letters", "0 and 1": "-1 and 1", "-1 and 1": "0 and 1"}


def compare_samples(paths: Sequence[Path]) -> list[tuple[str, list[str]]]:
    """Rows of a table: numbers of samples, and whether each file's law can be told from that of the first.

    The discrepancy is the unbiased one under exp(-H / d), H the number of coordinates in which two samples differ. p is
    that of a permutation test, which needs independent samples. So the compared states of a chain lie apart by twice
    its autocorrelation time, which is the number of states over the effective sample size. At most 2,000 samples of a
    file are compared, at equal distances.

    Args:
        paths: .npy, .npz, .csv, .pt, .json or .h5 files of discrete samples `(n, *shape)`, or chains
            `(num_steps, num_chains, d)`; or alignments.

    Raises:
        UserError: a file cannot be read, or samples have different shapes, columns or values.
    """
    columns: list[list[str]] = []
    held: dict[str, Path] = {}
    named: tuple[list[str], Path] = [], paths[0]
    first: Tensor | None = None
    for path in paths:
        x, own = _read(path, named[0])
        check_columns(own, named[0], f"compare: {path}", str(named[1]))
        named = named if named[0] else (own, path)
        chains = x if x.dim() == 3 and len(x) >= MIN_STEPS else None
        x = x.flatten(0, 1) if chains is not None else x
        states = x.flatten(1).double()
        if not bool(((states == states.round()) & states.isfinite()).all()):
            raise UserError(f"compare: {path} holds numbers that are not whole: discrete samples are compared")
        for mine in _values(path, states):
            if (other := INSTEAD[mine]) in held:
                raise UserError(
                    f"compare: {path} holds {mine}, but {held[other]} {other}: give all samples in the same values"
                )
            held.setdefault(mine, path)
        if first is not None and states.shape[1] != first.shape[1]:
            raise UserError(
                f"compare: {path} has samples of {how_many(states.shape[1], 'number')}, {paths[0]} of {first.shape[1]}"
            )
        count, r_hat, part = "-", "-", states
        if chains is not None:
            count, r_hat = str(chains.shape[1]), f"{float(split_r_hat(chains.double()).nan_to_num(1).max()):.3f}"
            part = _independent(chains.double())
        part = part[:: -(-len(part) // MOST)]
        numbers = [str(len(states)), count, r_hat, str(len(torch.unique(states, dim=0))), str(len(part))]
        found = ["-", "-"]
        if first is None:
            first = part
        elif min(len(first), len(part)) > 1:
            found = [f"{value:.3g}" for value in _discrepancy(first, part)]
        columns.append([*numbers, *found])
    names = ("samples", "chains", "largest R-hat", "distinct", "compared", "MMD^2 to the first", "p")
    return [(name, [column[k] for column in columns]) for k, name in enumerate(names)]


def _independent(chains: Tensor) -> Tensor:
    """States of chains `(num_steps, num_chains, d)` that lie far enough apart to count as independent, `(n, d)`."""
    steps, count = chains.shape[:2]
    varies = chains.amax((0, 1)) > chains.amin((0, 1))  # a constant does not say how fast the chains move
    size = float(effective_sample_size(chains)[varies].min()) if varies.any() else float(count)
    apart = max(math.ceil(2 * steps * count / size), math.ceil(steps / max(1, MOST // count)))  # steps
    return chains[torch.arange(steps - 1, -1, -apart)].flatten(0, 1)


def _values(path: Path, states: Tensor) -> list[str]:
    """What a file's samples are made of, in words of `INSTEAD`; samples of ones alone may be bits or spins."""
    if path.suffix.lower() not in SUFFIXES:
        return ["letters"]
    low, high = float(states.min()), float(states.max())
    if low == -1 and high <= 1 and bool((states != 0).all()):
        return ["numbers", "-1 and 1"]
    return ["numbers", "0 and 1"] if low == 0 and high <= 1 else ["numbers"]


def _read(path: Path, names: list[str]) -> tuple[Tensor, list[str]]:
    """The samples of a file, of an alignment a number for each letter; and the names of their columns, if it has any.

    The variables of a sample set are put into the order of these names, if they are the same.
    """
    if (kind := path.suffix.lower()) in SUFFIXES:
        own: list[str] = []
        if kind == ".json":
            own = [*variables(path)]
            own = names if set(own) == set(names) else own
        x, _ = read_numbers(path, None, "x", own)
        return x, read_head(path).names if kind == ".csv" else own
    with explained(f"compare: {WHY}, or samples in {', '.join(SUFFIXES)}", UserError):
        rows = read_rows(path)
    texts = [rows.columns(text) for text in rows.texts]
    if len(set(map(len, texts))) > 1:
        raise UserError(f"compare: {path} has sequences of {min(map(len, texts))} to {max(map(len, texts))} columns")
    return torch.from_numpy(letters_of(texts).copy()), []


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
