"""Table 1 of Pynadath et al. (2024), MNIST: RBMs learnt by persistent CD with four samplers, equal budgets.

    EBMLAB_DATA=... python papers/rbm_learning.py        # trains what is missing, then prints the tables

500 hidden units, 100 chains, 10 steps an iteration (a step of each sampler asks for one gradient, or one pair of
conditionals); DMALA 0.2, ACS with balance_max 0.9 and cycles of 8, as there. The recipe "annealed" descends along the
centred gradient by SGD with a rate that falls from `--rate` to 0, so that the chains catch up with the model; "adam" is
the authors', Adam with 1e-3 to the end.

Log Z is estimated in four ways: annealing forward from the data's mean (adaptive temperatures, resampling, block Gibbs,
100 chains); backward, from states that replica exchange with the training's stages has moved; from the ratios of
neighbours in this exchange; and along the training itself, by `TrajectoryLikelihood`, with `--along` also afterwards,
by chains that take many more steps from stage to stage. With `--published` also as the authors' program does, whose
chains are moved by the full model at every temperature. `--estimates` leaves out those that take minutes: "both" are
forward and backward, from test images that block Gibbs has moved. CPU seconds are those of training. Weights are kept
beside the results, so that other estimates need no training. With `--draw` 64 chains that have been annealed from the
data's mean to each RBM of the first seed are drawn as `samples.png` in the folder (Figure 11).
"""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from kept import Result, cell, fit, run_missing

from ebmlab.callbacks import CentredGradient, DataMean, TrajectoryLikelihood
from ebmlab.datamodules import MNIST
from ebmlab.drawing.figures import figure_png, panels
from ebmlab.drawing.tiles import tile
from ebmlab.energies import RBM, Bernoulli, Energy
from ebmlab.evaluation import ais, exchange_log_z, reverse_ais
from ebmlab.evaluation.bracket import equilibrated
from ebmlab.evaluation.trajectory import Trajectory
from ebmlab.io.files import whole
from ebmlab.learners import ContrastiveDivergence, PersistentACS, ReplayBuffer
from ebmlab.samplers import DMALA, GWG, BlockGibbs, TrajectoryTempered
from ebmlab.samplers.tuners import SwapStages

SAMPLERS = {
    "block Gibbs": BlockGibbs,
    "GWG": GWG,
    "DMALA": partial(DMALA, 0.2),
    "ACS": partial(PersistentACS, cycle_length=8, tune_every=50),
}
CHAINS = 100
STAGES = 40  # weights that are kept along one training
ALONE = 1000  # steps of block Gibbs from test images
EXCHANGED, EXCHANGES = 25, 1000  # chains from either end of the path, and their steps
RECIPES = {"annealed": 0.1, "adam": 1e-3}  # and their rates


class Training(NamedTuple):
    """How the RBMs are trained; written out, it names their files."""

    recipe: str
    rate: float
    iterations: int
    steps: int

    def __str__(self) -> str:
        rate = "" if self.rate == RECIPES[self.recipe] else f"-{self.rate:g}"
        return f"{self.recipe}{rate}--{self.iterations}--{self.steps}"

    def settings(self) -> tuple[dict[str, Any], list[pl.Callback]]:
        """Settings of the learner, and callbacks."""
        if self.recipe == "adam":
            return {"optimizer": partial(torch.optim.Adam, lr=self.rate)}, []
        falling = partial(torch.optim.lr_scheduler.LinearLR, start_factor=1.0, end_factor=0.0)
        schedule = {"lr_scheduler": partial(falling, total_iters=self.iterations), "lr_interval": "step"}
        return {"optimizer": partial(torch.optim.SGD, lr=self.rate), **schedule}, [CentredGradient()]


class Stages(pl.Callback):
    """Keeps the weights at `STAGES` iterations, evenly on a logarithmic scale."""

    def __init__(self, iterations: int) -> None:
        self.at = {round(iterations ** (k / STAGES)) for k in range(1, STAGES + 1)}
        self.kept: list[dict[str, torch.Tensor]] = []

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        if trainer.global_step in self.at:
            self.kept.append({k: v.clone() for k, v in pl_module.energy.state_dict().items()})  # type: ignore


