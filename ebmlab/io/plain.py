"""What a checkpoint may hold: plain data, which are read again without running any code."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any

import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.io.rebuilding import PLAIN, plain


def make_plain(content: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Puts Python's numbers in place of NumPy's in nested dictionaries and lists.

    Args:
        content: what is to be saved; changed in place.
        place: its name.

    Yields:
        Of each value that `torch.load(weights_only=True)` cannot read: its place and its type.
    """
    entries: Any = ()
    if isinstance(content, MutableMapping):
        entries = list(content.items())
    elif isinstance(content, MutableSequence):
        entries = enumerate(content)
    for key, value in entries:
        where = f"{place}.{key}" if place else str(key)
        found = _plain(value)
        if found is not value:
            content[key] = found
        if isinstance(found, MutableMapping | MutableSequence):
            yield from make_plain(found, where)
        elif not _is_readable(found):
            yield where, type(found).__name__


def require_finite(weights: Mapping[str, Any], path: object, parameters: Collection[str] = ()) -> None:
    """Raises `UserError` if a number among the weights that are to be loaded is NaN, or infinite and a parameter.

    Args:
        weights: tensors by name, as in the `state_dict` of a checkpoint.
        path: of the checkpoint, for the error.
        parameters: the names of parameters. Buffers, such as masks, may be infinite.
    """
    for name, value in weights.items():
        if not isinstance(value, Tensor) or not value.is_floating_point():
            continue
        if bad := int((~value.isfinite() if name in parameters else value.isnan()).sum()):
            raise UserError(
                f"{path}: {bad} of {value.numel()} numbers in {name} {'is' if bad == 1 else 'are'} not finite, so "
                "that training has diverged or the file has been changed: take an earlier checkpoint"
            )


def _plain(value: Any) -> Any:
    """The value, or one that is equal and plain."""
    if isinstance(value, Tensor | MutableMapping | MutableSequence):
        return value
    if type(value) is tuple and any(_plain(entry) is not entry for entry in value):
        return tuple(map(_plain, value))
    return plain(value)


def _is_readable(value: Any) -> bool:
    if type(value) in PLAIN or type(value) in (Tensor, torch.nn.Parameter):
        return True
    if type(value) is tuple and all(map(_is_readable, value)):
        return True
    file = io.BytesIO()
    try:
        torch.save(value, file)
        file.seek(0)
        torch.load(file, weights_only=True)
    except Exception:  # torch raises half a dozen types here
        return False
    return True
