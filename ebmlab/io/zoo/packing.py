"""A checkpoint without what only training needs, with its card and its sha256."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ebmlab.errors import UserError
from ebmlab.io.files import load_checkpoint, save, write_whole
from ebmlab.io.zoo.shelf import CARD, CHECKPOINT, FILES, Model, check_name

KEPT = (
    "state_dict",
    "hyper_parameters",
    "preprocessing",
    "origin",
    "epoch",
    "global_step",
    "pytorch-lightning_version",
)


def pack(checkpoint: Path, folder: Path, name: str, card: str) -> Model:
    """Writes a model into a folder: parameters and how to make it again, but no optimizer, chains or random states.

    The parameters stay exactly what they were.

    Args:
        checkpoint: of a training.
        folder: gets `model.ckpt`, `README.md` and `manifest.json`; see `seal` for what else may lie there.
        name: by which the model is called.
        card: what is to be known of it, Markdown.

    Raises:
        UserError: the name is not valid, or the checkpoint does not say how to make its model, or its parameters
            are not finite.

    Example:
        >>> from ebmlab.io.zoo import checkpoint
        >>> pack(checkpoint("zoo/rbm-digits"), Path("copy"), "copy", "# A copy").name
        'copy'
    """
    check_name(name)
    strip(checkpoint, folder)
    return seal(folder, name, card)


def strip(checkpoint: Path, folder: Path) -> Path:
    """Writes `model.ckpt` into a folder: the checkpoint without what only training needs. Returns its path.

    Raises:
        UserError: the checkpoint does not say how to make its model.
    """
    content = load_checkpoint(checkpoint)
    if "_class_path" not in (content.get("hyper_parameters") or {}):
        raise UserError(f"{checkpoint} does not say how to make its model: train it by the command line")
    from ebmlab.io.plain import require_finite  # imports torch, and `list` answers without it

    require_finite(content["state_dict"], checkpoint)
    save({key: content[key] for key in KEPT if key in content}, folder / CHECKPOINT)
    return folder / CHECKPOINT


def seal(folder: Path, name: str, card: str) -> Model:
    """Writes the card of a model, and the manifest with the sha256 of all that belongs to it.

    These are `model.ckpt`, the card, and if they lie there `samples.png` and `log_z.json`, what was found for log Z.
    """
    write_whole(folder / CARD, card)
    present = [file for file in FILES if (folder / file).is_file()]
    model = Model(name, {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in present})
    model.write(folder)
    return model
