"""What was meant by an option that there is not, such as `--lr` for `--model.optimizer.lr`."""

from __future__ import annotations

import difflib
import importlib
import inspect
from functools import cache

_SHARED = ("config", "name", "ckpt_path", "resume", "wandb", "wandb_project", "tensorboard", "seed_everything")
_FAMILIES = {
    "model": "ebmlab.learners",
    "model.optimizer": "torch.optim",
    "model.sampler": "ebmlab.samplers",
    "model.energy": "ebmlab.energies",
    "data": "ebmlab.datamodules",
}


def meant(option: str) -> str | None:
    """The full name of an option whose last word, or whose beginning, was given; None if there is none like it."""
    name = option.lstrip("-").partition("=")[0]
    known = [*_SHARED, *_names()]
    longer = [full for full in known if full.endswith(f".{name}")] or [full for full in known if full.startswith(name)]
    near = longer or [full for full in known if full.endswith(f"_{name}")] or difflib.get_close_matches(name, known, 1)
    return f"--{near[0]}" if near else None


@cache
def _names() -> list[str]:
    """The options of trainer, learners, optimizers, samplers, energies and datamodules, by their full names."""
    from pytorch_lightning import Trainer

    names = [f"trainer.{name}" for name in inspect.signature(Trainer).parameters]
    for place, module in _FAMILIES.items():
        for kind in vars(importlib.import_module(module)).values():
            if isinstance(kind, type):
                names += [f"{place}.{name}" for name in _parameters(kind)]
    return list(dict.fromkeys(names))


def _parameters(kind: type) -> list[str]:
    try:
        found = inspect.signature(kind).parameters
    except ValueError:
        return []
    return [name for name, one in found.items() if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
