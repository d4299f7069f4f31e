"""Energies under which the chains of a batch have laws of their own: temperatures, noise levels, other parts of x.

Such an energy holds one value for each chain. A batch of n B states holds n states of the first of B chains, then n of
the second, and so on. What is built of such an energy, a sum or a conditional law, has as many laws.
"""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import Tensor, nn

from ebmlab.errors import UserError

Module = TypeVar("Module", bound=nn.Module)


def num_laws(energy: nn.Module) -> int:
    """How many laws the states of a batch follow, by their order; 1 if all follow one.

    Example:
        >>> from ebmlab.energies import RBM, tempered
        >>> num_laws(RBM(3, 2)), num_laws(tempered(RBM(3, 2), torch.tensor([1.0, 0.5])))
        (1, 2)
    """
    return max(1 if (own := values_of(module)) is None else len(own) for module in energy.modules())


def values_of(module: nn.Module) -> Tensor | None:
    """What a module itself holds for each chain; None if it holds nothing of the kind, or one value for all."""
    name: str | None = getattr(module, "per_chain", None)
    value = None if name is None else getattr(module, name)
    return value if isinstance(value, Tensor) and value.dim() > 0 else None


def of_states(values: Tensor, states: int) -> Tensor:
    """Repeats the values of chains for a batch in which each chain has the same number of successive states.

    Raises:
        UserError: there are not as many states of each chain.

    Example:
        >>> of_states(torch.tensor([1.0, 0.5]), 4).tolist()
        [1.0, 1.0, 0.5, 0.5]
    """
    times, rest = divmod(states, max(1, len(values)))
    if rest:
        raise UserError(f"{states} states do not belong to {len(values)} chains with laws of their own")
    if len(values) == 1:
        return values.expand(states, *values.shape[1:])
    return values if times == 1 else values.repeat_interleave(times, 0)


def of_chains(energy: Module, index: Tensor, num_chains: int) -> Module:
    """The energy of some of a batch's chains.

    Args:
        energy: of all of them.
        index: their numbers `(n,)`.
        num_chains: how many there are in all.

    Example:
        >>> from ebmlab.energies import RBM, tempered
        >>> two = tempered(RBM(3, 2), torch.tensor([1.0, 0.5]))
        >>> of_chains(two, torch.tensor([0, 3, 2]), 4).beta.tolist()
        [1.0, 0.5, 0.5]
    """
    if num_laws(energy) == 1:
        return energy
    chosen = copy.copy(energy)
    chosen._buffers = dict(energy._buffers)
    chosen._modules = {
        name: module if module is None else of_chains(module, index, num_chains)
        for name, module in energy._modules.items()
    }
    if (values := values_of(energy)) is not None:
        setattr(chosen, str(energy.per_chain), of_states(values, num_chains)[index])
    return chosen


def require_one_for_all(energy: nn.Module, what: str) -> None:
    """Raises `UserError` if states of a batch follow laws of their own.

    Args:
        energy: of one law or several.
        what: asks for it.
    """
    if (several := num_laws(energy)) > 1:
        raise UserError(f"{what} needs one law, but {type(energy).__name__} has {several}: take them one by one")
