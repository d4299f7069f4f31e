"""Log Z of a trained energy, computed once and kept beside its checkpoint."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.energies import Base, Bipartite, Energy, reference
from ebmlab.errors import UserError, shown
from ebmlab.evaluation import LogZ, data_law, exact_log_z, exchange_log_z, log_z
from ebmlab.evaluation.annealing import path_for
from ebmlab.evaluation.log_z import MAX_GAP
from ebmlab.io.files import read_text, whole
from ebmlab.io.own_files import is_own, remember
from ebmlab.io.zoo.shelf import LOG_Z, OURS, name_of
from ebmlab.numerics.streams import own_numbers
from ebmlab.samplers import BlockGibbs, Sampler, TrajectoryTempered

SUMMABLE = 16  # bits over which log Z is summed exactly
SEED = 0
RUNGS, STEPS = 20, 40  # temperatures of replica exchange, and the fewest steps of each chain
ENOUGH = 100  # events whose mean makes a base law
INFINITE = "an energy is not finite"


@dataclass(frozen=True)
class LogLikelihood:
    """Log-likelihoods of events; all share the error of log Z.

    Attributes:
        values: log p of each event, in nats, `(N,)`, in the caller's kind of array.
        log_z: log Z and its error.
        size: the number of coordinates of an event.

    Example:
        >>> found = LogLikelihood(torch.tensor([-3.0, -5.0]), LogZ(2.0, 0.1, gap=0.0, doubts=(), method="AIS"), size=4)
        >>> found.mean, round(found.bits_per_dim, 4), found.std_error, found.trusted
        (-4.0, 1.4427, 0.1, True)
    """

    values: Any
    log_z: LogZ
    _: KW_ONLY
    size: int

    @property
    def mean(self) -> float:
        """The mean over the events."""
        return float(self.values.mean())

    @property
    def bits_per_dim(self) -> float:
        """Minus the mean in bits, divided by the number of coordinates."""
        return -self.mean / (self.size * math.log(2))

    @property
    def std_error(self) -> float:
        """Standard error of log Z, by which all values are off together; NaN if they are not to be trusted."""
        return self.log_z.std_error

    @property
    def trusted(self) -> bool:
        """Whether log Z is."""
        return self.log_z.trusted


def kept_log_z(
    energy: Energy, samplers: list[Sampler], x: Tensor, path: Path | None, chains: int, temperatures: int, fresh: bool
) -> LogZ:
    """Log Z of an energy, from the file beside its checkpoint if it is there.

    Args:
        energy: E.
        samplers: the first exact one that serves the energy moves the chains; block Gibbs comes before them if the
            energy has hidden units.
        x: states like the training data, from which backward chains start.
        path: the checkpoint; None if there is none.
        chains: of each direction.
        temperatures: of each chain.
        fresh: do not read the file.
    """
    kept = None if path is None else Kept(path, chains, temperatures)
    found = None if kept is None or fresh else kept.read()
    if found is None:
        found = computed_log_z(energy, samplers, x, chains, temperatures)
        if kept is not None:
            kept.write(found)
    if found.doubts:
        warnings.warn(f"do not trust these log-likelihoods: {'; '.join(found.doubts)}", stacklevel=3)
    return found


class Kept:
    """The file in which log Z of a checkpoint is kept, `CHECKPOINT.log_z.json`, for its owner alone.

    It counts only for a checkpoint with the same checksum, and if it has as many chains and temperatures as are asked
    for. A model of the zoo may come with one, `log_z.json`, which the manifest protects. What this user's ebmlab has
    not written itself must be finite, and is shown as what its maker says.

    Args:
        checkpoint: the file.
        chains: see `kept_log_z`.
        temperatures: see `kept_log_z`.
    """

    def __init__(self, checkpoint: Path, chains: int, temperatures: int) -> None:
        self.path = checkpoint.with_name(f"{checkpoint.name}.log_z.json")
        self.given = checkpoint.with_name(LOG_Z) if name_of(checkpoint) else None
        with checkpoint.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self.key: dict[str, Any] = {"checkpoint": digest, "num_chains": chains, "num_temperatures": temperatures}

    def read(self) -> LogZ | None:
        """What is kept, or came with the model; None if there is nothing, or nothing that counts."""
        found = self._read(self.path, private=True)
        return found if found is not None or self.given is None else self._read(self.given, private=False)

    def _read(self, path: Path, private: bool) -> LogZ | None:
        try:
            status = path.stat()
            if private and (status.st_uid != os.getuid() or status.st_mode & 0o077):
                return None  # others can write it
            content = json.loads(text := read_text(path))
            if content["checkpoint"] != self.key["checkpoint"]:
                return None
            if any(content[name] < self.key[name] for name in ("num_chains", "num_temperatures")):
                return None
            ours = path == self.given and (OURS / path.parent.name).is_dir()
            return _described(content["log_z"], ours or is_own(text))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, UserError):
            warnings.warn(f"{path} is damaged: log Z is computed anew", stacklevel=2)
            return None

    def write(self, found: LogZ) -> None:
        """Writes the file completely or not at all; it is no error if the folder cannot be written."""
        values = {
            "value": found.log_z,
            "std_error": None if math.isnan(found.std_error) else found.std_error,
            "gap": found.gap,
            "doubts": found.doubts,
            "method": found.method,
        }
        with suppress(OSError):
            self.path.unlink(missing_ok=True)  # it might be a link, or a file that others can read
        with suppress(OSError), whole(self.path) as path:
            path.touch(0o600)
            path.write_text(text := json.dumps(self.key | {"log_z": values}))
            remember(text)


def _described(values: dict[str, Any], own: bool) -> LogZ:
    """What a file says of log Z; raises `ValueError` or `TypeError` if it is not what ebmlab writes."""
    error = math.nan if values["std_error"] is None else float(values["std_error"])
    doubts, method = tuple(map(str, values["doubts"])), shown(str(values["method"]))[:200]
    found = LogZ(
        float(values["value"]), error, gap=float(values["gap"]), doubts=tuple(map(shown, doubts)), method=method
    )
    if own:
        return found
    if not (math.isfinite(found.log_z) and math.isfinite(found.gap)) or error < 0 or math.isinf(error):
        raise ValueError("log Z is not finite, or its error is negative")
    if math.isnan(error) != bool(doubts):
        raise ValueError("what is to be trusted has an error, and nothing else")
    return replace(found, method=f"{method}, as its maker says")


def computed_log_z(energy: Energy, samplers: list[Sampler], x: Tensor, chains: int, temperatures: int) -> LogZ:
    """Log Z by enumeration where the sum is small enough, by AIS from both ends elsewhere.

    Where AIS is not to be trusted, replica exchange takes its place if it is.
    """
    domain = energy.domain
    bits = domain.size * math.log2(domain.num_values) if isinstance(domain, Finite) else math.inf
    if bits <= SUMMABLE or (isinstance(energy, Bipartite) and energy.has_bits and energy.num_hidden <= SUMMABLE):
        value = float(exact_log_z(energy))
        sound = math.isfinite(value)
        return LogZ(value, 0.0 if sound else math.nan, gap=0.0, doubts=() if sound else (INFINITE,), method="exact sum")
    base = _base(energy, x)
    sampler = _exact_sampler(energy, samplers, base)
    with own_numbers(SEED, energy.device):
        found = log_z(
            energy,
            sampler,
            x=x[torch.arange(max(chains, len(x))) % len(x)],
            base=base,
            num_chains=chains,
            num_temperatures=temperatures,
            progress=True,
        )
        if found.trusted:
            return found
        if not math.isfinite(found.log_z):
            return replace(found, std_error=math.nan, doubts=(INFINITE,))
        other = _by_exchange(energy, sampler, base, x, found, chains, temperatures)
    if other.trusted:
        return other
    doubts = (*found.doubts, *(f"replica exchange: {doubt}" for doubt in other.doubts))
    return replace(found, std_error=math.nan, doubts=doubts)


def _by_exchange(
    energy: Energy, sampler: Sampler, base: Base, x: Tensor, annealed: LogZ, chains: int, temperatures: int
) -> LogZ:
    """Log Z by replica exchange, with as many steps of the sampler as annealing in both directions has taken.

    Replicas go back and forth, and find modes that annealed chains pass by. Where x misses a mode, too, all replicas
    may stay in others and agree. So the estimate must not be below that of forward annealing. That one is more than a
    few nats too large with a probability of exp(-nats) at most.
    """
    found = exchange_log_z(
        energy,
        TrajectoryTempered(sampler, []),
        base=base,
        x=x[torch.arange(max(2, chains // 2)) % len(x)],
        num_steps=max(STEPS, 2 * temperatures // RUNGS),
        num_rungs=RUNGS,
        schedule="adaptive",
        progress=True,
    )
    short = annealed.log_z - found.log_z
    if not short <= MAX_GAP:
        found = replace(
            found, doubts=(*found.doubts, f"log Z is {short:.3g} nats below that of annealing, which is too small, too")
        )
    return found


def _base(energy: Energy, x: Tensor) -> Base:
    """The law at which annealing starts: that of x if these are enough, or the domain's reference law."""
    return data_law(energy.domain, x) if len(x) >= ENOUGH else reference(energy.domain)


def _exact_sampler(energy: Energy, samplers: list[Sampler], base: Base) -> Sampler:
    first: list[Sampler] = [BlockGibbs()] if isinstance(energy, Bipartite) else []
    for sampler in first + [sampler for sampler in samplers if sampler.exact]:
        with suppress(UserError):
            sampler.check(energy)
            path_for(sampler, base.to(energy.device), energy)
            return sampler.to(energy.device)
    raise UserError(f"no exact sampler serves {type(energy).__name__}, so that its log Z cannot be estimated")
