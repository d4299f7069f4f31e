"""A law of bits that depends on a few directions of the data, as the start of an RBM.

After Bereux et al. (2025, "Fast training and sampling of restricted Boltzmann machines"): where data have few strong
modes, the gradient crosses phase transitions that chains do not follow. With weights W = U A on d directions U the
likelihood is an integral over d numbers, which is climbed directly. They fit a convex relaxation of it, the restricted
Coulomb machine; here the RBM itself is fitted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.numerics.noise import bits, categorical
from ebmlab.settings import require_count

CELLS = {1: 500, 2: 50, 3: 20}  # of the grid along each direction, by their number
NEWTON, CLIMB, RATE = 40, 2000, 0.03  # steps to the tilts; steps of Adam, and their length
LARGEST = 2**22  # numbers of a batch of grid points


def require_rank(owner: str, rank: int) -> None:
    """Raises `UserError` unless there is a grid in so many dimensions."""
    if rank not in CELLS:
        raise UserError(f"{owner}: rank is {rank}, but must be 1, 2 or 3")


class LowRank:
    """log p(v) = b'v + c'm + sum_j softplus(a_j'm + b_j) - log Z of bits v, with m = U'v and b the data's logits.

    U are the leading principal directions of the data. The law of m under the base Bernoulli(b) is a saddle-point
    approximation (Daniels, 1954) on a grid that reaches an eighth beyond the data. All numbers are float64.

    Args:
        x: data `(N, V)` of bits.
        weights: of the data, `(N,)`; all alike when None.
        rank: d, from 1 to 3.
        num_hidden: units j.
        seed: of the first hyperplanes, each through a datum.

    Attributes:
        axes: U, `(V, d)`.
        data: the mass of the data at the points of the grid, `(G,)`; each datum is shared among those about it.

    Raises:
        UserError: the rank is none of these, or the data vary in fewer directions.
    """

    def __init__(self, x: Tensor, weights: Tensor | None, *, rank: int, num_hidden: int, seed: int = 0) -> None:
        require_count("LowRank", num_hidden=num_hidden)
        require_rank("LowRank", rank)
        x = x.flatten(1).double().cpu()
        share = (torch.ones(len(x)) if weights is None else weights.cpu()).double()
        share /= share.sum()
        mean = share @ x
        self.field = mean.clamp(0.5 / len(x), 1 - 0.5 / len(x)).logit()
        centred = x - mean
        spread, axes = torch.linalg.eigh(centred.T @ (share.unsqueeze(1) * centred))
        if rank > len(spread) or spread[-rank] < 1e-6:
            raise UserError(f"LowRank: rank is {rank}, but the data vary in fewer directions: take a smaller one")
        self.axes = axes[:, -rank:].flip(1)
        m = x @ self.axes
        margin = (m.amax(0) - m.amin(0)) / 8
        first, cells = m.amin(0) - margin, CELLS[rank]
        width = (m.amax(0) + margin - first) / (cells - 1)
        self.grid = first + width * torch.cartesian_prod(*[torch.arange(cells).double()] * rank).view(-1, rank)
        self.data = _shared_out((m - first) / width, share, cells)
        found = [self._saddle(part) for part in torch.split(self.grid, max(1, LARGEST // x.shape[1]))]
        self.tilt = torch.cat([tilt for tilt, _ in found])
        self.log_mass = torch.cat([density for _, density in found])  # of the base in each cell
        self.log_mass += width.log().sum()
        generator = torch.Generator().manual_seed(seed)
        a = torch.randn(num_hidden, rank, generator=generator).double() / spread[-rank:].flip(0).sqrt()
        through = m[torch.randint(len(m), (num_hidden,), generator=generator)]
        self.a, self.b, self.c = a, -(a * through).sum(1), torch.zeros(rank).double()

    def _saddle(self, m: Tensor) -> tuple[Tensor, Tensor]:
        """The tilt t `(G, d)` under which the base has mean m, and the base's log-density at m, `(G,)`.

        With K(t) the log of the mean of exp(t'm), log p(m) = K(t) - t'm - log det(2 pi K''(t)) / 2, where K'(t) = m.
        There is no such t for an m beyond all states; its density is 0.
        """
        t = torch.zeros_like(m)
        for _ in range(NEWTON):
            p = (self.field + t @ self.axes.T).sigmoid()
            step = torch.linalg.solve(self._curvature(p), m - p @ self.axes)
            t = t + step / (step @ self.axes.T).abs().amax(1, keepdim=True).clamp(min=1)
        logits = self.field + t @ self.axes.T
        p = logits.sigmoid()
        rise = (softplus(logits) - softplus(self.field)).sum(1)
        log_density = rise - (t * m).sum(1) - torch.logdet(2 * torch.pi * self._curvature(p)) / 2
        reached = (m - p @ self.axes).abs().amax(1) < 1e-6
        return t, log_density.masked_fill(~reached, -torch.inf)

    def _curvature(self, p: Tensor) -> Tensor:
        """K'' `(G, d, d)` at the means p `(G, V)`."""
        bend = torch.einsum("gv,va,vb->gab", p * (1 - p), self.axes, self.axes)
        return bend + 1e-12 * torch.eye(self.axes.shape[1]).double()

    def _gain(self) -> Tensor:
        """The logarithm of the law over the base's in each cell, up to a constant, `(G,)`."""
        gain: Tensor = softplus(self.grid @ self.a.T + self.b).sum(1) + self.grid @ self.c
        return gain

    def log_cells(self) -> Tensor:
        """The logarithm of the mass of each cell, up to log Z, `(G,)`."""
        return self.log_mass + self._gain()

    def log_z(self) -> Tensor:
        """Log Z of the RBM of this law, a scalar."""
        return self.log_cells().logsumexp(0) + softplus(self.field).sum()

    def fit(self, report: Callable[[int], None] | None = None) -> None:
        """Climbs the log-likelihood of the data by Adam, and reports how many of its `CLIMB` steps are done."""
        parameters = [self.a, self.b, self.c]
        adam = torch.optim.Adam([p.requires_grad_() for p in parameters], lr=RATE)
        with torch.enable_grad():
            for k in range(CLIMB):
                adam.zero_grad()
                gain = self._gain()
                loss = (self.log_mass + gain).logsumexp(0) - self.data @ gain
                loss.backward()  # type: ignore[no-untyped-call]
                adam.step()
                if report is not None:
                    report(k + 1)
        for p in parameters:
            p.requires_grad_(False)

    def write_(self, rbm: RBM) -> None:
        """Gives an RBM of bits this law."""
        rbm.W.data.copy_(self.axes @ self.a.T)
        rbm.b_v.data.copy_(self.field + self.axes @ self.c)
        rbm.b_h.data.copy_(self.b)

    def sample(self, n: int) -> Tensor:
        """Draws states `(n, V)`, float32: a cell by its mass, then bits under its tilt.

        Their m spreads a little more than the law's, which a few steps of block Gibbs mend.
        """
        cells = categorical(self.log_cells().log_softmax(0), n)
        return bits((self.field + self.tilt[cells] @ self.axes.T).sigmoid().float())


def _shared_out(place: Tensor, share: Tensor, cells: int) -> Tensor:
    """Masses `(N,)` at places `(N, d)`, in units of the grid, moved to its points: linear in each direction, `(G,)`."""
    low = place.floor()
    masses = torch.zeros(cells ** place.shape[1], dtype=share.dtype)
    for corner in itertools.product((0, 1), repeat=place.shape[1]):
        above = torch.tensor(corner)
        near = torch.where(above == 1, place - low, 1 - place + low).prod(1)
        steps = cells ** torch.arange(place.shape[1] - 1, -1, -1)
        masses.index_add_(0, ((low.long() + above) * steps).sum(1), share * near)
    return masses
