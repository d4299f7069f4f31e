"""Contacts of residues by the couplings of sites (Ekeberg et al. 2013, Eqs. 27 to 29), against a structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from ebmlab.domains import Categorical
from ebmlab.energies import Energy, Potts
from ebmlab.energies.pairwise.potts import zero_sum
from ebmlab.errors import UserError
from ebmlab.sequences import Placement, Residue, distances
from ebmlab.sequences.pdb import Between

LONG_RANGE = 24  # residues between the ends of a contact of long range, as in CASP


@dataclass(frozen=True)
class ContactPrediction:
    """Scores of pairs of sites beside the distances in a structure.

    Only pairs of which both sites have a residue count, and which are apart along the sequence. L is the number of all
    sites.

    Attributes:
        scores: `(L, L)`, symmetric; a larger one predicts a contact.
        distances: `(L, L)`, in Angstrom; NaN where a site has no residue.
        positions: `(L,)`, where sites stand along the sequence; -1 without a residue.
        threshold: a pair at a smaller distance is a contact.
        min_separation: the least difference of two positions.

    Example:
        >>> scores = torch.tensor([[0.0, 1.0, 9.0], [1.0, 0.0, 5.0], [9.0, 5.0, 0.0]])
        >>> apart = torch.tensor([[0.0, 3.0, 4.0], [3.0, 0.0, 12.0], [4.0, 12.0, 0.0]])
        >>> found = ContactPrediction(scores, apart, positions=torch.tensor([0, 2, 7]), threshold=8.0, min_separation=2)
        >>> found.precision(1), found.curve().tolist()
        (1.0, [1.0, 0.5, 0.6666666666666666])
    """

    scores: Tensor
    distances: Tensor
    _: KW_ONLY
    positions: Tensor
    threshold: float
    min_separation: int

    def ranked(self, min_separation: int | None = None) -> Tensor:
        """The pairs `(P, 2)` of sites, the best score first."""
        separation = self.min_separation if min_separation is None else min_separation
        size = len(self.scores)
        i, j = torch.triu_indices(size, size, 1)
        apart = (self.positions[i] - self.positions[j]).abs() >= separation
        i, j = (ends[apart & self.distances[i, j].isfinite()] for ends in (i, j))
        order = self.scores[i, j].argsort(descending=True, stable=True)
        return torch.stack([i[order], j[order]], 1)

    def curve(self, min_separation: int | None = None) -> Tensor:
        """The share of contacts among the best 1, 2, ... pairs, `(P,)`, float64."""
        i, j = self.ranked(min_separation).T
        hits = (self.distances[i, j] < self.threshold).double().cumsum(0)
        return hits / torch.arange(1, len(hits) + 1)

    def precision(self, count: int, min_separation: int | None = None) -> float:
        """The share of contacts among the best `count` pairs, or among all if there are fewer; NaN of none."""
        curve = self.curve(min_separation)
        return float(curve[min(max(count, 1), len(curve)) - 1]) if len(curve) else float("nan")

    def summary(self) -> dict[str, float]:
        """Precision of the best L, L/2 and L/5 pairs, of all and of those of long range, and of pairs at random."""
        size = len(self.scores)
        found = {}
        for prefix, separation in (("", None), ("long_range_", LONG_RANGE)):
            for name, part in (("l", 1), ("l2", 2), ("l5", 5)):
                found[f"{prefix}precision_{name}"] = self.precision(size // part, separation)
        found["precision_at_random"] = self.precision(size**2)
        return found


def contact_prediction(
    scores: Tensor,
    residues: Sequence[Residue],
    *,
    placement: Placement,
    between: Between = "heavy",
    threshold: float = 8.0,
    min_separation: int = 5,
) -> ContactPrediction:
    """Holds scores against a structure.

    Args:
        scores: `(L, L)`, of `contact_scores` or of another program.
        residues: of `sequences.read_pdb`.
        placement: of `sequences.place`.
        between: distances of the closest `heavy` atoms, or of `beta` carbons.
        threshold: in Angstrom; a pair at a smaller distance is a contact.
        min_separation: the least number of residues from one end of a pair to the other, along the sequence.

    Example:
        >>> import numpy as np
        >>> places = [np.array([4.0 * i, 0, 0]) for i in range(8)]
        >>> chain = [Residue("A", str(i), heavy=at[None], beta=at) for i, at in enumerate(places)]
        >>> everywhere = Placement(torch.arange(8), torch.arange(8), name="a", identity=1.0)
        >>> contact_prediction(torch.rand(8, 8), chain, placement=everywhere, min_separation=1).precision(100)
        0.25
    """
    size = len(placement.residue)
    if tuple(scores.shape) != (size, size):
        raise UserError(f"scores have the shape {tuple(scores.shape)}, but the alignment has {size} sites")
    apart = distances(residues, between)[placement.residue][:, placement.residue]
    known = placement.placed.unsqueeze(0) & placement.placed.unsqueeze(1)
    apart = apart.masked_fill(~known, float("nan"))
    return ContactPrediction(
        scores.detach().cpu().double(),
        apart,
        positions=placement.position,
        threshold=threshold,
        min_separation=min_separation,
    )


@torch.no_grad()
def contact_scores(energy: Energy, gap: int | None = 0, *, around: Tensor | None = None) -> Tensor:
    """Strength of the coupling of each pair of sites, `(d, d)`, float64, with zeros on the diagonal.

    It is the Frobenius norm of the couplings in the zero-sum gauge, over all values but the gap. The average product
    correction F_i F_j / F is taken off (Dunn et al. 2008). F_i is the mean of the norms of site i with the d - 1
    others, F that of all pairs.

    Args:
        energy: a `Potts`; or any energy of sequences, whose `pair_couplings` are taken.
        gap: the value that does not count, counted from 0; None if all do.
        around: see `pair_couplings`.

    Example:
        >>> energy = Potts(num_coordinates=4, num_values=3)
        >>> with torch.no_grad():
        ...     _ = energy.coupling[2].fill_diagonal_(1.0)  # the pair (0, 3)
        >>> int(contact_scores(energy, gap=None).argmax())
        3
    """
    couplings = pair_couplings(energy, around)
    values = [a for a in range(couplings.shape[-1]) if a != gap]
    norms = couplings[:, :, values][..., values].square().sum((2, 3)).sqrt()
    return average_product_corrected(norms)


def average_product_corrected(scores: Tensor) -> Tensor:
    """Symmetric scores `(d, d)` minus the product of the means of their row and column over the mean of all.

    Entries on the diagonal do not count, and are 0 afterwards.
    """
    size = len(scores)
    if size < 2:
        return torch.zeros_like(scores)
    off = scores - scores.diagonal().diag()
    mean = off.sum(0) / (size - 1)
    overall = mean.mean()
    corrected = off - torch.outer(mean, mean) / overall if overall > 0 else off
    return corrected - corrected.diagonal().diag()


@torch.no_grad()
def pair_couplings(energy: Energy, around: Tensor | None = None) -> Tensor:
    """Couplings J_ij(a, b) in the zero-sum gauge, `(d, d, q, q)`, float64, with zeros for i = j.

    Those of a `Potts` are its own. Of any other energy they are the second differences of -E at given states, on
    average: how much the value b at j gains from the value a at i, all else as in the state. On a Potts model both are
    the same.

    Args:
        energy: on a `Categorical` domain.
        around: states `(B, d, q)`, such as some of the data. Only a `Potts` can do without. A state costs d q
            evaluations of `value_differences`.

    Raises:
        UserError: the energy is not one of sequences, or states are missing.

    Example:
        >>> energy = Potts(num_coordinates=3, num_values=2)
        >>> with torch.no_grad():
        ...     energy.coupling[0, 1, 1] = 4.0
        >>> pair_couplings(energy)[0, 1]
        tensor([[ 1., -1.],
                [-1.,  1.]], dtype=torch.float64)
    """
    if not isinstance(energy.domain, Categorical):
        name = type(energy).__name__
        raise UserError(f"couplings of sites need an energy of sequences, but {name} lives on {energy.domain}")
    if around is None:
        if not isinstance(energy, Potts):
            raise UserError(f"the couplings of {type(energy).__name__} depend on the state: give states `around`")
        return _zero_sum(energy.couplings().double().cpu())
    x = energy.as_states(around)
    sites, values = x.shape[1:]
    total = torch.zeros(sites, sites, values, values, dtype=torch.float64)
    one_hot = torch.eye(values, dtype=x.dtype, device=x.device)
    for state in x:
        for i in range(sites):
            mutants = state.repeat(values, 1, 1)
            mutants[:, i] = one_hot
            total[i] -= energy.value_differences(mutants).double().cpu().transpose(0, 1)
    couplings = _zero_sum(total / len(x))
    return (couplings + couplings.permute(1, 0, 3, 2)) / 2


def _zero_sum(couplings: Tensor) -> Tensor:
    """Couplings `(d, d, q, q)` in the zero-sum gauge; 0 for i = j."""
    centred = zero_sum(couplings)
    centred.diagonal().zero_()
    return centred
