"""The classes that there are, and what was meant by a class or option that there is not."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from functools import cache

from pytorch_lightning import Trainer

from ebmlab.app.class_paths import short_name
from ebmlab.app.listing import FAMILIES
from ebmlab.app.trust import found

MODULES = (*FAMILIES, "torch.optim", "torch.optim.lr_scheduler")
_ELSEWHERE = {
    "learning_rate": "lr",
    "gpus": "devices",
    "epochs": "max_epochs",
    "seed": "seed_everything",
}  # names in other programs, and ours
_SHARED = ("config", "name", "ckpt_path", "resume", "wandb", "wandb_project", "tensorboard", "seed_everything")
_DRAWN = ("num_samples", "num_steps", "batch_size", "seed", "denoise", "output", "condition")  # options of `predict`
_PLACES = {
    "model": "ebmlab.learners",
    "model.optimizer": "torch.optim",
    "model.sampler": "ebmlab.samplers",
    "model.energy": "ebmlab.energies",
    "data": "ebmlab.datamodules",
}


@cache
def known(*modules: str) -> dict[str, str]:
    """The class paths of the classes in modules, by name; of one that is in several, in the last of them."""
    members = {name: f"{module}.{name}" for module in modules for name in vars(importlib.import_module(module))}
    return {name: path for name, path in members.items() if isinstance(found(path), type)}


def close_class(path: str, option: str = "") -> str | None:
    """The known class whose name is closest to that of a class that does not exist, of those that the option takes."""
    module, _, name = path.rpartition(".")
    place = next((of for full, of in _PLACES.items() if full.rpartition(".")[2] == option.rpartition(".")[2]), None)
    wanted = module if module in MODULES else place
    paths = known(*([wanted] if wanted else (*MODULES[len(FAMILIES) :], *FAMILIES)))
    by_lower = {each.lower(): each for each in paths}
    close = difflib.get_close_matches(name.lower(), by_lower, 1, 0.75)  # one letter of four
    return short_name(paths[by_lower[close[0]]]) if close and by_lower[close[0]] != name else None


def meant(option: str) -> str | None:
    """The full name of an option whose last word, or whose beginning, was given; None if there is none like it.

    It is never the option itself, which other commands have.
    """
    given = option.lstrip("-").partition("=")[0]
    name = _ELSEWHERE.get(given, given)
    drawn = _DRAWN if sys.argv[1:2] == ["predict"] else ()
    there_are = [full for full in (*drawn, *_SHARED, *_nested()) if full != given]
    longer = [full for full in there_are if full.endswith(f".{name}")] or [o for o in there_are if o.startswith(name)]
    near = longer or [o for o in there_are if o.endswith(f"_{name}")] or difflib.get_close_matches(name, there_are, 1)
    return f"--{near[0]}" if near else None


def deeper(place: str, option: str) -> str | None:
    """The full name of an option of a part of what is at a place; None if no part has it."""
    name = _ELSEWHERE.get(option, option)
    parts = (full for full in _nested() if full.startswith(f"{place}.") and full != f"{place}.{option}")
    return next((f"--{full}" for full in parts if full.endswith(f".{name}")), None)


def data_with(option: str) -> str | None:
    """The data set that has an option, one for a user's own data first; None if there is none."""
    kinds = {name: found(path) for name, path in known(_PLACES["data"]).items()}
    own = found("ebmlab.datamodules.own_data.OwnData")
    names = [name for name, kind in kinds.items() if option in _parameters(kind)]
    return min(names, key=lambda name: own not in kinds[name].__mro__, default=None)


def _nested() -> list[str]:
    """The options of the trainer, learners, optimizers, samplers, energies and datamodules, by their full names."""
    of = [(place, found(path)) for place, module in _PLACES.items() for path in known(module).values()]
    parts = dict.fromkeys(f"{place}.{name}" for place, kind in of for name in _parameters(kind))
    return [*(f"trainer.{name}" for name in _parameters(Trainer)), *parts]


def _parameters(kind: type) -> list[str]:
    try:
        taken = inspect.signature(kind).parameters
    except ValueError:
        return []
    return [name for name, one in taken.items() if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
