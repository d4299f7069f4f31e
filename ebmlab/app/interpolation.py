"""The meaning of `${...}` in a config: another setting by its full name, or the size of the data."""

from __future__ import annotations

import difflib
import math
import re
from typing import Any

from omegaconf import OmegaConf
from pytorch_lightning import LightningDataModule
from pytorch_lightning.cli import LightningArgumentParser

from ebmlab.app.failures import describe
from ebmlab.app.trust import check_class
from ebmlab.data.interface import Data
from ebmlab.errors import UserError

_ABSENT = object()


def absolute_names(text: str) -> str:
    """Makes `${trainer.max_epochs}` refer to the config's `trainer.max_epochs` under every command.

    Under a subcommand, OmegaConf would look for `trainer` beside the subcommand's name. The resolver `setting` looks in
    the config.
    """
    return re.sub(r"\$\{([A-Za-z_][\w.]*)\}", r"${setting:\1}", text)


def _setting(name: str, *, _root_: Any) -> Any:
    # the config is the root, or, if the root names a command, one level below it; jsonargparse also tries out parts
    # of a config alone, whose first value may be this very `${...}`
    first = next(iter(_root_))
    is_config = name.partition(".")[0] in _root_ or OmegaConf.is_interpolation(_root_, first)
    config = _root_ if is_config else _root_[first]
    value = OmegaConf.select(config, name, default=_ABSENT)
    if value is _ABSENT:
        known = _names(OmegaConf.to_container(config, resolve=False))
        close = difflib.get_close_matches(name, known, n=1)
        raise UserError(f"${{{name}}}: the config has no {name}" + (f"; did you mean {close[0]}?" if close else ""))
    return value


def _names(node: Any, prefix: str = "") -> list[str]:
    items = node.items() if isinstance(node, dict) else ()
    return [name for key, value in items for name in (f"{prefix}{key}", *_names(value, f"{prefix}{key}."))]


def _event_size(axis: int | None = None, *, _parent_: Any) -> int:
    """`${event_size:}`: the number of entries of one event of the config's data; `${event_size:0}`: along an axis.

    The datamodule that tells it is dropped. Lightning builds the run's own later, when the config is complete: under
    the run's seed, and with the settings that its checkpoints record.
    """
    node = _parent_
    while node is not None and "data" not in node:
        node = node._get_parent()
    if node is None or node.data is None:
        raise UserError("${event_size:} needs a `data:` section")
    data: Any = OmegaConf.to_container(node.data, resolve=True)
    check_class(data["class_path"], LightningDataModule)
    datamodule = built(data)
    if not isinstance(datamodule, Data) or datamodule.event_shape is None:
        raise UserError(
            f"${{event_size:}} cannot tell the size of {type(datamodule).__name__}'s events, for it is no "
            "ebmlab.data.Data with an event_shape: give the energy's size as a number, such as "
            "--model.energy.num_coordinates 784"
        )
    shape = datamodule.event_shape
    if axis is None:
        return math.prod(shape)
    if not (isinstance(axis, int) and 0 <= axis < len(shape)):
        raise UserError(f"${{event_size:{axis}}}: events have the shape {tuple(shape)}, and no axis {axis}")
    return shape[axis]


def built(data: dict[str, Any]) -> LightningDataModule:
    """Builds the datamodule as the command line will, the objects among its arguments included."""
    parser = LightningArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(LightningDataModule, "data")
    try:
        datamodule: LightningDataModule = parser.instantiate(parser.parse_object({"data": data})).data
    except Exception as error:
        raise UserError(describe(error)) from error
    return datamodule


OmegaConf.register_resolver("setting", _setting, replace=True)
OmegaConf.register_resolver("event_size", _event_size, replace=True)
