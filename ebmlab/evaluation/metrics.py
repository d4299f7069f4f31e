"""Comparisons of two sets of states or images as torchmetrics, which gather the sets over batches and ranks.

This module loads torchmetrics, and matplotlib with it: `ebmlab.evaluation` does not import it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.utilities.data import dim_zero_cat

from ebmlab.domains import Finite
from ebmlab.errors import UserError
from ebmlab.evaluation.classifier_two_sample import classifier_test
from ebmlab.evaluation.energy_distance import energy_distance
from ebmlab.evaluation.frechet import distance_of_moments, moments
from ebmlab.evaluation.graph_mmd import graph_mmds, matrices
from ebmlab.evaluation.mmd import check_kernel, hamming_mmd
from ebmlab.evaluation.precision_recall import precision_recall
from ebmlab.evaluation.sliced_wasserstein import sliced_wasserstein


class _Kept(Metric):
    """A metric that keeps all states, real and generated."""

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    real: list[Tensor]
    generated: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("real", [], dist_reduce_fx="cat")
        self.add_state("generated", [], dist_reduce_fx="cat")

    def update(self, x: Tensor, real: bool) -> None:
        """Adds states `(B, *event)`. A rank without states must call it too, with B = 0."""
        (self.real if real else self.generated).append(x.detach())

    def both(self) -> tuple[Tensor, Tensor]:
        """All real and all generated states."""
        if min(len(self.real), len(self.generated)) == 0:
            raise UserError(
                f"{type(self).__name__} compares real with generated states, but was given none of one kind"
            )
        return dim_zero_cat(self.real), dim_zero_cat(self.generated)


class HammingMMD(_Kept):
    """`hamming_mmd` of all states seen, real and generated, on all ranks.

    Args:
        kernel: `exponential` or `linear`.
        unbiased: the U-statistic in place of the V-statistic.
        domain: where the states live; needed for one-hot states only.

    Example:
        >>> metric = HammingMMD()
        >>> metric.update(torch.zeros(3, 4), real=True)
        >>> metric.update(torch.zeros(5, 4), real=False)
        >>> float(metric.compute())
        0.0
    """

    def __init__(self, kernel: str = "exponential", unbiased: bool = False, *, domain: Finite | None = None) -> None:
        super().__init__()
        check_kernel(kernel)
        self.kernel = kernel
        self.unbiased = unbiased
        self.domain = domain

    def compute(self) -> Tensor:
        """The discrepancy, a scalar, float64. Every rank must call it."""
        real, generated = self.both()
        return hamming_mmd(generated, real, kernel=self.kernel, unbiased=self.unbiased, domain=self.domain)


class FrechetDistance(Metric):
    """`frechet_distance` of the features of all images seen, real and generated, on all ranks: the FID.

    `reset` keeps the real images.

    Args:
        extractor: maps images `(B, C, H, W)` in [0, 1] to features `(B, num_features)`.

    Example:
        >>> features = nn.Flatten()
        >>> features.num_features = 4
        >>> metric, images = FrechetDistance(features), torch.rand(50, 1, 2, 2)
        >>> metric.update(images, real=True)
        >>> metric.update(images + 1, real=False)
        >>> round(float(metric.compute()), 4)
        4.0
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    real: Tensor
    generated: Tensor

    def __init__(self, extractor: nn.Module) -> None:
        super().__init__()
        self.extractor = extractor
        size = int(extractor.num_features) + 1  # type: ignore[arg-type]
        for name in ("real", "generated"):
            self.add_state(name, torch.zeros(size, size, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, images: Tensor, real: bool) -> None:
        """Adds images."""
        found = moments(self.extractor(images))
        if real:
            self.real = self.real + found
        else:
            self.generated = self.generated + found

    def compute(self) -> Tensor:
        """The distance, a scalar, float64, clamped at 0 against rounding. Every rank must call it."""
        return distance_of_moments(self.real, self.generated).clamp(min=0)

    def reset(self) -> None:
        """Forgets the generated images."""
        real = self.real
        super().reset()
        self.real = real


class GraphMMD(_Kept):
    """`graph_mmds` of all graphs seen, real and generated, on all ranks.

    Args:
        num_nodes: n, the number of slots.

    Example:
        >>> metric = GraphMMD(num_nodes=3)
        >>> metric.update(torch.ones(2, 3), real=True)  # triangles
        >>> metric.update(torch.ones(2, 3), real=False)
        >>> float(metric.compute()["average"])
        0.0
    """

    def __init__(self, num_nodes: int) -> None:
        super().__init__()
        self.num_nodes = num_nodes

    def update(self, x: Tensor, real: bool) -> None:
        """Adds graphs `(B, n (n - 1) / 2)`, 0 and 1. A rank without graphs must call it too, with B = 0."""
        matrices(x, self.num_nodes)
        super().update(x.byte(), real)

    def compute(self) -> dict[str, Tensor]:
        """`degree`, `clustering`, `orbit` and `average`, scalars, float64. Every rank must call it."""
        empty = torch.zeros(0, self.num_nodes * (self.num_nodes - 1) // 2, device=self.device)
        real, generated = (dim_zero_cat(graphs) if len(graphs) else empty for graphs in (self.real, self.generated))
        return graph_mmds(generated, real, num_nodes=self.num_nodes)


class SampleDistances(_Kept):
    """How far all generated states are from the real ones, on all ranks.

    Example:
        >>> metric = SampleDistances()
        >>> metric.update(torch.randn(50, 3), real=True)
        >>> metric.update(torch.randn(50, 3) + 9, real=False)
        >>> values = metric.compute()
        >>> values["precision"].item(), values["classifier"].item()
        (0.0, 1.0)
    """

    names = ("energy", "sliced_wasserstein", "precision", "recall", "classifier")

    def compute(self) -> dict[str, Tensor]:
        """Scalars by `names`, float64: see the functions of `ebmlab.evaluation`. Every rank must call it."""
        real, generated = self.both()
        support = precision_recall(real, generated)
        accuracy = classifier_test(generated, real).accuracy
        return {
            "energy": energy_distance(generated, real),
            "sliced_wasserstein": sliced_wasserstein(generated, real),
            **{name: torch.tensor(value, dtype=torch.float64) for name, value in support._asdict().items()},
            "classifier": torch.tensor(accuracy, dtype=torch.float64),
        }
