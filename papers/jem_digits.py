"""JEM on 8x8 digits over seeds: crashes, accuracy, calibration and detection of what is no digit.

    python papers/jem_digits.py                                 # goes on where it stopped, prints the table
    python papers/jem_digits.py --seeds 0 1 2 --epochs 100

The settings are those of configs/jem_digits.yaml, and the classifier beside it is the same network with
generative_weight 0. A crash is a stop by `DivergenceGuard`. Accuracy and the expected calibration error are of the 180
test images. AUROC is the chance that a test image has a lower energy than one of the others: uniform noise, digits
whose pixels come each from another digit, and digits upside down. Seconds are those of the process on one thread.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from itertools import product
from pathlib import Path

import pytorch_lightning as pl
import torch
from kept import Result, cell, fit, run_missing

from ebmlab.callbacks import DivergenceGuard
from ebmlab.datamodules import Digits
from ebmlab.energies import ClassifierMLP
from ebmlab.errors import UserError
from ebmlab.evaluation import calibration_error
from ebmlab.evaluation.outliers import detection
from ebmlab.learners import JointClassifier, ReplayBuffer
from ebmlab.samplers import MALA

BATCH = 100
WEIGHTS = {"JEM": 1.0, "classifier": 0.0}


def run(name: str, seed: int, epochs: int) -> Result:
    """Trains one model and scores it."""
    pl.seed_everything(seed)
    learner = JointClassifier(
        ClassifierMLP(64, num_classes=10, hidden_dim=256, num_layers=2, scale=4.0),
        MALA(0.02),
        start=ReplayBuffer(2000, reinitialize=0.05),
        num_steps=20,
        data_noise=0.3,
        generative_weight=WEIGHTS[name],
        optimizer=partial(torch.optim.Adam, lr=1e-3),
    )
    data = Digits(batch_size=BATCH, seed=seed)
    begin, crashed = time.process_time(), 0.0
    try:
        fit(learner, data, epochs * (1437 // BATCH), callbacks=[DivergenceGuard()])
    except UserError as error:
        print(f"{name}, seed {seed}: {error}")
        crashed = 1.0
    seconds = time.process_time() - begin
    images, labels = data.states("test"), data.labels("test")
    assert labels is not None
    columns = [torch.randperm(len(images)) for _ in range(64)]
    others = {
        "noise": data.to_states(torch.randint(17, images.shape, dtype=torch.uint8)),
        "mixed pixels": torch.stack([images.flatten(1)[rows, i] for i, rows in enumerate(columns)], 1),
        "upside down": images.flip(-2),
    }
    learner.eval()
    with torch.no_grad():
        probabilities = learner.energy.logits(learner.states(images)).softmax(1)
        inside = learner.energy(learner.states(images))
        outside = {which: learner.energy(learner.states(x)) for which, x in others.items()}
    return {
        "crashed": crashed,
        "accuracy": float((probabilities.argmax(1) == labels).double().mean()),
        "calibration error": float(calibration_error(probabilities, labels)),
        **{f"AUROC, {which}": detection(inside, energies).auroc for which, energies in outside.items()},
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=[*WEIGHTS], choices=[*WEIGHTS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[*range(10)])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--folder", type=Path, default=Path("runs/jem_digits"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    jobs = {f"{name}--{seed}--{given.epochs}": (name, seed) for seed, name in product(given.seeds, given.models)}
    run_missing(given.folder, jobs, lambda job: run(*jobs[job], given.epochs), "0/1")
    others = ("noise", "mixed pixels", "upside down")
    keys = ["crashed", "accuracy", "calibration error", *(f"AUROC, {which}" for which in others)]
    print(f"\n| model | {' | '.join([*keys, 'seconds'])} |\n|{'---|' * (len(keys) + 2)}")
    for name in given.models:
        cells = [cell(given.folder, f"{name}--*--{given.epochs}", key) for key in [*keys, "seconds"]]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
