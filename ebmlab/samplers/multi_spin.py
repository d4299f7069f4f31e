"""Multi-spin coding: 64 chains in the bits of a word, swept by bitwise operations (Jacobs & Rebbi, 1981).

Isakov et al., Comput. Phys. Commun. 192 (2015), anneal spin glasses so. The law is that of
`ChromaticGibbs`, or of `ChromaticMetropolis`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.energies.pairwise.pairwise import same
from ebmlab.native.word_sweeps import CLASSES, Sites, by_kernel, packed, swept, unpacked
from ebmlab.numerics.bit_planes import Planes, Random, added, count, counted, random_words
from ebmlab.samplers.spin_rules import ODDS, Rule, heat_bath, metropolis, thresholds

LARGEST = 62  # sum of a site's couplings, in quanta; more of them have too many local fields
_CODED: WeakKeyDictionary[Ising, tuple[list[Tensor], MultiSpin | None]] = WeakKeyDictionary()
WORDS = 2**16  # of the sites that are redrawn at a time: fewer fit a small cache, but cost more calls


@dataclass(frozen=True)
class Group:
    """Sites of one colour, whose local fields are quantum * (2 n - total), n the number of pulls upwards.

    Attributes:
        begin: the first of its rows.
        end: the row after its last one.
        total: K; sites with fewer pulls than K have pulls that cancel in pairs.
        columns: for each binary weight the rows that pull `(n, k)`, and masks `(n, k, 1)`, -1 where a pull is reversed.
    """

    begin: int
    end: int
    total: int
    columns: list[tuple[Tensor, Tensor]]

    def pulls(self, words: Tensor, rows: slice) -> Planes:
        """The binary digits of n, least significant first, each `(k, W)`."""
        return added([_gathered(words, index[:, rows], masks[:, rows]) for index, masks in self.columns])

    @cached_property
    def sites(self) -> Sites:
        """For the kernel in C++, on a CPU."""
        none = torch.empty(0, self.end - self.begin, dtype=torch.int64, device="cpu")
        index = torch.cat([none, *(index for index, _ in self.columns)])
        masks = torch.cat([none, *(masks.squeeze(2) for _, masks in self.columns)])
        bits = [bit for bit, (rows, _) in enumerate(self.columns) for _ in rows]
        return Sites(self.begin, self.total, index, masks, torch.tensor(bits, dtype=torch.int64, device="cpu"))


class MultiSpin:
    """An Ising model whose couplings and fields are small multiples of one number, for chains in words.

    Chains lie in a table of int64 `(d + 1, W)`: each site is a row, each chain a bit of all rows, 1 for a spin +1. The
    last row is 0, a spin -1 that never moves: the fields are couplings to it.

    Each spin compares a uniform number of 32 binary digits with a probability that its local field gives. The digits of
    all chains are drawn independently, and compared from the first one on.

    Args:
        energy: the model.
        quantum: all couplings and fields are whole multiples of it.
    """

    def __init__(self, energy: Ising, quantum: float) -> None:
        edges, size = energy.edges(), energy.domain.size
        device, ghost = energy.field.device, size
        fields = (energy.field / quantum).round().long()
        fielded = fields.nonzero().squeeze(1)
        sites = torch.cat([edges.rows, fielded])
        others = torch.cat([edges.columns, torch.full_like(fielded, ghost)])
        pulls = torch.cat([(edges.values / quantum).round().long(), -fields[fielded]])
        totals = torch.zeros(size, dtype=torch.long, device=device).index_add_(0, sites, pulls.abs())
        parts = [colour[totals[colour] % 2 == parity] for colour in energy.colours for parity in (0, 1)]
        parts = [part for part in parts if len(part)]
        self.quantum, self.order = quantum, torch.cat(parts)
        self.place = torch.full((size + 1,), ghost, device=device)
        self.place[self.order] = torch.arange(size, device=device)
        self.groups, begin = [], 0
        for part in parts:
            self.groups.append(_group(begin, part, self.place, totals[part], (sites, others, pulls)))
            begin += len(part)
        once = sites < others
        self.bonds = _by_weight(pulls[once], self.place[sites[once]], self.place[others[once]])
        self.lowest = -int(pulls[once].abs().sum())

    def pays(self, rule: Rule, num_chains: int) -> bool:
        """Whether so many chains move faster in words than as states, on a CPU.

        The kernel in C++ is ahead with one. By torch a group of sites takes its time however few they are, and states
        are fast in a heat bath with few pulls.
        """
        if by_kernel(self.place.device):
            return True
        heat = [2**19 // min(max(group.total, 4), 16) for group in self.groups]
        enough = sum(heat) if rule is heat_bath else 2**15 * len(heat)
        return (len(self.place) - 1) * num_chains >= enough

    def sweeps(self, words: Tensor, betas: Sequence[float], rule: Rule, *, report: bool = False) -> Tensor | None:
        """Moves all sites in place at each inverse temperature.

        Returns:
            How often each chain has flipped a spin, `(64 W,)`, if asked for.
        """
        if by_kernel(words.device):
            sites = [group.sites for group in self.groups]
            return swept(words, sites, self._thresholds(rule, betas), metropolis=rule is metropolis, report=report)
        random, flips = random_words(words.device), list[Planes]()
        for beta in betas:
            before = words.clone() if report else None
            self.sweep(words, beta, random, rule)
            if before is not None:
                count(before.bitwise_xor_(words), flips)
        return counted(flips) if flips else None

    def sweep(self, words: Tensor, beta: float, random: Random, rule: Rule) -> None:
        """Moves all sites in place, one colour after the other, by torch alone."""
        at_once = max(1, WORDS // words.shape[1])
        for group in self.groups:
            for begin in range(0, group.end - group.begin, at_once):
                rows = slice(begin, min(begin + at_once, group.end - group.begin))
                spins = words[group.begin + rows.start : group.begin + rows.stop]
                spins.copy_(rule(spins, group.pulls(words, rows), group.total, beta * self.quantum, random))

    def _thresholds(self, rule: Rule, betas: Sequence[float]) -> NDArray[np.uint32]:
        """For the kernel in C++, `(sweeps, groups, CLASSES)`."""
        each = dict.fromkeys(betas)
        found = np.zeros((len(each), len(self.groups), CLASSES), np.uint32)
        for rows, beta in zip(found, each, strict=True):
            for row, group in zip(rows, self.groups, strict=True):
                row[: group.total // 2 + 1] = thresholds(ODDS[rule], group.total, beta * self.quantum)
        if len(each) == 1:
            return np.broadcast_to(found, (len(betas), *found.shape[1:]))
        place = {beta: i for i, beta in enumerate(each)}
        return found[[place[beta] for beta in betas]]

    def energies(self, words: Tensor) -> Tensor:
        """E of all chains, `(64 W,)`, float64."""
        columns = [
            [words.index_select(0, a).bitwise_xor_(words.index_select(0, b)).bitwise_xor_(masks)]
            for a, b, masks in self.bonds
        ]
        unsatisfied = counted(columns) if columns else words.new_zeros(64 * words.shape[1])
        return self.quantum * (self.lowest + 2 * unsatisfied).double()

    def packed(self, x: Tensor) -> Tensor:
        """Spins `(B, d)` as words `(d + 1, W)`; chains beyond B have all spins -1."""
        if by_kernel(x.device) and x.dtype == torch.float32:
            return packed(x, self.place)
        up = (x > 0).T.contiguous().cpu().numpy()
        bits = np.packbits(np.pad(up, ((0, 1), (0, -len(x) % 64))), axis=1, bitorder="little")
        words = torch.from_numpy(bits.view(np.int64)).to(x.device)
        words[:-1] = words[self.order]
        return words

    def unpacked(self, words: Tensor, num_chains: int, dtype: torch.dtype = torch.int8) -> Tensor:
        """Spins `(B, d)`."""
        if by_kernel(words.device) and dtype == torch.float32:
            return unpacked(words, self.place, num_chains)
        rows = words[self.place[:-1]].cpu().numpy().view(np.uint8)
        bits = np.unpackbits(rows, axis=1, count=num_chains, bitorder="little").view(np.int8)
        spins = torch.from_numpy(bits).mul_(2).sub_(1).T
        return spins.to(words.device, dtype, memory_format=torch.contiguous_format)

    def taken(self, words: Tensor, chains: Tensor) -> Tensor:
        """Words of the chains with these numbers `(B,)`, in this order; those beyond B stay."""
        index = np.arange(64 * words.shape[1])
        index[: len(chains)] = chains.cpu().numpy()
        bits = np.unpackbits(words.cpu().numpy().view(np.uint8), axis=1, bitorder="little")
        bits = np.packbits(bits.take(index, axis=1), axis=1, bitorder="little")
        return torch.from_numpy(bits.view(np.int64)).to(words.device)

    def masks(self, chains: Tensor) -> Tensor:
        """Words `(W,)` whose bits say which chains are meant, from booleans `(B,)`."""
        bits = np.packbits(np.pad(chains.cpu().numpy(), (0, -len(chains) % 64)), bitorder="little")
        return torch.from_numpy(bits.view(np.int64)).to(chains.device)

    def random(self, num_words: int, random: Random) -> Tensor:
        """Words `(d + 1, W)` of random states."""
        words = random(len(self.place), num_words)
        words[-1] = 0
        return words


def multi_spin(energy: object) -> MultiSpin | None:
    """The energy for chains in words; None unless it is an Ising model that allows it.

    Its couplings and fields must be whole multiples of the smallest of them. Those of no site may add up to more than
    `LARGEST` times that one. The last answer is kept until the energy's numbers change.
    """
    if type(energy) is not Ising or energy.learn:  # a subclass may have another law
        return None
    now = list(energy.buffers())
    if energy in _CODED and len(_CODED[energy][0]) == len(now) and all(map(same, _CODED[energy][0], now)):
        return _CODED[energy][1]
    _CODED[energy] = [numbers.detach().clone() for numbers in now], (coded := _coded(energy))
    return coded


def _coded(energy: Ising) -> MultiSpin | None:
    edges = energy.edges()
    values = torch.cat([edges.values, energy.field])
    quantum = float(values[values != 0].abs().min()) if bool(values.any()) else 1.0
    whole = (values / quantum).round()
    totals = energy.field.abs().index_add(0, edges.rows, edges.values.abs()) / quantum
    allowed = torch.equal(whole * quantum, values) and float(totals.max()) < LARGEST + 0.5
    return MultiSpin(energy, quantum) if allowed else None


def _group(begin: int, part: Tensor, place: Tensor, totals: Tensor, couplings: tuple[Tensor, Tensor, Tensor]) -> Group:
    sites, others, pulls = couplings
    local = torch.full_like(place, -1)
    local[part] = torch.arange(len(part), device=part.device)
    own = local[sites] >= 0
    row, other, pull = local[sites[own]], place[others[own]], pulls[own]
    total = int(totals.max())
    idle = (total - totals) // 2  # pulls of 1 that the ghost adds; as many are left at 0
    columns = []
    for bit in range(int(max(pull.abs().max() if len(pull) else 0, idle.max())).bit_length()):
        some = pull.abs() >> bit & 1 == 1
        idlers = (idle >> bit & 1 == 1).nonzero().squeeze(1)
        rows = torch.cat([row[some], idlers])
        order = rows.argsort(stable=True)
        rows = rows[order]
        degrees = torch.bincount(rows, minlength=len(part))
        slot = torch.arange(len(rows), device=rows.device) - (degrees.cumsum(0) - degrees)[rows]
        index = torch.full((max(1, int(degrees.max())), len(part)), len(place) - 1, device=rows.device)
        masks = torch.zeros_like(index)
        index[slot, rows] = torch.cat([other[some], torch.full_like(idlers, len(place) - 1)])[order]
        masks[slot, rows] = torch.cat([-(pull[some] < 0).long(), torch.full_like(idlers, -1)])[order]
        columns.append((index, masks.unsqueeze(2)))
    return Group(begin, begin + len(part), total, columns)


def _by_weight(pulls: Tensor, a: Tensor, b: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each binary weight the ends of the couplings that have it, and masks that make 1 of what is not satisfied."""
    widths = int(pulls.abs().max()).bit_length() if len(pulls) else 0
    chosen = [pulls.abs() >> bit & 1 == 1 for bit in range(widths)]
    return [(a[some], b[some], -(pulls[some] < 0).long().unsqueeze(1)) for some in chosen]


def _gathered(words: Tensor, index: Tensor, masks: Tensor) -> Planes:
    rows = words.index_select(0, index.flatten()).view(*index.shape, words.shape[1])
    return list(rows.bitwise_xor_(masks))
