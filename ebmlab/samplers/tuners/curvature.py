"""A quadratic model of f = -E, fitted to the chains' moves, and diagonals that make it positive semi-definite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.errors import UserError

TOLERANCE = 1e-7  # of the complementarity gap, relative to the cost of the start


class GradientDifferences:
    """Sums over pairs (y - x, grad f(y) - grad f(x)), which determine W; the pairs themselves are not kept.

    Args:
        size: number of coordinates d.
        device: where the sums live, in float64.
    """

    def __init__(self, size: int, device: torch.device | str | None = None) -> None:
        self.squares = torch.zeros(size, size, dtype=torch.float64, device=device)  # X'X
        self.products = torch.zeros_like(self.squares)  # X'Y

    def add(self, dx: Tensor, dgrad: Tensor) -> None:
        """Adds B pairs to the sums; both arguments `(B, *event)`."""
        dx, dgrad = dx.flatten(1).double(), dgrad.flatten(1).double()
        self.squares += dx.T @ dx
        self.products += dx.T @ dgrad

    def curvature(self, ridge: float = 1e-6) -> Tensor:
        """W minimising the sum of |W (y - x) - (grad f(y) - grad f(x))|^2 over symmetric matrices, float64 `(d, d)`.

        This is Eq. 10 of Sun et al. 2023. The minimum satisfies W A + A W = C with A = X'X and C = X'Y + Y'X. In the
        basis of A's eigenvectors this is solved by elementwise division; the paper uses gradient descent.

        Args:
            ridge: weight of |W|^2, in units of the mean eigenvalue of A. Entries of W that no pair determines become 0.

        Raises:
            UserError: a gradient was infinite or NaN.
        """
        if not self.products.isfinite().all():
            raise UserError("the curvature needs finite gradients, but one along the chains is infinite or NaN")
        values, Q = torch.linalg.eigh(self.squares)
        penalty = ridge * values.mean() + torch.finfo(values.dtype).tiny
        C = Q.T @ (self.products + self.products.T) @ Q
        W: Tensor = Q @ (C / (values.clamp(min=0).unsqueeze(1) + values.clamp(min=0) + 2 * penalty)) @ Q.T
        return (W + W.T) / 2


def diagonal_shift(W: Tensor) -> Tensor:
    """AB-shift: D = max(0, -lambda_min(W)) I, as a vector `(d,)` (Martens & Sutskever 2010)."""
    smallest: Tensor = torch.linalg.eigvalsh(W.double())[0]
    return (-smallest).clamp(min=0).expand(len(W)).to(W, copy=True)


def diagonal_trace(W: Tensor) -> Tensor:
    """AB-trace: min tr D such that D >= 0 and W + D >= 0, `(d,)` (Sun et al. 2023, Eq. 19)."""
    D = _feasible(W)
    eye = torch.eye(len(D), dtype=D.dtype, device=D.device)
    return _minimise(cost=torch.full_like(D, 1 / len(D)), slacks=[_Slack(1, W, eye)], z=D).to(W)


def diagonal_max(W: Tensor) -> Tensor:
    """AB-max: min lambda such that D >= 0 and lambda I >= W + D >= 0, `(d,)` (Sun et al. 2023, Eq. 27).

    Several D may have the same smallest lambda. An interior-point method returns one in the middle of them.
    """
    D = _feasible(W)
    largest = torch.linalg.eigvalsh(W.double() + D.diag())[-1:]
    z = torch.cat([D, 2 * largest])  # (D, lambda)
    eye = torch.eye(len(z), dtype=z.dtype, device=z.device)
    above = eye[-1].new_ones(len(D), 1) * eye[-1] - eye[:-1]  # lambda - D_i
    return _minimise(cost=eye[-1], slacks=[_Slack(1, W, eye[:-1]), _Slack(-1, W, above)], z=z)[:-1].to(W)


def _feasible(W: Tensor) -> Tensor:
    """A D for which W + D is positive definite with a margin, float64."""
    values: Tensor = torch.linalg.eigvalsh(W.double())
    scale = values.abs().max()
    return ((-values[0]).clamp(min=0) + 0.1 * scale.where(scale > 0, 1)).repeat(len(W))


@dataclass
class _Slack:
    """The matrix S(z) = sign * W + diag(weights @ z), which must stay positive definite."""

    sign: int
    W: Tensor
    weights: Tensor

    def at(self, z: Tensor) -> Tensor:
        return self.sign * self.W.double() + (self.weights @ z).diag()


def _minimise(cost: Tensor, slacks: Sequence[_Slack], z: Tensor) -> Tensor:
    """The z >= 0 of least cost' z at which all slacks are positive semi-definite.

    A primal-dual interior-point method (Helmberg, Rendl, Vanderbei & Wolkowicz 1996): each slack S has a
    multiplier X, and z has the multiplier x. Newton steps solve X S = mu, x z = mu and sum of weights' diag(X) + x =
    cost, while mu shrinks. Every iterate z is strictly feasible, and so is the result.

    Args:
        cost: `(n,)`.
        slacks: the constraints besides z >= 0.
        z: a strictly feasible start, `(n,)`.
    """
    scale = float(cost @ z)
    S = [slack.at(z) for slack in slacks]
    degree = len(z) + sum(len(s) for s in S)
    x = scale / degree / z
    X = [torch.eye(len(s), dtype=s.dtype, device=s.device) * scale / degree / s.diagonal().mean() for s in S]
    centring = 0.5
    for _ in range(100):
        gap = float(x @ z) + sum(float((a * s).sum()) for a, s in zip(X, S, strict=True))
        if gap < TOLERANCE * scale:
            break
        mu = centring * gap / degree
        inverses = [torch.cholesky_inverse(torch.linalg.cholesky(s)) for s in S]
        slope, bend = mu / z - cost, (x / z).diag()
        for slack, inverse, a in zip(slacks, inverses, X, strict=True):
            slope = slope + mu * slack.weights.T @ inverse.diagonal()
            bend = bend + slack.weights.T @ (inverse * a) @ slack.weights
        dz = torch.linalg.solve(bend, slope)
        dx = mu / z - x - x / z * dz
        dS = [slack.weights @ dz for slack in slacks]
        turns = [(inverse * ds) @ a for inverse, ds, a in zip(inverses, dS, X, strict=True)]
        dX = [mu * i - a - (turn + turn.T) / 2 for i, a, turn in zip(inverses, X, turns, strict=True)]
        length = min(_room(z, dz), *(_room(s, ds.diag()) for s, ds in zip(S, dS, strict=True)))
        dual = min(_room(x, dx), *(_room(a, da) for a, da in zip(X, dX, strict=True)))
        if max(length, dual) == 0:  # no further progress is possible in floating point
            break
        centring = 0.1 + 0.8 * (1 - min(length, dual)) ** 2  # after short steps, return to the central path first
        z, x = z + length * dz, x + dual * dx
        S = [slack.at(z) for slack in slacks]
        X = [a + dual * change for a, change in zip(X, dX, strict=True)]
    return z


def _room(point: Tensor, change: Tensor) -> float:
    """A step length of at most 1 that keeps a vector positive, or a matrix positive definite, with a margin."""
    length = 1.0
    while not _is_positive(point + length * change):
        length *= 0.8
        if length < 1e-6:
            return 0.0
    return length if length == 1.0 else 0.9 * length


def _is_positive(point: Tensor) -> bool:
    return bool((point > 0).all()) if point.dim() == 1 else not torch.linalg.cholesky_ex(point).info
