from __future__ import annotations

import pytest
import torch

from ebmlab.domains import Binary, Categorical, Finite, Ordinal
from ebmlab.errors import UserError
from ebmlab.evaluation import hamming_mmd
from ebmlab.evaluation.metrics import HammingMMD


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("kernel", ["exponential", "linear"])
@pytest.mark.parametrize("space", [Binary(6), Ordinal((2, 2), 4), Categorical(3, 4)], ids=repr)
def test_metric_in_parts_and_on_ranks_is_the_function_of_all(space: Finite, kernel: str, unbiased: bool) -> None:
    torch.manual_seed(0)
    x, y = space.random(13), space.random(9)
    y[:4] = y[:1]
    domain = space if isinstance(space, Categorical) else None
    expected = hamming_mmd(x, y, kernel=kernel, unbiased=unbiased, domain=domain)
    metric = HammingMMD(kernel, unbiased, domain=domain)
    for part in x.split(5):
        metric.update(part, real=False)
    for part in (*y.split(4), y[:0]):
        metric.update(part, real=True)
    torch.testing.assert_close(metric.compute(), expected, rtol=1e-12, atol=1e-14)
    gathered = HammingMMD(kernel, unbiased, domain=domain)
    gathered.update(x[:0], real=True)
    assert {f.__name__ for f in gathered._reductions.values()} == {"dim_zero_cat"}
    gathered.generated, gathered.real = torch.cat([x[::2], x[1::2]]), torch.cat([y[:0], y])
    torch.testing.assert_close(gathered.compute(), expected, rtol=1e-12, atol=1e-14)


def test_one_clear_line() -> None:
    with pytest.raises(UserError, match='must be "exponential" or "linear"'):
        HammingMMD("rbf")
    metric = HammingMMD()
    metric.update(torch.zeros(3, 4), real=True)
    with pytest.raises(UserError, match="none of one kind"):
        metric.compute()
    metric.update(torch.zeros(3, 5), real=False)
    with pytest.raises(UserError, match="same number of coordinates"):
        metric.compute()
