"""Closed-form estimates of pairwise models (Kappen & Rodriguez, 1998; Roudi et al., 2009; Morcos et al., 2011)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.energies import Energy, Ising, Potts
from ebmlab.energies.pairwise.statistics import moments
from ebmlab.errors import UserError
from ebmlab.numerics.means import mean_of
from ebmlab.settings import require_inside, require_weights


@torch.no_grad()
def independent_(energy: Energy, x: Tensor, weights: Tensor | None = None, pseudo_count: float = 0.5) -> None:
    """Sets a `Potts` or `Ising` energy to independent sites with the data's frequencies.

    There are no couplings, and h_i(a) = log f_i(a), or h_i = atanh m_i for spins.

    Args: as in `mean_field_`.
    """
    require_inside("independent_", "(0, 1)", pseudo_count=pseudo_count)
    require_weights("independent_", weights, len(x))
    mean = (1 - pseudo_count) * mean_of(x, weights, dtype=torch.float64)
    if isinstance(energy, Potts):
        energy.coupling.zero_()
        energy.field.copy_((mean + pseudo_count / energy.field.shape[1]).log())
    else:
        none = mean.new_zeros(len(mean), len(mean))
        _fill(_spins("independent_", energy), none, mean, torch.zeros_like(mean))


@torch.no_grad()
def mean_field_(energy: Energy, x: Tensor, weights: Tensor | None = None, pseudo_count: float = 0.5) -> None:
    """Sets a `Potts` or `Ising` energy to the naive mean-field estimate from data.

    J is minus the inverse of the covariance matrix, without its diagonal blocks (Morcos et al. 2011, Eq. 3 and S11).
    For Potts the last value is left out: its couplings and fields are 0. Fields follow from the mean-field equations,
    log f_i(a) / f_i(q) = h_i(a) + sum_j sum_b J_ij(a, b) f_j(b); for spins they are atanh m_i = h_i + sum_j J_ij m_j. A
    Potts model of some pairs gets their couplings alone.

    Args:
        energy: is changed in place.
        x: data `(N, *event)`.
        weights: of the data, `(N,)`; all alike when None.
        pseudo_count: the share of the uniform law that is mixed into the data's; above 0 and below 1.

    Raises:
        UserError: the energy is no Potts or learnable Ising model, weights are not one for each sample, or the
            covariance has no inverse.
    """
    if isinstance(energy, Potts):
        _potts(energy, x, weights, pseudo_count)
    else:
        spins, mean, inverse = _moments_of_spins("mean_field_", energy, x, weights, pseudo_count)
        _fill(spins, -inverse, mean, torch.zeros_like(mean))


@torch.no_grad()
def tap_(energy: Energy, x: Tensor, weights: Tensor | None = None, pseudo_count: float = 0.1) -> None:
    """Sets an `Ising` energy to the estimate of Thouless, Anderson and Palmer.

    It is for two values alone: with more, the second-order equations of a pair join all its couplings, and have no
    closed form.

    With C the covariance matrix, J_ij solves (C^-1)_ij = -J_ij - 2 J_ij^2 m_i m_j. Of both roots it is the one that
    becomes the mean-field coupling where m is 0. Where there is no real root, it is the mean-field coupling. Fields are
    h_i = atanh m_i - sum_j J_ij m_j + m_i sum_j J_ij^2 (1 - m_j^2) (Roudi, Tyrcha & Hertz 2009, Eq. 8 to 10).

    Args: as in `mean_field_`.
    """
    spins, mean, inverse = _moments_of_spins("tap_", energy, x, weights, pseudo_count)
    product = torch.outer(mean, mean)
    root = (1 - 8 * product * inverse).sqrt()  # NaN where there is none
    coupling = torch.where(root.isnan(), -inverse, -2 * inverse / (1 + root))
    coupling.fill_diagonal_(0)
    _fill(spins, coupling, mean, mean * (coupling.square() @ (1 - mean.square())))


def _potts(energy: Potts, x: Tensor, weights: Tensor | None, pseudo_count: float) -> None:
    (d, q), (i, j) = energy.field.shape, energy.pairs.T
    require_inside("mean_field_", "(0, 1)", pseudo_count=pseudo_count)
    require_weights("mean_field_", weights, len(x))
    one, two = moments(x, weights, pseudo_count, dtype=torch.float64)
    kept = torch.arange(d * q, device=one.device).view(d, q)[:, :-1].flatten()
    covariance = (two - torch.outer(one, one))[kept][:, kept]
    coupling = one.new_zeros(d, d, q, q)
    if q > 1:
        coupling[:, :, :-1, :-1] = -_inverse(covariance).view(d, q - 1, d, q - 1).transpose(1, 2)
    energy.coupling.copy_(coupling[i, j])
    frequency = one.view(d, q)
    pull = torch.zeros_like(frequency)
    pull.index_add_(0, i, (coupling[i, j] @ frequency[j].unsqueeze(2)).squeeze(2))
    pull.index_add_(0, j, (coupling[i, j].mT @ frequency[i].unsqueeze(2)).squeeze(2))
    energy.field.copy_((frequency / frequency[:, -1:]).log() - pull)


def _spins(name: str, energy: Energy) -> Ising:
    if not isinstance(energy, Ising) or not energy.learn:
        others = "an" if name == "tap_" else "a Potts or"
        raise UserError(
            f"{name} needs {others} Ising energy that learns (Ising.learnable), got {type(energy).__name__}"
        )
    return energy


def _moments_of_spins(
    name: str, energy: Energy, x: Tensor, weights: Tensor | None, pseudo_count: float
) -> tuple[Ising, Tensor, Tensor]:
    """The energy, the data's means `(d,)`, and the inverse of their covariance `(d, d)`."""
    energy = _spins(name, energy)
    require_inside(name, "(0, 1)", pseudo_count=pseudo_count)
    require_weights(name, weights, len(x))
    mean, two = moments(x, weights, pseudo_count, dtype=torch.float64)
    return energy, mean, _inverse(two - torch.outer(mean, mean))


def _fill(energy: Ising, coupling: Tensor, mean: Tensor, reaction: Tensor) -> None:
    coupling = coupling - coupling.diag().diag()
    energy.upper.copy_(coupling.triu(1))
    energy.field.copy_(mean.atanh() - coupling @ mean + reaction)


def _inverse(covariance: Tensor) -> Tensor:
    factor, failed = torch.linalg.cholesky_ex(covariance)
    if failed:
        raise UserError("the covariance of the data has no inverse: raise pseudo_count")
    return torch.cholesky_inverse(factor)
