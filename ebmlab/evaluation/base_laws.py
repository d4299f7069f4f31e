"""Laws close to a model, at which its annealed chains begin."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Domain, Real
from ebmlab.energies import Base, Bernoulli, ByParts, Energy, Frequencies, Gaussian, reference
from ebmlab.errors import UserError
from ebmlab.numerics.means import mean_of
from ebmlab.product import Product
from ebmlab.settings import require_weights

LARGEST = 2000  # numbers in a state, up to which their covariance is estimated


def has_data_law(domain: Domain) -> bool:
    """Whether `data_law` looks at the data, which may take long to load."""
    if isinstance(domain, Product):
        return any(map(has_data_law, domain.parts.values()))
    return isinstance(domain, Binary | Categorical) or (isinstance(domain, Real) and domain.size <= LARGEST)


def data_law(domain: Domain, x: Tensor, *, weights: Tensor | None = None) -> Base:
    """The law that is closest to data among those with a known Z, for a model that was fit to them.

    Args:
        domain: of the model.
        x: data `(n, *event)`.
        weights: of the data, `(n,)`; all alike when None.

    Returns:
        Independent bits with the data's means, or independent categories with their frequencies. A Real domain of at
        most 2000 numbers gets the Gaussian with the data's mean and shrunk covariance (`Gaussian.fit`). A Product gets
        one of these for each part, any other domain its reference law.

    Raises:
        UserError: weights are not one for each sample, below 0 or all 0.

    Example:
        >>> data_law(Binary(2), torch.tensor([[0.0, 1.0], [1.0, 1.0]])).logits.sigmoid()
        tensor([0.5000, 0.9900])
    """
    if not has_data_law(domain):
        return reference(domain)
    require_weights("data_law", weights, len(x))
    if isinstance(domain, Product):
        parts = domain.split(x)
        return ByParts({name: data_law(domain.parts[name], part, weights=weights) for name, part in parts.items()})
    if isinstance(domain, Categorical):
        return Frequencies(mean_of(x, weights))
    return Bernoulli(mean_of(x, weights)) if isinstance(domain, Binary) else Gaussian.fit(x, weights=weights)


@torch.no_grad()
def mean_field(energy: Energy, num_iterations: int = 100) -> Bernoulli:
    """Independent bits that solve the mean-field equations m_i = sigmoid(-dE/dx_i at m), from m = 1/2.

    They stay close to one mode of the energy. With data, annealing from `data_law` has the smaller error, but without
    any, mean-field bits are closer to the model than uniform ones.

    Args:
        energy: of bits, defined between 0 and 1 too.
        num_iterations: of m <- (m + sigmoid(-dE/dx)) / 2.

    Raises:
        UserError: the energy's states are not bits.

    Example:
        >>> from ebmlab.energies import RBM
        >>> mean_field(RBM(4, 3)).log_z < 4
        True
    """
    if not isinstance(energy.domain, Binary):
        raise UserError(f"mean_field gives means of bits, but {type(energy).__name__} lives on {energy.domain}")
    m = torch.full((1, *energy.domain.event_shape), 0.5, dtype=energy.dtype, device=energy.device)
    for _ in range(num_iterations):
        m = (m + torch.sigmoid(-energy.value_and_grad(m)[1])) / 2
    return Bernoulli(m[0])
