"""Annealed chains saved to disk, so that an interrupted annealing can continue."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from torch import nn

from ebmlab.errors import one_line
from ebmlab.evaluation.population import Population
from ebmlab.io.files import Damaged, load, save
from ebmlab.io.fingerprint import fingerprint

EVERY = 60.0  # seconds from one save to the next


class SavedChains:
    """A file with the chains of one call of `ais`: their states, log-weights, families, sums and random numbers.

    A fingerprint of the arguments is appended to the file's name, so that calls with other arguments use other files.
    An exception that leaves its `with` block gets a note of what the file holds.

    Args:
        path: the file; None saves nothing.
        energy: its parameters and buffers enter the fingerprint, as do the arguments below.
        sampler: moves the chains.
        settings: of the annealing; their `repr` enters the fingerprint, so it must show every setting.
        chains: the chains to save, or to overwrite when the file is loaded; their number enters the fingerprint.
    """

    def __init__(
        self, path: Path | None, energy: nn.Module, sampler: nn.Module, settings: object, chains: Population
    ) -> None:
        self._key = "" if path is None else fingerprint(energy, sampler, settings=(settings, len(chains.x)))
        self._path = None if path is None else path.with_stem(f"{path.stem}-{self._key[:8]}")
        self._chains = chains
        self._saved_at = time.monotonic()
        self._passed = 0  # of the chains in the file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._passed:
            error.add_note(f"AIS has kept its chains after {self._passed:,} temperatures in {self._path}")

    def load(self) -> int:
        """Loads the chains if there is a file. Returns how many temperatures they have passed, 0 without a file."""
        chains = self._chains
        if self._path is None or not self._path.exists():
            return 0
        try:
            kept = load(self._path, map_location=chains.x.device)
            if kept["key"] != self._key or kept["x"].shape != chains.x.shape or "sums" not in kept:
                return 0
        except (Damaged, OSError, KeyError, TypeError, AttributeError) as error:
            warnings.warn(f"{self._path} is damaged ({one_line(error)}): the annealing begins again", stacklevel=2)
            return 0
        torch.set_rng_state(kept["rng"].cpu())
        if chains.x.device.type == "cuda" and "cuda" in kept:  # it may have been saved on a CPU
            torch.cuda.set_rng_state(kept["cuda"].cpu(), chains.x.device)
        chains.x, chains.log_w, chains.family = kept["x"], kept["log_w"].to(chains.log_w), kept["family"]
        chains.sums = kept["sums"].to(chains.log_w)
        self._passed = int(kept["passed"])
        return self._passed

    def save(self, passed: int) -> None:
        """Writes the file if more than a minute has passed since it was last written."""
        if self._path is None or time.monotonic() - self._saved_at < EVERY:
            return
        chains = self._chains
        kept = {"key": self._key, "passed": passed, "x": chains.x, "log_w": chains.log_w, "family": chains.family}
        kept["sums"] = chains.sums
        kept["rng"] = torch.get_rng_state()
        if chains.x.device.type == "cuda":
            kept["cuda"] = torch.cuda.get_rng_state(chains.x.device)
        save(kept, self._path)
        self._passed = passed
        self._saved_at = time.monotonic()

    def delete(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
