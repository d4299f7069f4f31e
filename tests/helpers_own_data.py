"""A user's own files for tests of data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

RNG = np.random.default_rng(0)


def save(path: Path, x: Any, y: Any = None) -> str:
    """Writes samples x and labels y in the format that the file's suffix names."""
    if path.suffix == ".npy":
        np.save(path, x)
    elif path.suffix == ".npz":
        np.savez(path, **{"x": x} if y is None else {"y": y, "x": x})
    elif path.suffix == ".pt":
        torch.save(torch.as_tensor(x) if y is None else {"y": torch.as_tensor(y), "x": torch.as_tensor(x)}, path)
    else:
        rows = np.asarray(x).reshape(len(x), -1)
        names = [f"c{i}" for i in range(rows.shape[1])]
        head = ",".join(names if y is None else ["y", *names]) + "\n"
        lines = [
            ",".join(map(str, row if y is None else [label, *row])) for label, row in zip(y or rows, rows, strict=True)
        ]
        path.write_text(head + "\n".join(lines) + "\n")
    return str(path)
