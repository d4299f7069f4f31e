"""The Inception network of published FIDs, by torchmetrics (Szegedy et al., 2016; Heusel et al., 2017).

This module loads torchvision by torchmetrics, which takes as long as torch: nothing imports it before it is needed.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchmetrics.image.fid import FrechetInceptionDistance

from ebmlab.errors import UserError
from ebmlab.extras import require


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
    require('FID with extractor "inception"', "torch_fidelity")


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
