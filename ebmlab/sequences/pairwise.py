"""The best global alignment of two sequences with affine costs of gaps (Gotoh, 1982); gaps at the ends are free."""

from __future__ import annotations

from itertools import pairwise

MATCH, MISMATCH, OPEN, EXTEND = 2.0, -1.0, -3.0, -0.25


def align(first: str, second: str) -> list[tuple[int, int]]:
    """The places of letters that stand above each other, in order."""
    n, m = len(first), len(second)
    low = -1e9
    # the best scores of alignments of beginnings that end in a pair, in a letter of the first, of the second
    pair, above, below = ([[low] * (m + 1) for _ in range(n + 1)] for _ in range(3))
    pair[0][0] = 0.0
    for i in range(1, n + 1):
        above[i][0] = 0.0
    for j in range(1, m + 1):
        below[0][j] = 0.0
    for i in range(1, n + 1):
        open_below, extend_below = (OPEN, EXTEND) if i < n else (0.0, 0.0)
        for j in range(1, m + 1):
            open_above, extend_above = (OPEN, EXTEND) if j < m else (0.0, 0.0)
            score = MATCH if first[i - 1] == second[j - 1] else MISMATCH
            pair[i][j] = score + max(pair[i - 1][j - 1], above[i - 1][j - 1], below[i - 1][j - 1])
            above[i][j] = max(pair[i - 1][j] + open_above, above[i - 1][j] + extend_above)
            below[i][j] = max(pair[i][j - 1] + open_below, below[i][j - 1] + extend_below, above[i][j - 1] + open_below)
    return _trace(pair, above, below, n, m)


def score(first: str, second: str, pairs: list[tuple[int, int]]) -> float:
    """What an alignment is worth: letters that stand above each other, less the costs of the gaps between them."""
    total = sum(MATCH if first[i] == second[j] else MISMATCH for i, j in pairs)
    for (i, j), (k, m) in pairwise(pairs):
        total += sum(OPEN + EXTEND * (gap - 1) for gap in (k - i - 1, m - j - 1) if gap)
    return total


def _trace(
    pair: list[list[float]], above: list[list[float]], below: list[list[float]], n: int, m: int
) -> list[tuple[int, int]]:
    """Walks back from the end, by the scores that were reached."""
    pairs = []
    i, j = n, m
    tables = {"pair": pair, "above": above, "below": below}
    state = max(tables, key=lambda name: tables[name][i][j])
    while i > 0 and j > 0:
        before = {"pair": (i - 1, j - 1), "above": (i - 1, j), "below": (i, j - 1)}[state]
        if state == "pair":
            pairs.append((i - 1, j - 1))
        a, b = before
        if state == "pair":
            costs = {"pair": 0.0, "above": 0.0, "below": 0.0}
        elif state == "above":
            free = j == m
            costs = {"pair": 0.0 if free else OPEN, "above": 0.0 if free else EXTEND}
        else:
            free = i == n
            costs = {"pair": 0.0 if free else OPEN, "below": 0.0 if free else EXTEND, "above": 0.0 if free else OPEN}
        state = max(costs, key=lambda name: tables[name][a][b] + costs[name])
        i, j = a, b
    return pairs[::-1]
