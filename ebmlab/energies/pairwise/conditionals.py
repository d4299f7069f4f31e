"""Pseudo-likelihood of one-hot states by gathered rows, which read an order of magnitude less than products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ebmlab.numerics.unrounded import no_autocast

COLUMNS = 64  # of the matrix at a time, so that they stay in the cache


def log_conditionals(matrix: Tensor, field: Tensor, x: Tensor) -> Tensor:
    """The sum over sites i of log p(x_i | all others), `(B,)`, if site i feels h_i(a) + sum_j J_ij(a, x_j).

    On a CPU the sum over j is that of the rows which the x_j choose. Its gradient in row (j, b) is likewise the sum of
    [x_i = a] - p_i(a) over the states with x_j = b. Both are exact. There are no derivatives in x, and no second ones.

    Args:
        matrix: J_ij(a, b) in row (j, b) and column (i, a), `(d q, d q)`, with zeros where i = j.
        field: h, `(d, q)`.
        x: one-hot states `(B, d, q)`.
    """
    if x.device.type != "cpu":
        with no_autocast(x.device):
            local = (x.to(matrix).flatten(1) @ matrix).view_as(x) + field
        return ((local * x).sum(-1) - local.logsumexp(-1)).sum(1)
    found: Tensor = _LogConditionals.apply(matrix, field, x.argmax(-1))
    return found


class _LogConditionals(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, field: Tensor, values: Tensor) -> Tensor:
        (d, q), total = field.shape, field.new_zeros(len(values))
        places = values + torch.arange(d, device=values.device) * q
        residual = field.new_empty(len(values), d, q)
        for sites in torch.split(torch.arange(d), max(1, COLUMNS // q)):
            own = slice(int(sites[0]), int(sites[-1]) + 1)
            rows = matrix[:, own.start * q : own.stop * q].contiguous()
            logits = embedding_bag(places, rows, mode="sum").view(len(values), -1, q) + field[own]
            log_p = logits.log_softmax(-1)
            present = values[:, own].unsqueeze(-1)
            total += log_p.gather(-1, present).sum((1, 2))
            residual[:, own] = log_p.exp_().neg_().scatter_add_(-1, present, torch.ones_like(log_p[..., :1]))
        ctx.save_for_backward(places, residual)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor, Tensor, None]:
        places, residual = ctx.saved_tensors
        n = residual[0].numel()
        states = places.T.argsort(1).flatten()  # by site, and by value within each
        counts = torch.bincount(places.flatten(), minlength=n)
        weighted = (residual * factor.view(-1, 1, 1)).flatten(1)
        grad = torch.cat(
            [
                embedding_bag(states, part.contiguous(), counts.cumsum(0) - counts, mode="sum")
                for part in torch.split(weighted, COLUMNS, 1)
            ],
            1,
        )
        return grad, weighted.sum(0).view(residual.shape[1:]), None