def train(name: str, seed: int, how: Training, file: Path) -> None:
    """Trains an RBM; keeps its stages, the seconds of training, and what `TrajectoryLikelihood` says at the end."""
    pl.seed_everything(seed)
    data = MNIST(batch_size=100, binarize=True, seed=seed)
    chains = ReplayBuffer(100, init="mean")
    settings, callbacks = how.settings()
    energy = RBM(784, 500)
    learner = ContrastiveDivergence(energy, SAMPLERS[name](), start=chains, num_steps=how.steps, **settings)
    stages, along = Stages(how.iterations), TrajectoryLikelihood(num_chains=CHAINS, num_steps=200, sampler=BlockGibbs())
    begin = time.process_time()
    fit(learner, data, how.iterations, callbacks=[DataMean(), *callbacks, stages, along])
    kept = {"seconds": time.process_time() - begin, "stages": stages.kept}
    assert along._trajectory is not None
    kept |= {"log_z": along._trajectory.log_z, "ess": along._trajectory.ess, "families": along._trajectory.families}
    with whole(file) as temporary:
        torch.save(kept, temporary)


def model(weights: dict[str, torch.Tensor]) -> RBM:
    energy = RBM(784, 500).eval().requires_grad_(False)
    energy.load_state_dict(weights)
    return energy


@torch.no_grad()
def published_log_z(energy: Energy, base: Bernoulli, temperatures: int) -> float:
    """Log Z as the authors' released program estimates it: chains that follow the full model at every temperature.

    On average it is log Z plus the divergence of the base law from the model, KL(model, base).
    """
    x, log_w, sampler = base.sample(CHAINS), torch.zeros(CHAINS, dtype=torch.float64), BlockGibbs()
    state = sampler.init(energy, x)
    for _ in range(temperatures):
        log_w += (base(state.x) - energy(state.x)).double() / temperatures
        state, _ = sampler.step(energy, state)
    return base.log_z + float(log_w.logsumexp(0)) - math.log(CHAINS)


def along_stages(stages: list[RBM], base: Bernoulli, length: float, num_chains: int) -> tuple[Trajectory, int]:
    """Chains that have followed the kept stages, with stops so close that log-weights spread by `length` nats."""

    class Counted(BlockGibbs):
        steps = 0

        def step(self, *args: Any) -> Any:
            self.steps += 1
            return super().step(*args)

    energy, sampler = model(stages[0].state_dict()), Counted()
    chains = Trajectory(energy, sampler, base, num_chains)
    for stage in stages[1:]:
        energy.load_state_dict(stage.state_dict())
        chains.follow(200, length)
    return chains, sampler.steps


def run(
    name: str,
    seed: int,
    how: Training,
    temperatures: int,
    published: bool,
    estimates: str,
    replicates: int,
    along: float,
    along_chains: int,
    folder: Path,
) -> Result:
    """Trains one RBM, unless its weights are kept, and estimates the likelihood of the test images."""
    file = folder / f"{name}--{seed}--{how}.pt"
    if not file.exists():
        train(name, seed, how, file)
    kept = torch.load(file)
    stages = [model(weights) for weights in kept["stages"]]
    data = MNIST(binarize=True)
    base = Bernoulli(data.to_states(data.raw("train")).flatten(1).mean(0))
    torch.manual_seed(seed)
    test = -float(stages[-1](data.to_states(data.raw("test")).flatten(1)).double().mean())
    result = {"along": test - kept["log_z"], "along_ess": kept["ess"], "seconds": kept["seconds"]}
    result |= {"families": kept["families"]} if "families" in kept else {}
    if along:
        torch.manual_seed(seed)
        chains, steps = along_stages(stages, base, along, along_chains)
        result |= {"stages": test - chains.log_z, "stages_ess": chains.ess, "stages_families": chains.families}
        result["stages_steps"] = steps
    if published:
        torch.manual_seed(seed)
        result["published"] = test - published_log_z(stages[-1], base, temperatures)
    torch.manual_seed(seed)
    forward = ais(
        stages[-1],
        BlockGibbs(),
        num_chains=CHAINS,
        num_temperatures=temperatures,
        base=base,
        schedule="adaptive",
        resample=0.5,
    )
    result |= {"likelihood": test - forward.log_z, "error": forward.std_error, "ess": forward.ess}
    if replicates > 1:
        others = ais(
            stages[-1],
            BlockGibbs(),
            num_chains=CHAINS,
            base=base,
            schedule=forward.ladder,
            num_replicates=replicates - 1,
            resample=0.5,
        )
        log_z = torch.tensor([forward.log_z, *others.replicates], dtype=torch.float64)
        result["likelihood"] = test - float(log_z.logsumexp(0) - math.log(replicates))
        result["spread"] = float(log_z.std())
        result["error"] = result["spread"] / math.sqrt(replicates)
    if estimates == "forward":
        return result
    x = data.to_states(data.raw("test")).flatten(1)
    x = x[torch.randperm(len(x))[:CHAINS]]
    if estimates == "both":
        x = equilibrated(stages[-1], BlockGibbs(), x, ALONE)
    else:
        tempered, x = SwapStages().tune(TrajectoryTempered(BlockGibbs(), stages[-2::-1]), stages[-1], x, 50)
        x = equilibrated(stages[-1], tempered, x, 400)
        exchange = exchange_log_z(stages[-1], tempered, base=base, x=x[:EXCHANGED], num_steps=EXCHANGES)
        result |= {"exchange": test - exchange.log_z, "exchange_error": exchange.std_error}
        result |= {"exchange_gap": exchange.gap, "swap_rate": float(exchange.swap_rates.min())}
    backward = reverse_ais(
        stages[-1], BlockGibbs(), x, num_temperatures=temperatures, base=base, schedule=forward.ladder
    )
    return result | {"backward": test - backward.log_z, "backward_ess": backward.ess}


