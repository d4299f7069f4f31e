"""The Frechet distance between sets of features (Heusel et al., 2017, GANs Trained by a Two Time-Scale Update Rule)."""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torchmetrics.image.fid import FrechetInceptionDistance

from ebmlab.errors import UserError


def frechet_distance(x: Tensor, y: Tensor) -> Tensor:
    """|m_x - m_y|^2 + tr(C_x + C_y - 2 (C_x C_y)^(1/2)) of features `(N, F)` and `(M, F)`; a scalar, float64.

    The trace of the root is the sum of the singular values of C_x^(1/2) C_y^(1/2), which are real where the
    eigenvalues of C_x C_y are not quite. It is the reference for `FrechetDistance`, which needs no more memory for
    more samples.
    """
    x, y = x.double(), y.double()
    root_x, root_y = _centred_root(x), _centred_root(y)
    trace = root_x.square().sum() + root_y.square().sum() - 2 * torch.linalg.svdvals(root_x @ root_y.T).sum()
    distance: Tensor = (x.mean(0) - y.mean(0)).square().sum() + trace
    return distance


def _centred_root(x: Tensor) -> Tensor:
    """R with R'R the covariance of x."""
    r: Tensor = torch.linalg.qr(x - x.mean(0), mode="r").R
    root: Tensor = r / (len(x) - 1) ** 0.5
    return root


class FrechetDistance(FrechetInceptionDistance):
    """torchmetrics' FID on an extractor of one's own: images are handed on as they are, sums are float64.

    The sums of the real images outlast `reset`. `compute` adds up all ranks' sums; every rank must call it.

    Args:
        extractor: maps images `(B, C, H, W)` in [0, 1] to features `(B, num_features)`.
    """

    def __init__(self, extractor: nn.Module) -> None:
        super().__init__(feature=extractor, reset_real_features=False, normalize=True)

    def compute(self) -> Tensor:
        """The distance, a scalar; float64, and never below 0 by rounding."""
        self.orig_dtype = torch.float64
        distance: Tensor = super().compute()
        return distance.clamp(min=0)


class _Inception(nn.Module):
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
    """Raises `UserError` unless the extra that brings the Inception network is installed."""
    if find_spec("torch_fidelity") is None:
        raise UserError(
            'FID with extractor "inception" needs torch-fidelity: pip install "ebmlab[fid]", '
            'or use extractor "classifier"'
        )


def inception_extractor() -> nn.Module:
    """The Inception network of the FID of the literature; its weights are downloaded once by torch-fidelity.

    Raises:
        UserError: torch-fidelity is not installed, or the weights cannot be had.
    """
    require_inception()
    try:
        return _Inception().eval()
    except Exception as error:  # urllib's, ssl's, torch.hub's: none of them says what to do
        reason = str(error).split("\n")[0][:120]
        raise UserError(
            f"the Inception weights cannot be downloaded or read ({reason}): connect to the network once, "
            f'or use extractor "classifier"'
        ) from error
