"""A small classifier of labels, whose features replace Inception's in a Frechet distance of small or grey images."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ebmlab.errors import UserError
from ebmlab.io.files import Damaged, load, save
from ebmlab.io.folders import cache_folder
from ebmlab.io.progress import Meter
from ebmlab.numerics.streams import own_numbers

RECIPE = {"version": 1, "steps": 800, "epochs": 25, "batch_size": 128, "max_lr": 5e-3, "seed": 0, "features": 64}
LARGE = 16


class LabelClassifier(nn.Module):
    """Two convolutions, a linear layer of 64 features and a linear layer of logits, for square images.

    It maps images `(B, C, H, W)` in [0, 1], float32, to their features `(B, 64)`.

    Args:
        channels: C.
        num_classes: number of labels.
        size: H = W; the first convolution has stride 2 if this is at least 16.

    Example:
        >>> model = LabelClassifier(channels=1, num_classes=10, size=8)
        >>> images = torch.rand(5, 1, 8, 8)
        >>> model(images).shape, model.logits(images).shape
        (torch.Size([5, 64]), torch.Size([5, 10]))
    """

    def __init__(self, channels: int, num_classes: int, *, size: int) -> None:
        super().__init__()
        self.num_features = int(RECIPE["features"])  # torchmetrics reads this attribute
        stride = 2 if size >= LARGE else 1
        side = math.ceil(math.ceil(size / stride) / 2)
        self.body = nn.Sequential(
            nn.Conv2d(channels, 16, 5, stride=stride, padding=2, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * side**2, self.num_features),
            nn.ReLU(),
        )
        self.head = nn.Linear(self.num_features, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.body(images)
        return features

    def logits(self, images: Tensor) -> Tensor:
        """Logits of the labels, `(B, num_classes)`."""
        logits: Tensor = self.head(self(images))
        return logits


def load_or_train(
    images: Tensor, labels: Tensor, *, num_classes: int, cache_dir: Path | None = None, progress: bool = True
) -> tuple[LabelClassifier, str]:
    """The classifier of a data set: read from the cache, or trained on the CPU (up to a minute) and then cached.

    The state of the global random generator is not changed.

    Args:
        images: `(N, C, H, W)` in [0, 1].
        labels: `(N,)`, int64.
        num_classes: number of labels.
        cache_dir: default `$EBMLAB_CACHE`, or `ebmlab` in the user's cache folder.
        progress: show a progress bar while training.

    Raises:
        UserError: all labels are the same.

    Returns:
        The classifier in eval mode, and eight hexadecimal digits that identify the data and the recipe. The name of
        every score that depends on the classifier should contain them.

    Example:
        >>> images, labels = torch.rand(20, 1, 8, 8), torch.arange(20) % 2
        >>> model, digits = load_or_train(images, labels, num_classes=2, cache_dir=Path("cache"), progress=False)
        >>> model(images).shape, len(digits)
        (torch.Size([20, 64]), 8)
    """
    images, labels = images.detach().cpu().float().contiguous(), labels.detach().cpu().long()
    if len(labels) and bool((labels == labels[0]).all()):
        raise UserError(
            f"all {len(labels)} labels are {int(labels[0])}, and a classifier of one class learns no features: give "
            "data of at least two classes"
        )
    digest = _digest(images, labels, num_classes)
    path = (cache_dir or cache_folder()) / f"classifier-{digest}.pt"
    with own_numbers(int(RECIPE["seed"])), torch.inference_mode(False):
        model = LabelClassifier(images.shape[1], num_classes, size=images.shape[2])
        if not _load(model, path):
            with torch.enable_grad():  # on clones, since tensors made in Lightning's inference mode have no gradients
                train(model, images.clone(), labels.clone(), progress)
            _save(model, path)
    return model.requires_grad_(False).eval(), digest


def _digest(images: Tensor, labels: Tensor, num_classes: int) -> str:
    digest = hashlib.sha256(json.dumps([RECIPE, list(images.shape), num_classes], sort_keys=True).encode())
    digest.update(images.numpy().data)
    digest.update(labels.numpy().data)
    return digest.hexdigest()[:8]


def train(model: LabelClassifier, images: Tensor, labels: Tensor, progress: bool) -> None:
    """Trains the classifier on images `(N, C, H, W)` and their labels `(N,)` by `RECIPE`."""
    batch_size = int(RECIPE["batch_size"])
    steps = min(int(RECIPE["steps"]), math.ceil(int(RECIPE["epochs"]) * len(images) / batch_size))
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RECIPE["max_lr"], total_steps=steps)
    order = torch.cat([torch.randperm(len(images)) for _ in range(math.ceil(steps * batch_size / len(images)))])
    batches = torch.split(order[: steps * batch_size], batch_size)
    with Meter("training the FID classifier", "batch", len(batches), shown=progress) as meter:
        for count, batch in enumerate(batches, start=1):
            loss = cross_entropy(model.logits(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            meter.passed(count)


def _load(model: LabelClassifier, path: Path) -> bool:
    """Fills the model from a file; returns False if the file is missing or damaged."""
    try:
        if path.parent.stat().st_uid != os.getuid():
            return False  # another user's: who can write there decides what the features are
        path.parent.chmod(0o700)
        model.load_state_dict(load(path, map_location="cpu"))
    except (Damaged, OSError, RuntimeError, KeyError, TypeError, AttributeError, ValueError):
        return False
    return all(bool(p.isfinite().all()) for p in model.parameters())


def _save(model: LabelClassifier, path: Path) -> None:
    """Writes the file completely or not at all; it is not an error if the cache cannot be written."""
    try:
        save(model.state_dict(), path)
    except OSError:
        return
