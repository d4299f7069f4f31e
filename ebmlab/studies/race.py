"""The run of one sampler on one target: chains, clock and measures."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ebmlab.domains import Categorical
from ebmlab.energies import Energy
from ebmlab.errors import UserError, how_many
from ebmlab.evaluation import effective_sample_size, split_r_hat
from ebmlab.io.progress import Meter
from ebmlab.samplers import Sampler
from ebmlab.samplers.tuners.jump_distance import jump_distance
from ebmlab.studies.columns import MEAN_ENERGY, RESERVED, columns, curve_labels
from ebmlab.studies.measures import Measure

if TYPE_CHECKING:
    from lightning_fabric import Fabric

STATISTICS = ("energy", "distance", "mean")


@dataclass
class Result:
    """The results of one sampler on one target.

    Attributes:
        target, sampler: their names in the study.
        row: entries of the table, by column.
        settings: the sampler's buffers, after tuning.
        steps, seconds: steps taken and seconds of sampling at each point of the curves.
        curves: values at these points, by label.
        pictures: the sampler's pictures `(C, H, W)`, by measure.
        truths: the pictures that an exact sampler would give, by measure.
        texts: texts to save, by measure.
        exact: whether the sampler's chains converge to the law.
    """

    target: str
    sampler: str
    exact: bool
    row: dict[str, float] = field(default_factory=dict)
    settings: dict[str, Tensor] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    curves: dict[str, list[float]] = field(default_factory=dict)
    pictures: dict[str, Tensor] = field(default_factory=dict)
    truths: dict[str, Tensor] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data and tensors, for `torch.save`."""
        return asdict(self)


@dataclass
class Limits:
    """The length of a run and of its records.

    Attributes:
        num_steps: measured steps.
        burn_in: steps before them.
        record_every: steps between recorded states.
        num_points: points of each curve.
        max_seconds: seconds of sampling after which the run stops, even if steps are left.
    """

    num_steps: int
    burn_in: int
    record_every: int
    num_points: int
    max_seconds: float | None


@torch.no_grad()
def race(
    fabric: Fabric,
    energy: Energy,
    sampler: Sampler,
    x: Tensor,
    reference: Tensor,
    limits: Limits,
    measures: dict[str, Measure],
    result: Result,
    description: str,
) -> Result:
    """Runs the chains from x `(B, *event)` of this process and fills `result`.

    The ESS of the sampler is that of the chains' distance to the state `reference` `(1, *event)`.
    """
    clock, total_steps = _Clock(fabric), limits.burn_in + limits.num_steps
    state = sampler.init(energy, x, total_steps)
    walk = Meter(description, "step", total_steps, shown=fabric.is_global_zero).along(range(total_steps))
    for _ in islice(walk, limits.burn_in):
        state, _ = sampler.step(energy, state)
    forbidden = _energies(energy, state, _gather(fabric, state.x), fabric).isinf().any()  # moves between them are NaN
    num_records = limits.num_steps // limits.record_every
    points = _points(num_records, limits.num_points)
    traces: list[Tensor] = []
    total, jump, steps = None, torch.zeros((), dtype=torch.float64, device=x.device), 0
    labels = curve_labels(measures)
    result.curves = {label: [] for label in (*labels.values(), MEAN_ENERGY)}
    for k in range(1, num_records + 1):
        for _ in islice(walk, limits.record_every):
            before = state.x
            clock.start()
            state, info = sampler.step(energy, state)
            clock.stop()
            total = info if total is None else total + info
            jump += jump_distance(energy.domain, state.x, before).mean(dtype=torch.float64)
            steps += 1
        everyone = _gather(fabric, state.x)
        traces.append(_statistics(energy, state, everyone, reference, fabric))
        for measure in measures.values():
            measure.update(everyone)
        late = limits.max_seconds is not None and fabric.broadcast(clock.seconds) > limits.max_seconds
        if k in points or late:
            result.steps.append(steps)
            result.seconds.append(clock.seconds)
            result.curves[MEAN_ENERGY].append(float(traces[-1][:, 0].mean()))
            assert total is not None
            acceptance = None if forbidden else _gather(fabric, total.acceptance)
            _refuse_nan(f"after {how_many(steps, 'step')}", description, traces[-1][:, 0], acceptance)
            for name, label in labels.items():
                result.curves[label].append(measures[name].value())
        if late:
            break
    walk.close()
    assert total is not None
    info = total / steps
    result.row |= {
        "steps": steps,
        "evaluations_per_step": info.evaluations,
        "seconds": clock.seconds,
        "acceptance": float(_gather(fabric, info.acceptance).mean()),
        "hops": float(_gather(fabric, info.hops).mean()),
        "jump": float(_gather(fabric, jump.view(1)).mean()) / steps,
    }
    result.row |= _efficiency(torch.stack(traces), info.evaluations * steps, clock.seconds)
    result.row |= columns({name: m.summary() for name, m in measures.items()}, taken=RESERVED | result.row.keys())
    result.pictures |= {name: found for name, m in measures.items() if (found := m.picture()) is not None}
    result.truths |= {name: found for name, m in measures.items() if (found := m.truth()) is not None}
    result.texts |= {name: text for name, m in measures.items() if (text := m.text())}
    return result


