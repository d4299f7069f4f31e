"""Single-cluster sampling of Ising and Potts models (Wolff, 1989)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ebmlab.energies import Ising, ScalarPotts
from ebmlab.energies.evaluation import Merge
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.swendsen_wang import SwendsenWang


class Wolff(SwendsenWang):
    """Turns over the cluster of one random site (Wolff, 1989).

    The paper is "Collective Monte Carlo updating for spin systems".

    The clusters are those of `SwendsenWang`. The one that holds the random site is to take another value; of several
    other classes each is equally likely. This is accepted with probability min(1, exp(d)), where d is by how much the
    field's part of the energy falls. Without a field it always is. A site lies in a large cluster more often than in a
    small one. Near the critical temperature more of the lattice therefore turns over than if each cluster tossed a
    coin. By torch all bonds of a lattice are drawn, so a step takes as long as one of `SwendsenWang`. Where a C++
    compiler is at hand, the cluster alone is grown.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import Wolff
        >>> cold = Ising.lattice(4, coupling=0.7)
        >>> x, info = Wolff().sample(cold, torch.ones(100, 16), num_steps=1)
        >>> bool(x.mean() < -0.8)  # most clusters are the whole lattice
        True
    """

    _single = True

    def _redrawn(self, model: Ising | ScalarPotts, x: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """The next states, given the clusters, and the acceptance of each chain's change."""
        label = label.view(x.shape[:2])
        site = torch.randint(x.shape[1], (len(x), 1), device=x.device)
        inside = label == label.gather(1, site)
        if isinstance(model, Ising):
            y = torch.where(inside, -x, x)
        else:
            k = x.shape[2]
            value = x.argmax(2).gather(1, site)
            other = (value + 1 + torch.randint(max(k - 1, 1), value.shape, device=x.device)) % k
            y = torch.where(inside.unsqueeze(2), one_hot(other, k).to(x), x)
        accepted, probability = metropolis((model.field.to(x.dtype) * (y - x)).flatten(1).sum(1))
        return Merge(accepted)(y, x), probability
