"""How samples of a model of a family compare with its natural sequences."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from ebmlab.energies.pairwise.statistics import connected
from ebmlab.errors import UserError
from ebmlab.sequences.weights import nearest_distances
from ebmlab.settings import require_weights

SHOWN = 20000  # numbers of each kind that a picture shows


@dataclass(frozen=True)
class FamilyComparison:
    """Natural sequences and samples side by side.

    Attributes:
        sites: frequencies f_i(a) in data and samples, `(K, 2)`.
        pairs: connected frequencies f_ij(a, b) - f_i(a) f_j(b) of all pairs of sites, `(K, 2)`.
        triples: connected frequencies of three sites, of some that occur in the data, `(K, 2)`.
        pca_data: the data on their first two principal components, `(N, 2)`.
        pca_samples: the samples on the same components, `(M, 2)`.
        nearest: the share of sites at which each sample differs from its nearest natural sequence, `(M,)`.
        unique: the share of samples that differ from all others before them.

    Example:
        >>> eye = torch.eye(3).repeat(20, 1, 1)
        >>> found = compare_families(eye, torch.ones(20), samples=eye)
        >>> found.novel, round(found.unique, 2), found.nearest.max().item()
        (0.0, 0.05, 0.0)
    """

    sites: Tensor
    pairs: Tensor
    _: KW_ONLY
    triples: Tensor
    pca_data: Tensor
    pca_samples: Tensor
    nearest: Tensor
    unique: float

    @property
    def novel(self) -> float:
        """The share of samples that are no natural sequence."""
        return float((self.nearest > 0).double().mean())

    def summary(self) -> dict[str, float]:
        """Correlations of the statistics of one, two and three sites, and what the samples have of their own."""
        return {
            "pearson_1": correlation(self.sites),
            "pearson_2": correlation(self.pairs),
            "pearson_3": correlation(self.triples),
            "nearest": float(self.nearest.median()),
            "novel": self.novel,
            "unique": self.unique,
        }


def correlation(pairs: Tensor) -> float:
    """The Pearson correlation of the two columns; NaN where one of them does not vary."""
    x, y = (pairs.double() - pairs.double().mean(0)).T
    return float((x @ y) / (x.norm() * y.norm()))


@torch.no_grad()
def compare_families(
    data: Tensor, weights: Tensor, *, samples: Tensor, num_triples: int = 5000, seed: int = 0
) -> FamilyComparison:
    """Compares samples with natural sequences.

    Statistics of two sites are those of adabmDCA: the correlation is taken over all values of all pairs of sites. The
    triples are drawn: three sites, with the values that a sequence of the data has there.

    Args:
        data: one-hot, `(N, d, q)`.
        weights: of the data, `(N,)`.
        samples: one-hot, `(M, d, q)`.
        num_triples: of sites and values.
        seed: of the triples.

    Raises:
        UserError: the two have different sites or values, one is empty, or weights are not one for each sequence.

    Example:
        >>> x = torch.eye(4)[torch.randint(4, (50, 6))]
        >>> round(compare_families(x, torch.ones(50), samples=x).summary()["pearson_2"], 6)
        1.0
    """
    if data.shape[1:] != samples.shape[1:] or data.dim() != 3 or not len(data) or not len(samples):
        raise UserError(
            f"sequences (N, d, q) are compared with others, got {tuple(data.shape)} and {tuple(samples.shape)}"
        )
    require_weights("compare_families", weights, len(data))
    x, y = data.float().flatten(1).cpu(), samples.float().flatten(1).cpu()
    w = (weights / weights.sum()).float().cpu()
    v = torch.full((len(y),), 1 / len(y))
    sites = torch.stack([w @ x, v @ y], 1)
    values, drawn = data.argmax(-1).cpu(), samples.argmax(-1).cpu()
    centre = w @ x
    _, _, directions = torch.svd_lowrank((x - centre) * w.sqrt().unsqueeze(1), q=min(12, *x.shape), niter=4)
    directions = directions[:, :2]
    return FamilyComparison(
        sites=sites,
        pairs=torch.stack([connected(data.float().cpu(), w), connected(samples.float().cpu(), v)], 1),
        triples=_triples(values, w, drawn, v, num_triples, seed),
        pca_data=(x - centre) @ directions,
        pca_samples=(y - centre) @ directions,
        nearest=nearest_distances(drawn, values).double() / values.shape[1],
        unique=len(torch.unique(drawn, dim=0)) / len(drawn),
    )


def _triples(x: Tensor, w: Tensor, y: Tensor, v: Tensor, count: int, seed: int) -> Tensor:
    """Connected frequencies of three sites in data x and samples y, values `(N, d)`, `(count, 2)`."""
    generator = torch.Generator().manual_seed(seed)
    d = x.shape[1]
    if d < 3:
        return torch.zeros(0, 2)
    sites = torch.stack([torch.randperm(d, generator=generator)[:3] for _ in range(count)])
    rows = torch.randint(len(x), (count, 1), generator=generator)
    wanted = x[rows, sites]
    return torch.stack([_cumulants(x, w, sites, wanted), _cumulants(y, v, sites, wanted)], 1)


def _cumulants(x: Tensor, w: Tensor, sites: Tensor, wanted: Tensor) -> Tensor:
    """The third cumulant of the events that site k has the wanted value, `(count,)`."""
    a, b, c = ((x[:, sites[:, k]] == wanted[:, k]).float() for k in range(3))
    fa, fb, fc = w @ a, w @ b, w @ c
    return w @ (a * b * c) - fa * (w @ (b * c)) - fb * (w @ (a * c)) - fc * (w @ (a * b)) + 2 * fa * fb * fc