def _refuse_nan(when: str, description: str, energies: Tensor, acceptance: Tensor | None) -> None:
    """Raises `UserError` if an energy or an acceptance is NaN; the latter is None where NaN is no fault."""
    if energies.isnan().any():
        raise UserError(f"{description}: an energy is NaN {when}; check the target")
    if acceptance is not None and acceptance.isnan().any():
        raise UserError(
            f"{description}: an acceptance is NaN {when}: the energy or gradient of a proposed state is; check the "
            "target"
        )


def _points(num_records: int, num_points: int) -> set[int]:
    """Numbers of the records at which curves have points: equally spaced logarithms, from the first to the last."""
    exponents = torch.linspace(1, 0, num_points, dtype=torch.float64)  # a single point is the last record
    return {round(float(p)) for p in torch.tensor(float(num_records), dtype=torch.float64) ** exponents}


def _statistics(energy: Energy, state: Any, x: Tensor, reference: Tensor, fabric: Fabric) -> Tensor:
    """The `STATISTICS` of each chain, `(B, 3)` in float64, whose autocorrelations measure mixing."""
    energies = _energies(energy, state, x, fabric)
    distance = (x - reference).abs().flatten(1).sum(1)
    values = x[..., 0] if isinstance(energy.domain, Categorical) else x  # the mean over all classes is constant
    return torch.stack([energies.double(), distance.double(), values.flatten(1).mean(1).double()], 1).cpu()


def _energies(energy: Energy, state: Any, x: Tensor, fabric: Fabric) -> Tensor:
    """The energies `(B,)` of the states x of all processes."""
    known = getattr(state, "energy", None)
    energies = energy(x) if known is None else _gather(fabric, known)
    return energy(x) if energies.isnan().all() else energies  # samplers on minibatches do not know E(x)


def _efficiency(traces: Tensor, evaluations: float, seconds: float) -> dict[str, float]:
    """ESS and R-hat of traces `(steps, B, 3)`."""
    if len(traces) < 4:
        return {}
    ess = effective_sample_size(traces)
    r_hat = split_r_hat(traces)
    constant = (traces == traces[:1]).all(0).all(0) | r_hat.isinf()
    ess = ess.where(~constant, torch.nan)  # constant chains have no autocorrelation
    row = {f"ess_{name}": float(value) for name, value in zip(STATISTICS, ess, strict=True)}
    row["ess_per_second"] = row["ess_distance"] / seconds
    row["ess_per_10k_evaluations"] = row["ess_distance"] / (evaluations * traces.shape[1]) * 1e4
    row["r_hat"] = float(r_hat.max())
    return row


def _gather(fabric: Fabric, x: Tensor) -> Tensor:
    """Concatenates the tensors `(B, ...)` of all processes."""
    if fabric.world_size == 1:
        return x
    gathered = fabric.all_gather(x)
    assert isinstance(gathered, Tensor)
    return gathered.flatten(0, 1)


class _Clock:
    """Seconds between `start` and `stop`, including work on the GPU that was queued."""

    def __init__(self, fabric: Fabric) -> None:
        self.seconds = 0.0
        self._cuda = fabric.device.type == "cuda"

    def start(self) -> None:
        if self._cuda:
            torch.cuda.synchronize()
        self._begin = time.perf_counter()

    def stop(self) -> None:
        if self._cuda:
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - self._begin
