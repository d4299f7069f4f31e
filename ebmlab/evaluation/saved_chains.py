"""Annealed chains saved to disk, so that an interrupted annealing can continue."""

from __future__ import annotations

import hashlib
import time
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from ebmlab.errors import one_line
from ebmlab.files import Damaged, load, save

EVERY = 60.0  # seconds from one save to the next
PLAIN = bool | int | float | str | None


class SavedChains:
    """A file with the chains of one call of `ais`: their states, log-weights and random numbers.

    A fingerprint of the arguments is appended to the file's name, so that calls with other arguments use other files.

    Args:
        path: the file; None keeps nothing.
        energy: its parameters and buffers enter the fingerprint, as do the arguments below.
        sampler: moves the chains.
        betas: the inverse temperatures.
        count: number of chains.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import BlockGibbs
        >>> store = SavedChains(None, RBM(4, 3), BlockGibbs(), [0.0, 1.0], count=2)
        >>> passed, x, log_w = store.load(torch.zeros(2, 4), torch.zeros(2))
        >>> passed
        0
    """

    def __init__(
        self, path: Path | None, energy: nn.Module, sampler: nn.Module, betas: list[float], count: int
    ) -> None:
        self._key = "" if path is None else _fingerprint(energy, sampler, betas, count)
        self._path = None if path is None else path.with_stem(f"{path.stem}-{self._key[:8]}")
        self._saved_at = time.monotonic()

    def load(self, x: Tensor, log_w: Tensor) -> tuple[int, Tensor, Tensor]:
        """Number of steps done, states and log-weights: the file's if there is one, else 0 and the arguments."""
        if self._path is None or not self._path.exists():
            return 0, x, log_w
        try:
            kept = load(self._path, map_location=x.device)
            if kept["key"] != self._key or kept["x"].shape != x.shape:
                return 0, x, log_w
        except (Damaged, OSError, KeyError, TypeError, AttributeError) as error:
            warnings.warn(f"{self._path} is damaged ({one_line(error)}): the annealing begins again", stacklevel=2)
            return 0, x, log_w
        torch.set_rng_state(kept["rng"].cpu())
        if x.device.type == "cuda":
            torch.cuda.set_rng_state(kept["cuda"].cpu(), x.device)
        return kept["passed"], kept["x"], kept["log_w"]

    def save(self, passed: int, x: Tensor, log_w: Tensor) -> None:
        """Writes the file if the last time was more than a minute ago."""
        if self._path is None or time.monotonic() - self._saved_at < EVERY:
            return
        kept = {"key": self._key, "passed": passed, "x": x, "log_w": log_w, "rng": torch.get_rng_state()}
        if x.device.type == "cuda":
            kept["cuda"] = torch.cuda.get_rng_state(x.device)
        save(kept, self._path)
        self._saved_at = time.monotonic()

    def delete(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _fingerprint(energy: nn.Module, sampler: nn.Module, betas: list[float], count: int) -> str:
    settings = [
        (type(m).__name__, {k: v for k, v in vars(m).items() if isinstance(v, PLAIN)}) for m in sampler.modules()
    ]
    digest = hashlib.sha256(repr((settings, betas, count)).encode())
    for module in (energy, sampler):
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
