"""Whether a learner can learn from data: their domain, and weights of their samples."""

from __future__ import annotations

import inspect

from torch import Tensor

from ebmlab.data.interface import Data
from ebmlab.domains import Binary, Domain, Real
from ebmlab.errors import UserError
from ebmlab.numerics.noise import by_weight, uniform_numbers
from ebmlab.product import Product
from ebmlab.settings import require_one_each


def check_domain(data: Data, domain: Domain, energy: str) -> None:
    """Raises `UserError` unless the data belong to the domain of an energy of this name."""
    domains = data.domains
    if not domains or not isinstance(domains, tuple):
        raise UserError(
            f"{data.title}: domains is {domains}, but must be a tuple of the domains that its states may belong "
            "to, such as (Real,) or (Binary, Real)"
        )
    if not isinstance(domain, domains):
        mend = "choose another energy or data set"
        options = inspect.signature(type(data)).parameters
        if "domain" in options:
            name = "mixed" if isinstance(domain, Product) else type(domain).__name__.lower()
            mend = f"set the data's domain to {name}, or {mend}"
        elif "binarize" in options and isinstance(domain, Binary | Real):
            mend = f"set the data's binarize to {str(isinstance(domain, Binary)).lower()}, or {mend}"
        raise UserError(f"{data.title} gives {domains[0].__name__} data, but {energy} lives on {domain}: {mend}")


def refuse_weights(data: Data, learner: str) -> None:
    """Raises `UserError` if the data are weighted, which a learner of this name would not heed."""
    if data.weighted:
        raise UserError(
            f"{data.title} gives weights, which {learner} would not heed: use ContrastiveDivergence or PseudoLikelihood"
        )


def by_their_weights(x: Tensor, weights: Tensor | None) -> Tensor:
    """As many states as in a batch `(B, *event)`, drawn from it by weights `(B,)`; the batch itself when None."""
    if weights is None:
        return x
    return x[by_weight(weights, len(x), start=uniform_numbers(device=x.device))]


def weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of values `(B,)` times weights `(B,)`; of the values alone when None."""
    require_one_each("loss", weights, len(values))
    return values.mean() if weights is None else (weights.to(values) * values).mean()


def weight_of_chains(weights: Tensor | None, n: int, states: int = 1) -> float | Tensor:
    """The weight of each state of n negative chains. All of them together weigh as much as a batch of data.

    A batch of heavy samples counts more than another, and so do the chains that start at it.

    Args:
        weights: of the batch, `(B,)`; 1 each when None.
        n: number of chains.
        states: how many of each chain count.

    Returns:
        A number, or one for each chain, `(n,)`.
    """
    return 1 / (states * n) if weights is None else (weights.mean() / (states * n)).expand(n)
