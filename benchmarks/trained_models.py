"""Pictures and numbers of docs/trained_model.md: three models of MNIST complete digits and detect outliers.

    python benchmarks/trained_models.py         # trains what is missing, then draws; after a stop, call it again

The models are small and trained for about two CPU-minutes each. Everything is kept in runs/.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

import ebmlab
from ebmlab.datamodules import MNIST
from ebmlab.drawing.figures import figure_png, panels
from ebmlab.drawing.histograms import draw_histograms
from ebmlab.drawing.tiles import tile
from ebmlab.evaluation.outliers import detection
from ebmlab.io.files import whole
from ebmlab.samplers import Gibbs
from ebmlab.trained import TrainedModel

NAME = "inpainting"
QUIET = ["--callbacks.SampleGrid", "false", "--wandb", "disabled"]
TRAINING = {  # config, iterations, settings that differ from it
    "rbm": (
        "rbm_mnist",
        2200,
        ["--model.num_steps", "5", "--trainer.max_epochs", "4", "--callbacks.AIS", "false"],
    ),
    "grbm": (
        "grbm_mnist_small",
        429,
        [
            *("--model.num_steps", "30", "--model.energy.num_hidden", "256", "--trainer.max_epochs", "4"),
            *("--model.sampler.step_size", "0.039", "--model.data_noise", "0"),
            *("--model.burn_in", "0", "--callbacks.EMAWeightAveraging", "false", "--callbacks.ShortChains", "false"),
            *("--callbacks.FID", "false", "--callbacks.ParameterImages", "false"),
        ],
    ),
    "deep_ebm": (
        "ebm_dynamic_mnist_small",
        2000,
        [
            *("--model.energy", "ebmlab.energies.MLP", "--model.energy.num_coordinates", "${event_size:}"),
            *("--data.binarize", "true", "--trainer.max_epochs", "8", "--callbacks.AIS", "false"),
        ],
    ),
}
COMPLETIONS = 6
STEPS = {"rbm": 500, "grbm": 30, "deep_ebm": 20 * 14 * 28}  # 30: as in training; 20 sweeps of the lower half


def trained(name: str) -> TrainedModel:
    """The model, trained as far as it is not."""
    config, iterations, settings = TRAINING[name]
    run = Path("runs", config, NAME)
    last = run / "checkpoints" / "last.ckpt"
    if not last.exists() or torch.load(last, weights_only=True)["global_step"] < iterations:
        command = ["fit", "--config", f"configs/{config}.yaml", "--name", NAME, "--resume", "auto"]
        command += ["--trainer.max_steps", str(iterations), *settings, *QUIET]
        subprocess.run([sys.executable, "-m", "ebmlab", *command], check=True)
    return ebmlab.load(run)


def complete(name: str, model: TrainedModel, digits: Tensor, folder: Path) -> None:
    """Draws one test image of each digit: its given top half, itself, and completions."""
    mask = torch.zeros(model.shape, dtype=torch.bool)
    mask[:, :14] = True
    kept = folder / f"{name}.npy"
    if not kept.exists():
        torch.manual_seed(0)
        deep = name == "deep_ebm"  # DMALA, which has trained it, stays in noise
        sampler = Gibbs() if deep else None
        found = model.complete(
            digits, mask, num_samples=COMPLETIONS, num_steps=STEPS[name], denoise=not deep, sampler=sampler
        )
        with whole(kept) as path, path.open("wb") as file:
            np.save(file, found.numpy())
    completions = torch.from_numpy(np.load(kept))
    truth = model.preprocessing.to_raw(model.preprocessing.to_states(digits))
    shown = {
        "given": tile(truth.where(mask, torch.tensor(0.5)), 1, 0.5),
        "truth": tile(truth, 1, 0.5),
        f"{COMPLETIONS} completions by {LABELS[name]}": tile(completions.flatten(0, 1), COMPLETIONS, 0.5),
    }
    (folder / f"completed_{name}.png").write_bytes(figure_png(panels(shown)))


LABELS = {"rbm": "the RBM", "grbm": "the GRBM", "deep_ebm": "the deep EBM"}


def other_digits() -> Tensor:
    """scikit-learn's digits, 8x8 pixels of other writers, enlarged to 28x28 levels."""
    images = torch.from_numpy(load_digits().images).float()[:1000, None] / 16
    large = torch.nn.functional.interpolate(images, size=(20, 20), mode="bilinear")
    return torch.nn.functional.pad(large, (4, 4, 4, 4)).mul(255).round().to(torch.uint8)


def score(name: str, model: TrainedModel, test: Tensor, folder: Path) -> dict[str, float]:
    """AUROC of the energies of MNIST test images against other data; draws their histograms."""
    torch.manual_seed(0)
    pixels = torch.rand(test.flatten(1).shape).argsort(0)
    sets = {
        "noise": torch.randint(256, test.shape, dtype=torch.uint8),
        "shuffled pixels": test.flatten(1).gather(0, pixels).view_as(test),
        "upside down": test.flip(-2),
        "other digits": other_digits(),
    }
    inside = model.energy(test)
    shown, found = {"MNIST, test": inside}, {}
    for label, x in sets.items():
        energies = model.energy(x)
        found[label] = detection(inside, energies).auroc
        shown[f"{label} (AUROC {found[label]:.3f})"] = energies
    figure = draw_histograms(shown, "energy", f"energies by {LABELS[name]}")
    (folder / f"energies_{name}.png").write_bytes(figure_png(figure))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=TRAINING, default=list(TRAINING))
    parser.add_argument("--folder", type=Path, default=Path("runs/trained_models"))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    data = MNIST()
    test, labels = data.raw("test"), data.labels("test")
    assert labels is not None
    digits = test[[int((labels == k).nonzero()[0]) for k in range(10)]]
    rows: dict[str, dict[str, float]] = {}
    for name in args.models:
        model = trained(name)
        complete(name, model, digits, args.folder)
        rows[name] = score(name, model, test[:1000], args.folder)
    columns = list(next(iter(rows.values())))
    print(f"| AUROC of MNIST against | {' | '.join(columns)} |", f"|---{'|---' * len(columns)}|", sep="\n")
    for name, row in rows.items():
        print(f"| {LABELS[name]} | {' | '.join(f'{row[c]:.3f}' for c in columns)} |")


if __name__ == "__main__":
    main()
