"""Random numbers that decide: uniform ones in float32 at least, and fast draws of bits and of categorical variables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ebmlab.numerics.operators import operator
from ebmlab.numerics.splitmix import in_vectors, splitmix

_LARGE = 2**14  # entries from which numpy's generator is faster, its seeding included
_LOWEST = torch.tensor(-(2.0**31))


def bernoulli(logits: Tensor) -> Tensor:
    """Draws 0/1 floats with P(1) = sigmoid(logits), in the shape and dtype of `logits`.

    All randomness comes from the global torch generator. On the CPU, torch draws uniform numbers one at a time. Large
    float32 tensors therefore take 24 random bits per entry from numpy's SFC64, which that generator seeds.
    """
    return coins(torch.sigmoid(logits))


def coins(p: Tensor) -> Tensor:
    """As `bernoulli`, with P(1) = p."""
    if p.device.type != "cpu" or p.dtype != torch.float32 or p.numel() < _LARGE:
        return uniform(p).lt_(wide(p)).to(p.dtype)
    seed = torch.randint(2**62, (3,))
    bits = (_words_in_programs if torch.compiler.is_compiling() else _words)(p, seed)
    bits &= -256  # float32 holds the top 24 bits exactly, so that p = 0 never gives 1 and p = 1 always does
    return bits.float().lt_(torch.add(_LOWEST, p, alpha=2.0**32))


def _words(like: Tensor, seed: Tensor) -> Tensor:
    """Random 32-bit integers in the shape of `like`, from three 62-bit numbers."""
    words = raw_words(seed).random_raw((like.numel() + 1) // 2).view(np.int32)
    return torch.from_numpy(words[: like.numel()]).view_as(like)


def raw_words(seed: Tensor) -> np.random.SFC64:
    """A generator of 64-bit words, from three 62-bit numbers."""
    return np.random.SFC64(_Seed(seed.numpy().view(np.uint64)))  # type: ignore[arg-type]  # numpy's stubs know SeedSequence alone


_words_in_programs = operator(
    "words(Tensor like, Tensor seed)", _words, lambda like, seed: like.new_empty(like.shape, dtype=torch.int32)
)


class _Seed(np.random.bit_generator.ISeedSequence):
    """Seeds a generator with three random words as they are: numpy would hash a seed first, which takes longer."""

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: npt.DTypeLike = np.uint64) -> npt.NDArray[np.uint64]:
        return self.words[:n_words]


def categorical(log_probs: Tensor, num_draws: int | None = None) -> Tensor:
    """Draws indices 0 to K - 1, int64, each by inverting the distribution function at one uniform number.

    Args:
        log_probs: normalised log-probabilities, `(..., K)`.
        num_draws: number of draws with replacement from each law; None draws one and adds no axis.

    Returns:
        `(...)`, or `(..., num_draws)`.
    """
    if num_draws is None:
        return drawn(wide(log_probs).exp())
    cdf = wide(log_probs).exp().cumsum(-1)
    total = cdf[..., -1:]
    last = log_probs.shape[-1] - 1
    level = uniform(total.expand(*total.shape[:-1], num_draws)) * total
    if num_draws == 1 and torch.compiler.is_compiling():  # a program fuses the comparison with the sums
        return (cdf <= level).sum(-1, keepdim=True).clamp(max=last)
    return torch.searchsorted(cdf, level, right=True).clamp(max=last)


def drawn(weights: Tensor) -> Tensor:
    """As `categorical` with one draw each, of weights `(..., K)`, which are at least 0 and need not add up to 1."""
    cdf = wide(weights).cumsum(-1)
    total = cdf[..., -1:]
    level, last = uniform(total) * total, weights.shape[-1] - 1
    if torch.compiler.is_compiling() or cdf.device.type != "cpu":  # a program fuses the comparison with the sums
        return (cdf <= level).sum(-1).clamp(max=last)
    return torch.searchsorted(cdf, level, right=True).squeeze(-1).clamp(max=last)


def drawn_by_column(weights: Tensor) -> tuple[Tensor, Tensor]:
    """As `drawn`, of weights `(K, n)`, one law a column: on a CPU, sums along such columns are the faster ones.

    Returns:
        Indices, int64 `(n,)`; sums of the weights, `(n,)`.
    """
    cdf = wide(weights).cumsum(0)
    total, last = cdf[-1], len(cdf) - 1
    below = cdf <= uniform(total) * total
    count = below.view(torch.uint8).sum(0, dtype=torch.uint8) if last < 255 else below.sum(0)
    return count.clamp(max=last).long(), total


def by_weight(weights: Tensor, n: int, *, start: Tensor) -> Tensor:
    """Indices `(n,)`, in order, of systematic resampling (Kitagawa 1996): one uniform number decides for all.

    An index comes n times its share of the total weight, rounded down or up at random, so that its mean is exact.

    Args:
        weights: at least 0, `(N,)`.
        n: number of draws.
        start: a uniform number, a scalar.
    """
    up_to = wide(weights).cumsum(0)
    at = (torch.arange(n, dtype=up_to.dtype, device=up_to.device) + start) / n
    return torch.searchsorted(up_to, at * up_to[-1], right=True).clamp(max=len(weights) - 1)


def normal(like: Tensor) -> Tensor:
    """Standard normal numbers in the shape, type and layout of `like`, drawn in the order of its memory."""
    columns = like.dim() == 2 and not like.is_contiguous() and like.T.is_contiguous()
    return torch.randn_like(like.T).T if columns else torch.randn_like(like)


def uniform(like: Tensor) -> Tensor:
    """Uniform numbers in the shape of `like`, from the global generator; float32 where `like` has half precision."""
    return splitmix(wide(like)) if in_vectors(like) else torch.rand_like(wide(like))


def uniform_numbers(
    *shape: int, device: torch.device | str | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Uniform numbers in torch's default type, float32 where that is half; from the global generator when None."""
    return wide(torch.empty(shape, device=device)).uniform_(generator=generator)


def bits(p: Tensor) -> Tensor:
    """Draws 0/1 floats with P(1) = p, in the shape and dtype of `p`."""
    return torch.bernoulli(wide(p)).to(p.dtype)


def wide(x: Tensor) -> Tensor:
    """Widens half precision to float32, as it has too few distinct uniform numbers: rare events get the wrong odds."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