def draw_samples(names: list[str], seed: int, how: Training, temperatures: int, folder: Path) -> None:
    """Draws the last states of annealed chains, none of them resampled, so that no chain is there twice."""
    data, pictures = MNIST(binarize=True), {}
    base = Bernoulli(data.to_states(data.raw("train")).flatten(1).mean(0))
    for name in names:
        torch.manual_seed(seed)
        energy = model(torch.load(folder / f"{name}--{seed}--{how}.pt")["stages"][-1])
        samples = ais(energy, BlockGibbs(), num_chains=64, num_temperatures=temperatures, base=base).samples
        pictures[name] = tile(samples.view(-1, 1, 28, 28))
    (folder / "samples.png").write_bytes(figure_png(panels(pictures)))


COLUMNS = {
    "forward": "likelihood",
    "its standard error": "error",
    "effective chains": "ess",
    "spread of replicates": "spread",
    "backward": "backward",
    "effective": "backward_ess",
    "by exchange": "exchange",
    "standard error (exchange)": "exchange_error",
    "gap of both starts": "exchange_gap",
    "smallest swap rate": "swap_rate",
    "along training": "along",
    "effective (along)": "along_ess",
    "families (along)": "families",
    "along its stages": "stages",
    "effective (stages)": "stages_ess",
    "families (stages)": "stages_families",
    "steps (stages)": "stages_steps",
    "as published": "published",
    "CPU seconds of training": "seconds",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=12_000)
    parser.add_argument("--steps", type=int, default=10, help="of the sampler in an iteration")
    parser.add_argument("--recipe", choices=list(RECIPES), default="annealed")
    parser.add_argument("--rate", type=float, help="of learning, at first; the recipe's own if left out")
    parser.add_argument("--temperatures", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--published", action="store_true", help="also estimate as the authors' program does")
    parser.add_argument("--estimates", choices=["forward", "both", "exchange"], default="exchange")
    parser.add_argument("--replicates", type=int, default=1, help="of the forward estimate; their mean and spread")
    parser.add_argument("--along", type=float, default=0.0, help="nats from stop to stop along the stages, e.g. 0.001")
    parser.add_argument("--along_chains", type=int, default=CHAINS, help="that follow the stages")
    parser.add_argument("--draw", action="store_true", help="samples of the RBMs")
    parser.add_argument("--folder", type=Path, default=Path("runs/rbm_learning"))
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    how = Training(args.recipe, RECIPES[args.recipe] if args.rate is None else args.rate, args.iterations, args.steps)
    end = f"{how}--{args.temperatures}" + ("--published" if args.published else "")
    end += "" if args.estimates == "exchange" else f"--{args.estimates}"
    end += "" if args.replicates == 1 else f"--{args.replicates}"
    end += f"--along-{args.along:g}" if args.along else ""
    end += "" if args.along_chains == CHAINS else f"-{args.along_chains}"
    jobs = {f"{name}--{seed}--{end}": (name, seed) for seed in args.seeds for name in args.samplers}

    def job(key: str) -> Result:
        name, seed = jobs[key]
        rest = args.published, args.estimates, args.replicates, args.along, args.along_chains, args.folder
        return run(name, seed, how, args.temperatures, *rest)

    run_missing(args.folder, jobs, job, args.part)
    if args.draw:
        draw_samples(args.samplers, args.seeds[0], how, args.temperatures, args.folder)
    print(f"\n| sampler | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    for name in args.samplers:
        print(f"| {name} | {' | '.join(cell(args.folder, f'{name}--*--{end}', key) for key in COLUMNS.values())} |")


if __name__ == "__main__":
    main()
