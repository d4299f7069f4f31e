"""Pseudo-likelihood of one-hot states by gathered rows, which read an order of magnitude less than products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ebmlab.numerics.unrounded import no_autocast

COLUMNS = 64  # of the matrix at a time, so that they stay in the cache


def felt(num_sites: int, pairs: Tensor, *, here: Tensor, there: Tensor, sites: Tensor | None = None) -> Tensor:
    """The matrix of `log_conditionals`, if the smaller site i of a pair feels J_ij = `here`, and j feels `there`.

    Args:
        num_sites: d.
        pairs: (i, j) with i < j, `(P, 2)`.
        here: J_ij(a, b), `(P, q, q)`.
        there: likewise; the same tensor in a Potts model.
        sites: those whose columns are made, `(k,)`, each once; all when None.
    """
    (i, j), q = pairs.T, here.shape[-1]
    if sites is None:
        blocks = here.new_zeros(num_sites, num_sites, q, q)
        blocks = blocks.index_put((j, i), here.mT).index_put((i, j), there)
        return blocks.transpose(1, 2).reshape(num_sites * q, -1)
    place = pairs.new_full((num_sites,), -1).index_put((sites,), torch.arange(len(sites), device=sites.device))
    first, second = ((place[site] >= 0).nonzero().squeeze(1) for site in (i, j))
    blocks = here.new_zeros(num_sites, len(sites), q, q)
    blocks = blocks.index_put((j[first], place[i[first]]), here[first].mT)
    blocks = blocks.index_put((i[second], place[j[second]]), there[second])
    return blocks.transpose(1, 2).reshape(num_sites * q, -1)


def log_conditionals(matrix: Tensor, field: Tensor, x: Tensor, *, sites: Tensor | None = None) -> Tensor:
    """The sum over sites i of log p(x_i | all others), `(B,)`, if site i feels h_i(a) + sum_j J_ij(a, x_j).

    On a CPU the sum over j is that of the rows which the x_j choose. Its gradient in row (j, b) is likewise the sum of
    [x_i = a] - p_i(a) over the states with x_j = b. Both are exact. There are no derivatives in x, and no second ones.

    Args:
        matrix: J_ij(a, b) in row (j, b) and column (i, a), `(d q, k q)`, with zeros where i = j.
        field: h, `(k, q)`.
        x: one-hot states `(B, d, q)`.
        sites: the k sites i that are summed over, `(k,)`; all when None.
    """
    if x.device.type != "cpu":
        with no_autocast(x.device):
            local = (x.to(matrix).flatten(1) @ matrix).view(len(x), *field.shape) + field
        own = x if sites is None else x[:, sites]
        return ((local * own).sum(-1) - local.logsumexp(-1)).sum(1)
    found: Tensor = _LogConditionals.apply(matrix, field, x.argmax(-1), sites)
    return found


class _LogConditionals(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, field: Tensor, values: Tensor, sites: Tensor | None) -> Tensor:
        (k, q), d, total = field.shape, values.shape[1], field.new_zeros(len(values))
        places = values + torch.arange(d, device=values.device) * q
        predicted = values if sites is None else values[:, sites]
        residual = field.new_empty(len(values), k, q)
        for part in torch.split(torch.arange(k), max(1, COLUMNS // q)):
            own = slice(int(part[0]), int(part[-1]) + 1)
            rows = matrix[:, own.start * q : own.stop * q].contiguous()
            logits = embedding_bag(places, rows, mode="sum").view(len(values), *field[own].shape) + field[own]
            log_p = logits.log_softmax(-1)
            present = predicted[:, own].unsqueeze(-1)
            total += log_p.gather(-1, present).sum((1, 2))
            residual[:, own] = log_p.exp_().neg_().scatter_add_(-1, present, torch.ones_like(log_p[..., :1]))
        ctx.save_for_backward(places, residual)
        ctx.rows = len(matrix)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor, Tensor, None, None]:
        places, residual = ctx.saved_tensors
        states = places.T.argsort(1).flatten()  # by site, and by value within each
        counts = torch.bincount(places.flatten(), minlength=ctx.rows)
        weighted = (residual * factor.view(-1, 1, 1)).flatten(1)
        grad = torch.cat(
            [
                embedding_bag(states, part.contiguous(), counts.cumsum(0) - counts, mode="sum")
                for part in torch.split(weighted, COLUMNS, 1)
            ],
            1,
        )
        return grad, weighted.sum(0).view(residual.shape[1:]), None, None
