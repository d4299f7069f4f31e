"""Trains a model of the zoo by its recipe in `zoo.yaml`, measures it on the test data, and writes its card.

python -m benchmarks.zoo rbm-digits        # writes zoo/rbm-digits/; goes on where it was stopped
"""

from __future__ import annotations

import argparse
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import yaml

from ebmlab import __version__
from ebmlab.app.class_paths import full_names
from ebmlab.app.finished_run import FinishedRun, read_run
from ebmlab.app.interpolation import built
from ebmlab.app.prediction import save_samples
from ebmlab.app.run_folder import CONFIG, RUNS
from ebmlab.data.interface import Data
from ebmlab.errors import UserError
from ebmlab.io.zoo.packing import seal, strip
from ebmlab.io.zoo.shelf import LOG_Z, PICTURE
from ebmlab.trained import LogLikelihood, TrainedModel, load
from ebmlab.trained.likelihood import Kept

RUN, DRAWN, BATCH = "zoo", 64, 2000
RECIPES = Path(__file__).with_suffix(".yaml")


def make(name: str, folder: Path) -> Path:
    """Trains a model, or goes on where its run was stopped; writes it with its card and its picture into `folder/NAME`.

    Raises:
        UserError: there is no recipe of that name, or the training fails.
    """
    recipes = yaml.safe_load(RECIPES.read_text())
    if name not in recipes:
        raise UserError(f"there is no recipe for {name}; there are {', '.join(recipes)}")
    recipe = recipes[name]
    command = ["fit", "--config", recipe["config"], *recipe.get("options", [])]
    run = RUNS / Path(recipe["config"]).name / RUN
    cpu = ["--name", RUN, "--resume", "auto", "--trainer.accelerator", "cpu", "--wandb", "disabled"]
    if subprocess.run([sys.executable, "-m", "ebmlab", *command, *cpu], check=False).returncode:
        raise UserError(f"the training of {name} failed: give the same command again to continue it")
    model, data = load(run / "checkpoints" / "last.ckpt"), _data(run)
    data.setup("test")
    target = folder / name
    steps = recipe.get("num_steps")
    pictures = save_samples(model.learner, data, target, recipe.get("num_samples", DRAWN), steps, output=str(target))
    for path in pictures:
        if path.name != PICTURE:
            path.unlink()
    found = measure(strip(run / "checkpoints" / "last.ckpt", target), data, recipe)
    drawn = any(path.name == PICTURE for path in pictures)
    seal(target, name, _card(name, recipe, command, run, model, found, drawn))
    return target


def measure(checkpoint: Path, data: Data, recipe: dict[str, Any]) -> LogLikelihood:
    """The likelihood of test data; a log Z that is to be trusted goes into `log_z.json` beside the checkpoint.

    Args:
        checkpoint: a packed one.
        data: gives the test data.
        recipe: `num_chains` and `num_temperatures` of annealed importance sampling.
    """
    num_chains, num_temperatures = recipe["num_chains"], recipe["num_temperatures"]
    x = data.to_raw(data.states("test")[:BATCH])
    found = load(checkpoint).log_likelihood(x, num_chains, num_temperatures=num_temperatures, fresh=True)
    kept = Kept(checkpoint, num_chains, num_temperatures).path
    if found.trusted:
        checkpoint.with_name(LOG_Z).write_text(kept.read_text() + "\n")
    kept.unlink()
    return found


def _data(run: Path) -> Any:
    config = yaml.safe_load(full_names((run / CONFIG).read_text()))
    data = built(config["data"])
    assert isinstance(data, Data)
    return data


def _card(
    name: str,
    recipe: dict[str, Any],
    command: list[str],
    run: Path,
    model: TrainedModel,
    found: LogLikelihood,
    drawn: bool,
) -> str:
    finished = read_run(run)
    energy = model.learner.energy
    count = sum(p.numel() for p in energy.parameters())
    command_line = f"`python -m ebmlab {shlex.join(command)}`"
    rows = {
        "energy": f"{type(energy).__name__} on {energy.domain}, {count:,} parameters",
        "data": recipe["data"],
        "command": f"{command_line}; `python -m benchmarks.zoo {name}` does this and what follows",
        "training": f"{finished.steps:,} steps, seed {finished.settings['seed_everything']}, {_seconds(finished)}",
        "hardware": f"{_processor()}, threads: {torch.get_num_threads()}",
        "software": f"ebmlab {__version__}, torch {torch.__version__}",
        "log-likelihood": likelihood_row(found),
        "FID": _fid(finished),
        "precision": "float32, exactly the parameters of the training",
        "licence": "MIT for the parameters, as ebmlab; the data's own as above",
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
    }
    steps = recipe.get("num_steps", model.learner.num_steps)
    number = recipe.get("num_samples", DRAWN)
    picture = f"\n![{number:,} samples by new chains from noise, {steps} steps each]({PICTURE})\n" if drawn else ""
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    return f"# zoo/{name}\n\n{recipe['about']}\n\n| | |\n|---|---|\n{table}\n{picture}"


def likelihood_row(found: LogLikelihood) -> str:
    """What a card says of the likelihood."""
    trust = f"+- {found.std_error:.2g}" if found.trusted else "not to be trusted"
    return (
        f"{found.mean:.2f} nats {trust} ({found.bits_per_dim:.3f} bits per dimension): the mean over "
        f"{len(found.values)} test samples; {found.log_z}"
    )


def _seconds(run: FinishedRun) -> str:
    return "time not known" if run.seconds is None else f"{run.seconds:.0f} s (other programs ran beside it)"


def _fid(run: FinishedRun) -> str:
    scores = [(name, run.last(name)) for name in run.metrics if name.startswith("fid")]
    return "; ".join(f"{name} {score}" for name, score in scores if score) or "not measured"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trains a model of the zoo again, and writes its card.")
    parser.add_argument("name")
    parser.add_argument("--folder", type=Path, default=Path("zoo"), help="gets NAME/ with checkpoint and card")
    options = parser.parse_args()
    print(make(options.name, options.folder))
