"""How exactly torch multiplies float32 matrices: its older settings and the newer ones, read and put back together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

PLACES = (("cuda", "matmul"), ("mkldnn", "matmul"), ("cudnn", "conv"), ("cudnn", "rnn"))  # of `fp32_precision`


@dataclass(frozen=True)
class Float32Settings:
    """The settings at one time.

    torch refuses to tell an older setting (`torch.get_float32_matmul_precision`) once a newer one
    (`torch.backends.cuda.matmul.fp32_precision`, from torch 2.9) differs from it. It is then put back to its default.
    """

    matmul: str
    cudnn_tf32: bool
    newer: tuple[tuple[Any, str], ...]

    @classmethod
    def now(cls) -> Float32Settings:
        """Reads them."""
        try:
            matmul, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        except RuntimeError:
            matmul, cudnn = "highest", True
        places: list[Any] = [getattr(getattr(torch.backends, library), kind, None) for library, kind in PLACES]
        newer = [(place, place.fp32_precision) for place in places if hasattr(place, "fp32_precision")]
        return cls(matmul, bool(cudnn), tuple(newer))

    def restore(self) -> None:
        """Puts them back."""
        torch.set_float32_matmul_precision(self.matmul)
        torch.backends.cudnn.allow_tf32 = self.cudnn_tf32
        for place, precision in self.newer:
            place.fp32_precision = precision
