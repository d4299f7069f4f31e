"""The Inception network, on whose features published FIDs are computed (Szegedy et al., 2016; Heusel et al., 2017).

This module loads torchmetrics, and matplotlib with it: `ebmlab.evaluation` does not import it.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torchmetrics.image.fid import FrechetInceptionDistance

from ebmlab.errors import UserError


class Inception(nn.Module):
    """Pool features `(B, 2048)` of the original Inception v3, from grey or RGB images in [0, 1]."""

    num_features = 2048

    def __init__(self) -> None:
        super().__init__()
        self.network = FrechetInceptionDistance(feature=self.num_features).inception

    def forward(self, images: Tensor) -> Tensor:
        rgb = images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images
        features: Tensor = self.network((rgb * 255).round().to(torch.uint8))
        return features


def require_inception() -> None:
    """Raises `UserError` unless torch-fidelity, which provides the Inception network, is installed."""
    if find_spec("torch_fidelity") is None:
        raise UserError(
            'FID with extractor "inception" needs torch-fidelity: pip install "ebmlab[fid]", '
            'or use extractor "classifier"'
        )


def inception_extractor() -> nn.Module:
    """The Inception network of published FIDs. torch-fidelity downloads its weights once.

    Raises:
        UserError: torch-fidelity is not installed, or its weights cannot be downloaded or read.
    """
    require_inception()
    try:
        return Inception().eval()
    except Exception as error:  # from urllib, ssl or torch.hub, none of which says what to do
        reason = str(error).split("\n")[0][:120]
        raise UserError(
            f"the Inception weights cannot be downloaded or read ({reason}): connect to the network once, "
            f'or use extractor "classifier"'
        ) from error
