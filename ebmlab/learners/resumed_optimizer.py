"""The optimizer's settings in a resumed run, in which the checkpoint's replace those of the config."""

from __future__ import annotations

from typing import Any

from pytorch_lightning.utilities import rank_zero_warn
from torch.optim import Optimizer

from ebmlab.errors import UserError

Groups = list[dict[str, Any]]
WITHOUT_EFFECT = {"foreach", "fused", "capturable", "differentiable"}  # on what is learnt
INITIAL = "initial_lr"  # which a schedule adds; a checkpoint without a schedule has none


def settings_of(optimizer: Optimizer) -> Groups:
    """The settings of each group of parameters."""
    return [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]


def check_settings(wanted: Groups, optimizer: Optimizer, watched: bool = False) -> dict[str, Any]:
    """Warns of each setting that a checkpoint has replaced by another one, and returns those of the checkpoint.

    Args:
        wanted: the config's, from `settings_of` before the checkpoint was loaded.
        optimizer: with the settings of the checkpoint, from `continued`.
        watched: the learning rate follows a metric, so that the checkpoint's may be a later one.

    Raises:
        UserError: the checkpoint is that of another optimizer, whose state this one cannot continue.
    """
    replaced: dict[str, tuple[Any, Any]] = {}
    for mine, saved in zip(wanted, optimizer.param_groups, strict=True):
        if missing := [name for name in mine if name not in saved and name not in WITHOUT_EFFECT | {INITIAL}]:
            raise UserError(
                f"optimizer: the checkpoint was not written with {type(optimizer).__name__}, for it has no "
                f"{', '.join(missing)}: go on with the optimizer of the checkpoint"
            )
        for name in (optimizer.defaults.keys() & mine.keys()) - WITHOUT_EFFECT - _scheduled(saved):
            if _plain(saved[name]) != _plain(mine[name]):
                replaced[name] = saved[name], mine[name]
        if not watched and (rates := _rates(mine, saved)) is not None:
            replaced["lr"] = rates
    for name, (theirs, own) in sorted(replaced.items()):
        rank_zero_warn(f"optimizer: the run continues with the checkpoint's {name} = {theirs}, not {own}")
    return {name: theirs for name, (theirs, _) in replaced.items()}


def continued(optimizer: Optimizer, groups: Groups) -> Optimizer:
    """The optimizer with the settings of a checkpoint's groups, without its state.

    Args:
        optimizer: a new one of the learner's parameters, which is changed.
        groups: as the checkpoint has them, with the numbers of their parameters.

    Raises:
        UserError: the parameters are grouped in another way.
    """
    try:
        optimizer.load_state_dict({"state": {}, "param_groups": groups})
    except ValueError as error:
        given = ", ".join(str(len(group["params"])) for group in optimizer.param_groups)
        saved = ", ".join(str(len(group["params"])) for group in groups)
        raise UserError(
            f"optimizer: it has groups of {given} parameters, but that of the checkpoint {saved}: go on with the "
            "optimizer of the checkpoint"
        ) from error
    return optimizer


def _scheduled(group: dict[str, Any]) -> set[str]:
    """Settings that a schedule may have changed since the first step."""
    return {"lr", "momentum", "betas"} if "base_momentum" in group else {"lr"}


def _rates(mine: dict[str, Any], saved: dict[str, Any]) -> tuple[Any, Any] | None:
    """The learning rates of the checkpoint and of the config if they differ; if both are scheduled, the first ones."""
    if "lr" not in mine:
        return None
    theirs = saved[INITIAL if INITIAL in mine and INITIAL in saved else "lr"]
    own = mine.get(INITIAL, mine["lr"])
    return (theirs, own) if float(theirs) != float(own) else None


def _plain(value: Any) -> Any:
    """A setting that can be compared: lists and tuples are alike."""
    if not isinstance(value, list | tuple):
        return value
    return tuple(None if entry is None else float(entry) for entry in value)
