"""Trained energies as targets of a study."""

from __future__ import annotations

import shlex
from pathlib import Path

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.io.zoo import shelf


def trained_energy(checkpoint: str) -> Energy:
    """The energy in a checkpoint, frozen.

    Args:
        checkpoint: a .ckpt file that `python -m ebmlab fit` wrote, or `zoo/NAME`.

    Raises:
        UserError: there is no such file, or it does not hold a learner that can be rebuilt.

    Example:
        >>> trained_energy("runs/grbm_digits/first/checkpoints/last.ckpt")
        Traceback (most recent call last):
        ebmlab.errors.UserError: no checkpoint runs/grbm_digits/first/checkpoints/last.ckpt: train the energy first: ...
    """
    from ebmlab.learners import Learner  # loads Lightning, which no other part of a study needs

    path = shelf.checkpoint(checkpoint) or Path(checkpoint)
    if not path.is_file():
        experiment = path.parts[1] if len(path.parts) > 2 and path.parts[0] == "runs" else "NAME"
        name = ["--name", path.parts[2]] if len(path.parts) > 3 and path.parts[0] == "runs" else []
        words = ["python", "-m", "ebmlab", "fit", "--config", f"configs/{experiment}.yaml", *name]
        raise UserError(f"no checkpoint {path}: train the energy first: {shlex.join(words)}")
    try:
        learner = Learner.load_from_checkpoint(path)
    except UserError as error:
        raise UserError(f"{error}; or give a checkpoint that `python -m ebmlab fit` wrote") from error
    energy: Energy = learner.energy.eval()
    return energy.requires_grad_(False)
