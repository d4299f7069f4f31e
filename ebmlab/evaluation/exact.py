"""Exact sums over all states, for small energies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Real
from ebmlab.energies import Bipartite, Energy
from ebmlab.energies.laws import require_one_for_all
from ebmlab.energies.layers import require_one_law
from ebmlab.errors import UserError
from ebmlab.native import sum_softplus, uniform

MAX_TERMS = 2**26  # of a sum


@torch.no_grad()
def exact_log_z(energy: Energy, batch_size: int = 2**14) -> Tensor:
    """Log of the sum over all x of exp(-E(x)); a scalar, float64.

    The terms are the states of a finite domain. For a bipartite energy with real visible units, or with fewer hidden
    configurations, they are the 2^H hidden ones. Then x is summed or integrated out in closed form. At most 2^26 terms
    are allowed. Energies are computed in the precision of the energy's parameters.

    Args:
        energy: on a finite domain, or bipartite.
        batch_size: largest number of states in one evaluation of the energy, which bounds the memory.

    Raises:
        UserError: the sum has too many terms, or the domain is not finite.

    Example:
        >>> from ebmlab.energies import Ising
        >>> energy = Ising([[0.0]], field=1.0)  # Z = e + 1/e
        >>> round(exact_log_z(energy).exp().item(), 5)
        3.08616
    """
    return torch.stack([log_weights.logsumexp(0) for log_weights, _ in _terms(energy, batch_size)]).logsumexp(0)


@torch.no_grad()
def exact_mean(energy: Energy, batch_size: int = 2**14) -> Tensor:
    """The mean of x under exp(-E(x)) / Z, `event_shape`, float64. Arguments and errors as in `exact_log_z`.

    Example:
        >>> from ebmlab.energies import Ising
        >>> round(exact_mean(Ising([[0.0]], field=1.0)).item(), 5)  # tanh(1)
        0.76159
    """
    log_totals, means = [], []
    for log_weights, x in _terms(energy, batch_size):
        log_total = log_weights.logsumexp(0)
        finite = log_total.clamp(min=torch.finfo(torch.float64).min)  # a batch of forbidden states has no weight
        log_totals.append(log_total)
        if isinstance(energy, Bipartite) and _hidden_are_fewer(energy):
            x = energy.mean_visible(x)
        means.append((log_weights - finite).exp() @ x.flatten(1).double())
    return (torch.stack(log_totals).softmax(0) @ torch.stack(means)).view(energy.domain.event_shape)


@torch.no_grad()
def exact_samples(energy: Energy, n: int, *, batch_size: int = 2**14) -> Tensor:
    """Independent draws `(n, *event)` from exp(-E(x)) / Z. Other arguments and errors as in `exact_log_z`.

    There are none, which is an error too, if an energy is NaN or -infinity, or if all are infinite.

    Example:
        >>> from ebmlab.energies import Ising
        >>> exact_samples(Ising.lattice(2, coupling=0.3), n=5).shape
        torch.Size([5, 4])
    """
    log_weights = torch.cat([part for part, _ in _terms(energy, batch_size)])
    if not math.isfinite(log_weights.max()):  # NaN is the largest of all
        raise UserError(f"exact_samples: {type(energy).__name__} has no law: an energy is NaN or -inf, or all are inf")
    up_to = (log_weights - log_weights.max()).exp().cumsum(0)
    wanted = torch.searchsorted(up_to, uniform(up_to.new_empty(n)) * up_to[-1], right=True)
    wanted = wanted.clamp(max=len(up_to) - 1)
    found, passed = [], 0
    for part, states in _terms(energy, batch_size):
        found.append(states[wanted[(wanted >= passed) & (wanted < passed + len(part))] - passed])
        passed += len(part)
    x = torch.cat(found)[torch.randperm(n, device=up_to.device)]
    return energy.sample_visible(x) if isinstance(energy, Bipartite) and _hidden_are_fewer(energy) else x


def _terms(energy: Energy, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Terms of the sum in batches: their logarithms, float64 `(B,)`, and the states x or h that they belong to."""
    require_one_law(energy)
    require_one_for_all(energy, "an exact sum")
    like = torch.empty(0, dtype=energy.dtype, device=energy.device)
    if _hidden_are_fewer(energy):
        assert isinstance(energy, Bipartite)
        for h in all_states(Binary(energy.num_hidden), batch_size, energy):
            h = h.to(like)
            yield _log_sum_visible(energy, h).double(), h
    elif isinstance(energy.domain, Finite):
        for x in all_states(energy.domain, batch_size, energy):
            x = x.to(like)
            yield -energy(x).double(), x
    else:
        raise UserError(
            f"exact sums need a finite domain or hidden units that are bits, and {type(energy).__name__} lives on "
            f"{energy.domain}: take AIS"
        )


def _hidden_are_fewer(energy: Energy) -> bool:
    domain = energy.domain
    if not isinstance(energy, Bipartite) or not energy.has_bits or not isinstance(domain, Binary | Categorical | Real):
        return False
    return isinstance(domain, Real) or energy.num_hidden * math.log(2) < domain.size * math.log(domain.num_values)


def all_states(domain: Finite, batch_size: int, energy: Energy) -> Iterator[Tensor]:
    """Batches of all states in the order of `domain.enumerate()`; within a batch only the last coordinates change.

    Raises:
        UserError: they are too many; the message names the energy.
    """
    size, base = domain.size, domain.num_values
    if base**size > MAX_TERMS:
        raise UserError(
            f"the exact sum over {type(energy).__name__} has {base}^{size} terms, too many (at most {MAX_TERMS})"
        )
    inner = max(k for k in range(size + 1) if base**k <= max(1, batch_size))
    tail = torch.arange(base**inner).unsqueeze(1) // base ** torch.arange(inner - 1, -1, -1) % base
    for head in itertools.product(range(base), repeat=size - inner):
        index = torch.cat([torch.tensor(head, dtype=torch.long).expand(len(tail), -1), tail], 1)
        yield domain.from_index(index.view(-1, *domain.shape))


def _log_sum_visible(energy: Bipartite, h: Tensor) -> Tensor:
    """Log of the sum over v of exp(-E(v, h)), `(B,)`: it is -E(v, h) - log p(v | h), for any v."""
    law = energy.visible_given_hidden(h)
    if isinstance(law, Tensor):  # logits: use v = 0, to which E(v, h) is continued where it is no state
        free = (
            law.logsumexp(-1) if isinstance(energy.domain, Categorical) else sum_softplus(law.flatten(1)).unsqueeze(1)
        )
        return free.flatten(1).sum(1) - energy.joint_energy(torch.zeros_like(law), h)
    mean, variance = law  # of a Gaussian: use v = mean
    log_density = -(2 * math.pi * variance).log().expand_as(mean).flatten(1).sum(1) / 2
    return -energy.joint_energy(mean, h) - log_density
