"""Many random numbers at once on a CPU (`draws.cpp`): normal and uniform ones, and bits."""

from __future__ import annotations

import ctypes
import functools

import torch
from torch import Tensor

from ebmlab.native.library import SUPPORTED, threads, trusted
from ebmlab.native.plain import exporting, readable
from ebmlab.numerics import noise
from ebmlab.numerics.operators import operator

ENOUGH = 2**11  # numbers from which a call of C++ pays


def normal(like: Tensor) -> Tensor:
    """Standard normal numbers in the shape, type and layout of `like`, seeded by the global generator.

    Example:
        >>> import torch
        >>> normal(torch.zeros(2, 3)).shape
        torch.Size([2, 3])
    """
    return _drawn("normals", like)


def normal_(out: Tensor, *, std: float = 1.0) -> Tensor:
    """Overwrites a tensor by normal numbers of mean 0, and returns it.

    Example:
        >>> import torch
        >>> normal_(torch.ones(3), std=0.0).tolist()
        [0.0, 0.0, 0.0]
    """
    if not (_pays(out) and readable(out) and _may_be_overwritten(out) and _fills(out, "normals", std=std)):
        return out.normal_(std=std)
    if not out.is_inference():
        torch.autograd.graph.increment_version(out)  # autograd asks for it before it uses what it has saved
    return out


def uniform(like: Tensor) -> Tensor:
    """Uniform numbers from 0 to 1 in the shape of `like`, as `normal`; float32 where `like` has half precision.

    Example:
        >>> import torch
        >>> bool((uniform(torch.zeros(2, 3)) < 1).all())
        True
    """
    return _drawn("uniforms", like)


def coins(p: Tensor) -> Tensor:
    """Draws 0/1 floats with P(1) = p, in the shape and type of `p`, as `normal`.

    Example:
        >>> import torch
        >>> coins(torch.tensor([0.0, 1.0])).tolist()
        [0.0, 1.0]
    """
    return _drawn("bits", p)


def bernoulli(logits: Tensor) -> Tensor:
    """As `coins`, with P(1) = sigmoid(logits).

    Example:
        >>> import torch
        >>> bernoulli(torch.tensor([-200.0, 200.0])).tolist()
        [0.0, 1.0]
    """
    return _drawn("bits_of_logits", logits)


BY_TORCH = {"normals": noise.normal, "uniforms": noise.uniform, "bits": noise.coins, "bits_of_logits": noise.bernoulli}


def _drawn(name: str, numbers: Tensor) -> Tensor:
    """Draws by the kernel of this name, or by torch: `numbers` are the parameters, or say only the shape."""
    if torch.compiler.is_compiling() and _pays(numbers):
        return _in_programs(name, numbers.detach(), torch.randint(2**62, (), device="cpu"))
    return _drawn_now(name, numbers)


def _drawn_now(name: str, numbers: Tensor, seed: Tensor | None = None) -> Tensor:
    if not (_pays(numbers) and readable(numbers)):
        return BY_TORCH[name](numbers)
    numbers = numbers.detach()
    out = torch.empty_like(numbers)  # whose numbers lie side by side
    if name.startswith("bits"):
        given = numbers if numbers.stride() == out.stride() else torch.empty_like(numbers).copy_(numbers)
    else:
        given = None
    return out if _fills(out, name, given=given, seed=seed) else BY_TORCH[name](numbers)


# What the compiler calls. It merges calls that are alike, unless each has a seed of its own. It may also hand over
# numbers in another layout than it announced. The result therefore always lies in rows.
_in_programs = operator(
    "drawn(str name, Tensor numbers, Tensor seed)",
    lambda name, numbers, seed: _drawn_now(name, numbers.contiguous(), seed),
    lambda name, numbers, seed: numbers.new_empty(numbers.shape),
)


def _pays(like: Tensor) -> bool:
    """Whether the kernels may be asked, as far as size, type and device say; an exported graph takes any size."""
    return (
        SUPPORTED
        and not exporting()
        and like.numel() >= ENOUGH
        and like.dtype == torch.float32
        and like.device.type == "cpu"
    )


def _is_whole(numbers: Tensor) -> bool:
    """Whether numbers lie side by side in memory, by rows or by columns."""
    return numbers.is_contiguous() or (numbers.dim() == 2 and numbers.T.is_contiguous())


def _may_be_overwritten(out: Tensor) -> bool:
    """Whether the numbers are `_is_whole`, and torch would not refuse."""
    if out.is_inference() and not torch.is_inference_mode_enabled():
        return False
    return _is_whole(out) and not (out.requires_grad and torch.is_grad_enabled())


def _fills(
    out: Tensor, name: str, *, std: float = 1.0, given: Tensor | None = None, seed: Tensor | None = None
) -> bool:
    """Fills `out` by a kernel if there is one; returns whether there is."""
    library = kernels()
    if library is None:
        return False
    seed = torch.empty((), dtype=torch.int64, device="cpu").random_() if seed is None else seed
    numbers, settings = [] if given is None else [given.data_ptr()], [std] if name == "normals" else []
    getattr(library, name)(*numbers, out.data_ptr(), out.numel(), *settings, int(seed), threads(out.numel()))
    return True


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernels, after draws that are certain have come out right; None where there are none."""
    end = ctypes.c_uint64, ctypes.c_int64
    to = ctypes.c_void_p, ctypes.c_int64
    bits = [ctypes.c_void_p, *to, *end]
    normals, uniforms = [*to, ctypes.c_float, *end], [*to, *end]
    return trusted("draws", _is_right, normals=normals, uniforms=uniforms, bits=bits, bits_of_logits=bits)


def _is_right(library: ctypes.CDLL) -> bool:
    certain = torch.arange(5000, device="cpu").remainder(3).eq(1).float()
    logits, (bits, signs, uniforms, normals) = 200 * certain - 100, certain.new_empty(4, len(certain))
    library.bits(certain.data_ptr(), bits.data_ptr(), len(bits), 1, 1)
    library.bits_of_logits(logits.data_ptr(), signs.data_ptr(), len(bits), 1, 1)
    library.uniforms(uniforms.data_ptr(), len(bits), 1, 1)
    library.normals(normals.data_ptr(), len(bits), 2.0, 1, 1)
    between = bool(uniforms.min() >= 0) and bool(uniforms.max() < 1)
    means = 2 * uniforms.mean(), normals.square().mean() / 4
    right = between and all(0.9 < mean < 1.1 for mean in means)
    return right and torch.equal(bits, certain) and torch.equal(signs, certain)
