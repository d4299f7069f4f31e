"""The classifier two-sample test (Lopez-Paz and Oquab, 2017, Revisiting Classifier Two-Sample Tests)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ebmlab.evaluation.two_sets import two_sets
from ebmlab.settings import require_count

LEARNING_RATE = 1e-2


class ClassifierTest(NamedTuple):
    """What a classifier finds between two sets.

    Attributes:
        accuracy: share of held-out states that it gives to the right set; 1/2 if the laws agree.
        p_value: the chance that states of one law are told apart as well.

    Example:
        >>> ClassifierTest(accuracy=0.7, p_value=1e-4).accuracy
        0.7
    """

    accuracy: float
    p_value: float


def classifier_test(x: Tensor, y: Tensor, *, hidden: int = 20, num_steps: int = 300) -> ClassifierTest:
    """Trains a classifier on half of both sets, and tests it on the other half.

    The classifier is the paper's, one hidden layer of ReLUs, trained by Adam on all states at once. It does not see
    coordinates that all training states share. The larger set is cut to the size of the smaller, at random. Weights and
    halves are drawn from torch's global generator, on the CPU.

    The p-value is exact for independent states (Fisher's exact test). Given the classifier's answers, all orders of the
    held-out labels are equally likely if the laws agree. It is at most the level as often as the level says, or less
    often. A large p-value says that this classifier found nothing.

    Args:
        x: states, `(n, *event)`.
        y: states, `(m, *event)`.
        hidden: number of hidden units.
        num_steps: steps of the training.

    Raises:
        UserError: a set has fewer than 4 states, or the sets differ in shape or are not finite.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> classifier_test(torch.randn(200, 2), torch.randn(200, 2) + 5).p_value < 1e-6
        True
    """
    x, y = two_sets(x, y, owner="classifier_test", least=4)
    require_count("classifier_test", hidden=hidden, num_steps=num_steps)
    size = min(len(x), len(y))
    x, y = (s.cpu()[torch.randperm(len(s))[:size]] for s in (x, y))
    half = size // 2
    train, test = torch.cat([x[:half], y[:half]]), torch.cat([x[half:], y[half:]])
    mean, spread = train.mean(0), train.std(0)
    train, test = (((s - mean) / spread.where(spread > 0, torch.inf)).float() for s in (train, test))
    with torch.inference_mode(False), torch.enable_grad():
        right = torch.cat([torch.zeros(half), torch.ones(half)])
        answers = _answers(train.clone(), right, test.clone(), hidden, num_steps)
    rest = size - half
    found = int(answers[rest:].sum())
    accuracy = (found + rest - int(answers[:rest].sum())) / (2 * rest)
    return ClassifierTest(accuracy, fisher(found, int(answers.sum()), rest))


def fisher(found: int, answers: int, size: int) -> float:
    """The chance that at least `found` of `answers` draws without return are of one of two kinds of `size` each."""
    k = torch.arange(found, min(answers, size) + 1, dtype=torch.float64)
    log_chances = _log_choices(size, k) + _log_choices(size, answers - k)
    total = _log_choices(2 * size, torch.tensor(answers, dtype=torch.float64))
    return min(1.0, float((log_chances - total).logsumexp(0).exp()))


def _answers(train: Tensor, right: Tensor, test: Tensor, hidden: int, num_steps: int) -> Tensor:
    """Whether each test state is given to the second set, `(n,)`."""
    network = nn.Sequential(nn.Linear(train.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(network(train).squeeze(1), right)
        torch.autograd.backward(loss)
        optimizer.step()
    answers: Tensor = network(test).squeeze(1) > 0
    return answers.detach()


def _log_choices(n: int, k: Tensor) -> Tensor:
    """The log of n! / (k! (n - k)!), minus infinity where k is above n or below 0."""
    size = torch.tensor(float(n), dtype=torch.float64)
    inside = (k >= 0) & (k <= n)
    value = torch.lgamma(size + 1) - torch.lgamma(k.clamp(0, n) + 1) - torch.lgamma(size - k.clamp(0, n) + 1)
    return value.where(inside, -torch.inf)
