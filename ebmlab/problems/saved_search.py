"""A search in a file, so that one that was stopped goes on exactly."""

from __future__ import annotations

import errno
import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UNFIT, WHY, UserError, explained, one_line
from ebmlab.io.files import Damaged, check_regular, load, save
from ebmlab.problems.course import Course
from ebmlab.problems.reheated import Heat
from ebmlab.samplers.multi_spin import multi_spin

EVERY = 10.0  # seconds from one save to the next
SHARE = 0.02  # of the time that saving may take
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, or no more for this user, or for a file


@dataclass(frozen=True)
class Moment:
    """A search between two looks.

    Attributes:
        course: of the present annealing.
        steps: that every chain has taken.
        seconds: since the start, without those between a stop and the resumption.
        looks: how many there were; the next lists may have grown since.
        curve: as in `Minimum`.
        notes: as in `Minimum`.
        heat: as in `Minimum`.
        chains: their states.
        random: the states of random generators, by kind of device.
    """

    course: Course
    steps: int
    seconds: float
    looks: int
    curve: list[tuple[float, float, float]]
    notes: list[float]
    heat: Heat | None
    chains: Mapping[str, Tensor]
    random: Mapping[str, Tensor]


class SavedSearch:
    """A file with the newest moment of a search. Whatever a file of a stranger holds is compared, and never run.

    Args:
        path: the file.
        settings: what must not change on the way, by name. Checksums are texts of 64 digits.
        like: the states of the chains of this search, for their shapes and types.
        energy: that is searched.
    """

    def __init__(
        self, path: Path, settings: dict[str, str | int], *, like: Mapping[str, Tensor], energy: Energy
    ) -> None:
        self.moment: Moment | None = None
        self._path, self._settings, self._like, self._energy = path, settings, like, energy
        self._saved_at, self._took = time.monotonic(), 0.0

    def load(self) -> Moment | None:
        """What the file holds; None without one.

        Raises:
            UserError: it is damaged, no search, or one of another problem or with other settings.
        """
        path = self._path
        check_regular(path)
        if not path.exists():
            return None
        line = f"{path} is damaged, or not the file of a search ({WHY}): delete it to begin again"
        with explained(line, (Damaged, *UNFIT)):
            kept = load(path, map_location="cpu")
            self._compare(kept["settings"])
            return self._moment(kept)

    def save(self) -> None:
        """Writes the newest moment, if there is one; a full disk makes a warning, so that nothing found is lost."""
        if self.moment is None:
            return
        begin, now = time.monotonic(), self.moment
        lists = {"curve": now.curve[: now.looks], "notes": now.notes[: now.looks]}
        parts = {"course": vars(now.course), "heat": now.heat and vars(now.heat), "settings": self._settings}
        try:
            save(vars(now) | lists | parts, self._path)
        except OSError as error:
            if error.errno not in FULL:
                raise
            warnings.warn(f"{self._path}: {one_line(error)}, so that the search is not saved", stacklevel=2)
        self._saved_at = time.monotonic()
        self._took = self._saved_at - begin

    def save_now_and_then(self) -> None:
        """Writes it if the last time is long ago, so that saving takes a small share of the time."""
        if time.monotonic() - self._saved_at > max(EVERY, self._took / SHARE):
            self.save()

    def _compare(self, settings: Mapping[str, object]) -> None:
        for name, now in self._settings.items():
            then = settings[name]
            if then != now:
                what = "is another" if len(str(now)) == 64 else f"was {str(then)[:80]}, and is {now}"
                raise UserError(
                    f"{self._path}: the {name} of this search {what}: give what it began with, or begin another search"
                )

    def _moment(self, kept: Mapping[str, Any]) -> Moment:
        carried = {name: like for name, like in self._like.items() if name not in ("now", "best")}
        found = carried | kept["chains"]  # files of before have the states alone
        chains = _as_kept_here(self._energy, found, self._like)
        for name, like in self._like.items():
            if (chains[name].shape, chains[name].dtype) != (like.shape, like.dtype):
                raise ValueError(f"{name} is {chains[name].dtype} {tuple(chains[name].shape)}")
        course = Course(**kept["course"])
        curve = [(float(a), float(b), float(c)) for a, b, c in kept["curve"]]
        notes = [float(note) for note in kept["notes"]]
        times = (course.began, course.origin, course.progress, float(kept["seconds"]))
        counts = (course.num_steps, course.taken, kept["steps"])
        if not all(0 <= t < math.inf for t in times) or not all(type(n) is int and n >= 0 for n in counts):
            raise ValueError("its times and steps are none")
        if len(notes) > len(curve) or any(math.isnan(t) for t in chain(notes, *curve)):
            raise ValueError("its curve is none")
        heat = None if kept["heat"] is None else self._heat(kept["heat"])
        return Moment(course, kept["steps"], times[3], len(curve), curve, notes, heat, chains, kept["random"])

    def _heat(self, kept: Mapping[str, Any]) -> Heat:
        heat = Heat(**kept)
        numbers = (heat.height, heat.peak, heat.variance, *heat.progress)
        counts = (heat.returns, heat.calm, heat.looks)
        if not all(0 <= x < math.inf for x in numbers) or not all(type(n) is int and n >= 0 for n in counts):
            raise ValueError("its specific heat is none")
        shape = (0,) if heat.energies is None else heat.energies.shape
        wanted = (len(heat.progress), self._settings["number of chains"])
        if shape != (wanted if heat.progress else (0,)) or math.isnan(heat.lowest):
            raise ValueError("its specific heat is none")
        return heat


def _as_kept_here(energy: Energy, states: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A search's states in the form of those that this machine keeps: one with a compiler may put chains in words.

    Args:
        energy: of the search.
        states: spins `(B, d)` in int8, words `(d + 1, W)`, or whatever a file holds.
        like: the states of the chains here.
    """
    coded, found = multi_spin(energy), dict(states)
    if coded is None:
        return found
    for name in ("now", "best"):
        kept, here = found[name], like[name]
        spins, words = (torch.int8, torch.int64), (torch.int64, torch.int8)
        if (kept.dtype, here.dtype) == spins and bool((kept.abs() == 1).all()):
            energy.domain.require_shape(kept)
            found[name] = coded.packed(kept)
        elif (kept.dtype, here.dtype) == words and kept.shape == (here.shape[1] + 1, -(-len(here) // 64)):
            found[name] = coded.unpacked(kept, len(here))
    return found


def restore_random(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Puts the states of generators back.

    Raises:
        UserError: they are no such states, or of another kind of device.
    """
    with explained(f"the search has no states of the random generators of {device.type}", UNFIT):
        torch.set_rng_state(states["cpu"].clone())
        if device.type != "cpu":
            torch.get_device_module(device).set_rng_state(states[device.type].clone(), device)
