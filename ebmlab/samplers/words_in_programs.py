"""Chains in words by compiled programs, in which the digits of a colour are compared in one loop.

A program does not contain the couplings' values: it takes the digits of probabilities, and serves all temperatures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from ebmlab.numerics.bit_planes import IN_PROGRAMS, Random, added, counted, random_words
from ebmlab.samplers.multi_spin import Group, MultiSpin, Rule, for_programs, sweep

Betas = Sequence[float | Tensor]
SWEEPS = 2  # of a program: calling it takes as long as a fifth of a sweep of 400 spins, and eight compile for minutes
THRESHOLDS = 12  # of all groups together, at most: each is compared with all digits, and makes the program longer
ENTRIES = 2**12  # spins of all chains, from which words are faster than states
AT_ONCE = 2**13  # words of the chains that a program moves: their random numbers fit a cache
DIGITS = 8  # of the numbers of flips that a program counts
FULL = SWEEPS * ((2**DIGITS - 1) // SWEEPS)  # sweeps after which they are read, before they overflow


def worth_compiling(coded: MultiSpin, num_chains: int) -> bool:
    """Whether a program moves so many chains faster in words than as states, on a CPU."""
    thresholds = sum(group.total // 2 + 1 for group in coded.groups)
    return thresholds <= THRESHOLDS and (len(coded.place) - 1) * num_chains >= ENTRIES


@torch.no_grad()
def swept_by_programs(
    program: Callable[..., tuple[Tensor, Tensor | None]],
    coded: MultiSpin,
    rule: Rule,
    x: Tensor,
    num_steps: int,
    *,
    report: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The last states of chains in words, `(B, d)` in int8, and how many spins have flipped, `(B,)`, if asked for.

    Args:
        program: `sweeps`, compiled.
        coded: the energy.
        rule: what moves spins.
        x: where the chains begin, `(B, d)`.
        num_steps: how many sweeps they take.
        report: whether to count flips.
    """
    words, random = coded.packed(x), random_words(x.device)
    betas = [for_programs(rule, group.total, coded.quantum) for group in coded.groups]
    most = max(1, AT_ONCE // len(words))
    blocks = -(-words.shape[1] // most)
    width = -(-words.shape[1] // blocks)  # of all blocks, which share a program: the last one is filled up
    words = pad(words, (0, blocks * width - words.shape[1]))
    last, hops, rest = list[Tensor](), list[Tensor](), list[Tensor]()
    for block in words.chunk(blocks, 1):
        block = block.contiguous()
        flips, total = (block.new_zeros(DIGITS, block.numel()) if report else None), block.new_zeros(64 * width)
        for step in range(0, num_steps, SWEEPS):
            if step + SWEEPS <= num_steps:
                numbers = random(SWEEPS * IN_PROGRAMS * (len(block) - 1) * width)
                block, flips = program(coded.groups, rule, betas, block, flips, numbers)
                del numbers  # the next ones take their memory, which is still in the cache
            else:
                block, flips = _swept(
                    coded.groups, rule, [coded.quantum] * len(betas), block, flips, random, num_steps - step
                )
            if flips is not None and (step + SWEEPS) % FULL == 0:
                total, flips = total + _counted(flips.view(DIGITS, *block.shape)), torch.zeros_like(flips)
        last.append(block)
        hops.append(total)
        rest += [] if flips is None else [flips.view(DIGITS, *block.shape)]
    states = coded.unpacked(torch.cat(last, 1), len(x))
    if not report:
        return states, None
    digits = (num_steps % FULL).bit_length()  # those that are not 0 since they were read
    total = torch.cat(hops) + (_counted(torch.cat(rest, 2)[:digits]) if digits else 0)
    return states, total[: len(x)]


def _counted(flips: Tensor) -> Tensor:
    return counted([[plane] for plane in flips])


def sweeps(
    groups: list[Group], rule: Rule, betas: list[Tensor], words: Tensor, flips: Tensor | None, numbers: Tensor
) -> tuple[Tensor, Tensor | None]:
    """What a program does: `SWEEPS` sweeps, with random words `(SWEEPS * IN_PROGRAMS * d * W,)`."""
    begin = 0

    def random(*shape: int) -> Tensor:
        nonlocal begin
        begin += math.prod(shape)
        return numbers[begin - math.prod(shape) : begin].view(shape)

    return _swept(groups, rule, betas, words, flips, random, SWEEPS)


def _swept(
    groups: list[Group],
    rule: Rule,
    betas: Betas,
    words: Tensor,
    flips: Tensor | None,
    random: Random,
    num_sweeps: int,
) -> tuple[Tensor, Tensor | None]:
    """The words after some sweeps, whose flips are added to binary digits `(DIGITS, (d + 1) W)`, lowest first."""
    flipped = []
    for _ in range(num_sweeps):
        before, words = words, words.clone()
        sweep(groups, words, betas, random, rule)
        flipped.append((before ^ words).flatten())
    if flips is None:
        return words, None
    lowest, *higher = flips.unbind()
    return words, torch.stack(added([[lowest, *flipped], *([digit] for digit in higher)])[:DIGITS])
