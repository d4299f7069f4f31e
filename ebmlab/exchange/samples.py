"""Samples of other packages: sample sets of dimod and its kin, and chains in HDF5 files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebmlab.errors import WHY, UserError, explained, one_line
from ebmlab.exchange.foreign import Label, in_order, labels, labels_of, require_different
from ebmlab.exchange.format import HEAD, needed, text_of
from ebmlab.exchange.rbms import MAGIC

_SET = b'"SampleSet"'


def is_samples(path: Path) -> bool:
    """Whether a file holds a sample set, or is an HDF5 file.

    Example:
        >>> _ = Path("a.txt").write_text("0 1 2")
        >>> is_samples(Path("a.txt"))
        False
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    return head.startswith(MAGIC) or (head.lstrip().startswith(b"{") and _SET in head)


def read_samples(given: Any, names: Sequence[Label] = (), *, field: str | None = None) -> Tensor:
    """Samples `(N, ...)` in the numbers of the package; a row counts as often as it occurred.

    Args:
        given: a sample set, the path of one as JSON (`json.dumps(sampleset.to_serializable())`), or the path of an
            HDF5 file.
        names: the order of the variables, as in `Foreign.names`, or their texts. () stands for the order of labels that
            are whole numbers, or for the set's own order of other labels.
        field: the name of the data set in an HDF5 file with several; `parallel_chains` of rbms by default.

    Raises:
        UserError: the file is damaged, or its variables are not those of the names.

    Example:
        >>> from types import SimpleNamespace
        >>> record = SimpleNamespace(sample=np.array([[1, -1]]), num_occurrences=np.array([2]))
        >>> read_samples(SimpleNamespace(variables=["b", "a"], record=record), names=("a", "b")).tolist()
        [[-1, 1], [-1, 1]]
    """
    if not isinstance(given, str | Path):
        order = [labels_of(name) for name in given.variables]
        record = given.record
        return _ordered(np.asarray(record.sample), order, np.asarray(record.num_occurrences), names)
    path = Path(given)
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    try:
        with path.open("rb") as file:
            binary = file.read(len(MAGIC)) == MAGIC
        return _chains(path, field) if binary else _set(path, names)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise UserError(f"{path} is cut short or damaged ({type(error).__name__}: {one_line(error)})") from error


def variables(path: Path) -> tuple[str, ...]:
    """The labels of a file's samples, as texts in the order that `read_samples` gives them without names.

    It is () where they are 0, 1, 2, ..., and for files without labels.

    Raises:
        UserError: the file is damaged.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            return ()
    with explained(f"{path} is cut short or damaged ({WHY})", (KeyError, TypeError, ValueError)):
        found = [labels_of(name) for name in json.loads(text_of(path))["variable_labels"]]
    return tuple(map(str, labels(in_order(found))))


def _set(path: Path, names: Sequence[Label]) -> Tensor:
    content = json.loads(text_of(path))
    order = [labels_of(name) for name in content["variable_labels"]]
    data = content["sample_data"]
    if data["use_bytes"]:
        raise UserError("its numbers are bytes: write it by to_serializable(use_bytes=False)")
    values = np.asarray(data["data"])
    if content["sample_packed"]:
        values = _unpacked(values.reshape(content["num_rows"], -1), len(order))
        values = 2 * values - 1 if content["variable_type"] == "SPIN" else values
    counts = (content.get("vectors") or {}).get("num_occurrences")
    occurrences = np.ones(len(values), int) if counts is None else np.asarray(counts["data"], int)
    if values.shape != (content["num_rows"], len(order)) or len(occurrences) != len(values):
        raise UserError(f"it holds samples of the shape {values.shape}, but says {content['num_rows']} of {len(order)}")
    return _ordered(values.astype(np.int8), order, occurrences, names)


def _unpacked(words: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """Bits of words of 32, lowest bit first."""
    shifts = np.arange(32, dtype=np.uint64)
    bits = (words.astype(np.uint64)[:, :, None] >> shifts) & np.uint64(1)
    return bits.reshape(len(words), -1)[:, :size].astype(np.int8)


def _ordered(
    values: np.ndarray[Any, Any], order: list[Label], counts: np.ndarray[Any, Any], names: Sequence[Label]
) -> Tensor:
    require_different(order)
    wanted = list(names) or in_order(order)
    if wanted and all(isinstance(name, str) for name in wanted):  # a table's columns, whatever the labels were
        order = [str(name) for name in order]
    if set(wanted) != set(order):
        odd = sorted(map(str, set(wanted) ^ set(order)))
        raise UserError(f"its variables are not those of the model: {', '.join(odd)[:120]} is only in one of them")
    place = {name: i for i, name in enumerate(order)}
    return torch.from_numpy(np.repeat(values[:, [place[name] for name in wanted]], counts, 0))


def _chains(path: Path, field: str | None) -> Tensor:
    h5py = needed("h5py", "HDF5 files")
    with h5py.File(path, "r") as file:
        found: dict[str, Any] = {}
        file.visititems(lambda name, item: found.update({name: item}) if _is_samples(item) else None)
        if field not in found:
            field = "parallel_chains" if "parallel_chains" in found else field
            field = next(iter(found)) if len(found) == 1 else field
        if field not in found:
            raise UserError(f"it has no array {field}; it has {', '.join(found)[:200] or 'none of two axes or more'}")
        return torch.from_numpy(np.asarray(found[field][()]))


def _is_samples(item: Any) -> bool:
    return len(getattr(item, "shape", ())) >= 2 and item.dtype.kind in "biuf"
