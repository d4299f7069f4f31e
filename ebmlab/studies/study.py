"""A study: samplers compared on one or more targets, from the same initial states and with the same budget."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.energies import Energy
from ebmlab.errors import WHY, UserError, explained
from ebmlab.io.files import load, save
from ebmlab.numerics.products import fast_products
from ebmlab.samplers import Sampler
from ebmlab.samplers.initial_states import FromNoise, Start
from ebmlab.samplers.tuners import Tuner
from ebmlab.studies.columns import MEASURED, columns
from ebmlab.studies.file_names import check_file_names, result_file
from ebmlab.studies.measures import Measure
from ebmlab.studies.race import Limits, Result, race

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass
class Contender:
    """A sampler in a study.

    Attributes:
        sampler: the sampler.
        tuner: finds the sampler's settings first, from the common start. They are then fixed, and the chains start
            again (see `Study.restart`).
        tune_steps: steps that the tuner may take.
        length: number of steps, as a multiple of the study's; larger for samplers whose steps are cheap.
        record_every: replaces the study's.

    Example:
        >>> from ebmlab.samplers import DMALA
        >>> from ebmlab.samplers.tuners import TargetAcceptance
        >>> Contender(DMALA(step_size=0.2), tuner=TargetAcceptance(0.574), tune_steps=100).length
        1.0
    """

    sampler: Sampler
    tuner: Tuner | None = None
    _: KW_ONLY
    tune_steps: int = 1000
    length: float = 1.0
    record_every: int | None = None


@dataclass
class Study:
    """Samplers on targets, as `python -m ebmlab sample` runs them.

    Attributes:
        targets: the energies, by name.
        samplers: the samplers, by name.
        start: gives all chains their initial states; `FromNoise()` when None.
        num_chains: chains of each sampler, spread over the devices.
        num_steps: measured steps of each sampler.
        burn_in: steps before them.
        restart: whether a tuned sampler starts again from the common start, as a study of convergence needs. Settings
            tuned to typical states can be useless far from them. In a study of the stationary regime, set this to False
            and the chains continue from the last states of the tuning.
        record_every: steps between recorded states.
        num_points: points of each curve.
        max_seconds: seconds of sampling after which a sampler stops, even if steps are left.
        measures: what else to measure, by name.
        sweep: a setting of the samplers, such as `step_size`, or a number that is measured, such as `acceptance`. The
            last values of the curves are drawn against it.
        seed: of the random numbers, the same for every sampler.

    Example:
        >>> from lightning_fabric import Fabric
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import Gibbs
        >>> study = Study({"ising": Ising.lattice(2, 0.3)}, {"Gibbs": Contender(Gibbs())}, num_chains=4, num_steps=10)
        >>> study.check()
        >>> (result,) = study.run(Fabric(accelerator="cpu", devices=1), Path("study"), report=lambda results: None)
        >>> result.row["acceptance"], result.row["steps"]
        (1.0, 10)
    """

    targets: dict[str, Energy]
    samplers: dict[str, Contender]
    _: KW_ONLY
    start: Start | None = None
    num_chains: int = 100
    num_steps: int = 10_000
    burn_in: int = 0
    restart: bool = True
    record_every: int = 1
    num_points: int = 40
    max_seconds: float | None = None
    measures: dict[str, Measure] | None = None
    sweep: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self.targets = {str(name): energy for name, energy in self.targets.items()}  # YAML reads 1: as a number
        self.samplers = {str(name): contender for name, contender in self.samplers.items()}
        self.measures = {str(name): measure for name, measure in (self.measures or {}).items()}

    def check(self, num_devices: int = 1) -> None:
        """Raises `UserError` unless all settings are valid and every sampler supports every target."""
        for name in ("num_chains", "num_steps", "record_every", "num_points"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}, but must be at least 1")
        if self.num_chains % num_devices:
            raise UserError(f"num_chains is {self.num_chains}, which {num_devices} devices cannot share evenly")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise UserError(f"max_seconds is {self.max_seconds}, but must be positive")
        for name, contender in self.samplers.items():
            every = self.record_every if contender.record_every is None else contender.record_every
            if not every >= 1 or not contender.length * self.num_steps >= every:
                raise UserError(
                    f"samplers.{name}: {contender.length} times {self.num_steps} steps, recorded every {every}, leave "
                    f"no record; increase length or set record_every between 1 and the number of steps"
                )
            if contender.tuner is not None and contender.tune_steps < 1:
                raise UserError(f"samplers.{name}: tune_steps is {contender.tune_steps}, but must be at least 1")
        if self.burn_in < 0:
            raise UserError(f"burn_in is {self.burn_in}, but must be at least 0")
        if not self.targets or not self.samplers:
            raise UserError("a study needs at least one entry under targets and one under samplers")
        settings = {name for contender in self.samplers.values() for name in _scalars(contender.sampler)}
        if self.sweep is not None and self.sweep not in settings.union(MEASURED):
            known = ", ".join(sorted(settings)) or "none"
            raise UserError(f"sweep is {self.sweep}, but must be a setting that samplers of the study have: {known}")
        check_file_names(self.targets, self.samplers, self.measures or {}, self.sweep is not None)
        for target, energy in self.targets.items():
            for name, contender in self.samplers.items():
                with explained(f"samplers.{name} on targets.{target}: {WHY}", UserError):
                    contender.sampler.check(energy)
                    if contender.tuner is not None:
                        contender.tuner.check(contender.sampler, contender.tune_steps)
                        contender.tuner.check_energy(energy)

    def run(self, fabric: Fabric, folder: Path, *, report: Callable[[list[Result]], object]) -> list[Result]:
        """Runs every sampler on every target, and calls `report` with all results so far after each.

        Results are saved in `folder`/results/. Those already there are not computed again.
        """
        results: list[Result] = []
        targets, samplers = list(self.targets), list(self.samplers)
        for target, energy in self.targets.items():
            todo = [name for name in self.samplers if not result_file(folder, target, name).exists()]
            results += [_load(result_file(folder, target, name)) for name in self.samplers if name not in todo]
            if not todo:
                if fabric.is_global_zero:
                    report(results)
                continue
            energy = energy.to(fabric.device)
            torch.manual_seed(self.seed)
            reference = energy.domain.random(1).to(fabric.device)
            x = (self.start or FromNoise()).draw(energy, self.num_chains).to(fabric.device)
            if isinstance(energy.domain, Finite):
                energy.domain.validate(x)
            measures = self.measures or {}
            for measure in measures.values():
                measure.prepare(energy)
            for name in todo:
                result = self._one(fabric, target, name, energy, x, reference, measures)
                if fabric.is_global_zero:
                    save(result.as_dict(), result_file(folder, target, name))
                results.append(result)
                results.sort(key=lambda r: (targets.index(r.target), samplers.index(r.sampler)))  # after a resume too
                if fabric.is_global_zero:
                    report(results)
        return results

    def _one(
        self,
        fabric: Fabric,
        target: str,
        name: str,
        energy: Energy,
        x: Tensor,
        reference: Tensor,
        measures: dict[str, Measure],
    ) -> Result:
        contender = self.samplers[name]
        share = len(x) // fabric.world_size
        x = x[fabric.global_rank * share :][:share].clone()
        torch.manual_seed(self.seed + 1 + fabric.global_rank)
        sampler = copy.deepcopy(contender.sampler).to(fabric.device)
        result = Result(target, name, sampler.converges)
        if contender.tuner is not None:
            begin = time.perf_counter()
            tuned, last = contender.tuner.tune(sampler, energy, x, contender.tune_steps)
            x = x if self.restart else last
            result.row["tuning_steps"] = contender.tune_steps
            result.row["tuning_seconds"] = time.perf_counter() - begin
            sampler = fabric.broadcast(tuned)
            sampler.to(fabric.device)
        result.settings = {k: v.cpu() for k, v in sampler.named_buffers()}
        result.row |= _scalars(sampler)
        limits = Limits(
            round(contender.length * self.num_steps),
            self.burn_in,
            self.record_every if contender.record_every is None else contender.record_every,
            self.num_points,
            self.max_seconds,
        )
        fresh = {key: measure.fresh() for key, measure in measures.items()}
        with fast_products(energy, len(x)):
            return race(fabric, energy, sampler, x, reference, limits, fresh, result, f"{target}: {name}")


def _scalars(sampler: Sampler) -> dict[str, float]:
    """The sampler's settings that are single numbers, by their columns in the table."""
    return columns({"sampler": {name: float(v) for name, v in sampler.named_buffers() if v.dim() == 0}})


def _load(path: Path) -> Result:
    try:
        return Result(**load(path))
    except Exception as error:
        raise UserError(f"{path} is damaged ({type(error).__name__}): delete it to compute it again") from error
