"""Figure 4 of Sun et al. (2023), and Figure 5 of Pynadath et al. (2024): how soon chains on a deep EBM find images.

    EBMLAB_DATA=... python papers/deep_learning.py --lengths 3000 --samplers DMALA       # trains the models
    EBMLAB_DATA=... python papers/any_scale_deep.py        # runs what is missing, prints a table, draws curves

50 chains from random bits, on a ResNet with 16 channels of each seed. LB has the balance 1/2 and AB any, with
W_ii = 1 / (1 + variance of pixel i in the training images) and no auxiliary variable, as in the paper's App. B.6. As
there, their step sizes (and AB's balance) are those of a grid with the lowest energy, here on average over `GRID_STEPS`
steps. ACS tunes itself from the same start. Energies are counted from the mean energy of the test images.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path

import torch
from kept import Result, cell, run_missing
from matplotlib.figure import Figure
from torch import Tensor

from ebmlab.datamodules import MNIST
from ebmlab.energies import ResNet
from ebmlab.samplers import ACS, GWG, AnyScale, Sampler
from ebmlab.samplers.tuners import ACSTuner

CHAINS, GRID_STEPS, STEPS, TUNING = 50, 200, 1000, 500
SIGMAS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.8)
ALPHAS = (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7)
RECORDED = sorted({round(10 ** (k / 10)) for k in range(31)} - {501} | {500})
"""The steps after which energies are kept."""


class Model:
    """A trained energy, the mean energy of the test images, and the variances of the training images' pixels."""

    def __init__(self, file: Path) -> None:
        self.energy = ResNet((1, 28, 28), channels=16).eval().requires_grad_(False)
        self.energy.load_state_dict(torch.load(file))
        torch.manual_seed(0)  # of the pixels
        data = MNIST(binarize="dynamic")
        images = data.to_states(data.raw("test"))
        self.level = float(torch.cat([self.energy(part) for part in images.split(1000)]).mean())
        self.variance = data.to_states(data.raw("train")).var(0).flatten()


def sampler_of(job: str, model: Model, x: Tensor) -> Sampler:
    """The sampler of a job `NAME`, `LB sigma` or `AB sigma alpha`."""
    name, *numbers = job.split()
    settings = [float(number) for number in numbers]
    if name == "AB":
        return AnyScale("diagonal", settings[0], balance=settings[1], curvature=1 / (1 + model.variance))
    if name == "LB":
        return AnyScale("first", *settings)
    if name == "GWG":
        return GWG()
    tuned, _ = ACSTuner().tune(ACS(cycle_length=20, balance_max=0.8), model.energy, x, TUNING)
    return tuned


def run(key: str, models: dict[int, Model], jobs: dict[str, str], steps: int) -> Result:
    """Mean energies above those of test images along the chains, when they fall below it, and the seconds."""
    seed = int(key.split("--")[0])
    model = models[seed]
    torch.manual_seed(seed)
    x = model.energy.random(CHAINS)
    sampler = sampler_of(jobs[key], model, x)
    torch.manual_seed(seed)
    above, begin = [], time.process_time()
    for state, _ in sampler.chain(model.energy, x, steps):
        above.append(float(state.energy.mean()) - model.level)
    result: Result = {str(k): above[k - 1] for k in RECORDED if k <= steps}
    arrived = [k for k, value in enumerate(above, start=1) if value <= 0]
    result |= {"mean": sum(above) / steps, "seconds": time.process_time() - begin}
    return result | ({"arrived": arrived[0]} if arrived else {})


def result_of(folder: Path, key: str) -> Result:
    result: Result = json.loads((folder / f"{key}.json").read_text())
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--models", type=Path, default=Path("runs/deep_learning"), help="folder of deep_learning.py")
    parser.add_argument("--length", type=int, default=3000, help="iterations that the models were trained for")
    parser.add_argument("--folder", type=Path, default=Path("runs/any_scale_deep"))
    args = parser.parse_args()
    folder = args.folder / str(args.length)
    files = {seed: args.models / f"DMALA--{seed}--0.0003--{args.length}.pt" for seed in args.seeds}
    models = {seed: Model(file) for seed, file in files.items()}
    settings = {
        "LB": [f"LB {sigma} 0.5" for sigma in SIGMAS],
        "AB": [f"AB {sigma} {alpha}" for sigma in SIGMAS for alpha in ALPHAS],
    }
    grid = {f"{seed}--{job}": job for seed in args.seeds for jobs in settings.values() for job in jobs}
    run_missing(folder, grid, partial(run, models=models, jobs=grid, steps=GRID_STEPS), "0/1")
    final = {f"{seed}--chosen {name}": name for name in ("GWG", "LB", "AB", "ACS") for seed in args.seeds}
    for key, name in final.items():
        if name in settings:
            seed = key.split("--")[0]
            final[key] = min(settings[name], key=lambda job: result_of(folder, f"{seed}--{job}")["mean"])
    run_missing(folder, final, partial(run, models=models, jobs=final, steps=STEPS), "0/1")

    after = ("10", "50", "200", "500", "1000")
    titles = [f"above them after {k}" for k in after]
    print(f"| sampler | settings | steps to the test images' energy | {' | '.join(titles)} | seconds |")
    print("|" + "---|" * (len(after) + 4))
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for colour, name in enumerate(("GWG", "LB", "AB", "ACS")):
        jobs = {key: job for key, job in final.items() if key.endswith(f" {name}")}
        for k, key in enumerate(jobs):
            result = result_of(folder, key)
            axes.plot(RECORDED, [result[str(step)] for step in RECORDED], color=f"C{colour}", label=None if k else name)
        chosen = ", ".join(job.removeprefix(name).strip() or "-" for job in jobs.values())
        arrived = ", ".join(f"{result_of(folder, key).get('arrived', '-')}" for key in jobs)
        cells = [cell(folder, f"*--chosen {name}", key) for key in (*after, "seconds")]
        print(f"| {name} | {chosen} | {arrived} | {' | '.join(cells)} |")
    axes.axhline(0, color="grey", lw=0.8)
    axes.set(
        xscale="log",
        yscale="symlog",
        ylim=(-20, 2000),
        xlabel="steps",
        ylabel="mean energy above the test images' (nats)",
    )
    axes.legend()
    figure.savefig(Path(__file__).parents[1] / "docs" / "pictures" / "any_scale_deep.png", dpi=110)


if __name__ == "__main__":
    main()
