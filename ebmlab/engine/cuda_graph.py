"""Chains on a GPU that are recorded once, as a CUDA graph, and replayed by one call.

A step on a GPU is a hundred kernels of microseconds each. Python takes several times as long to start them as the GPU
to run them.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence

import torch
from torch import Tensor, nn

from ebmlab.errors import UserError
from ebmlab.numerics.float32 import Float32Settings

Outputs = tuple[Tensor | None, ...]


class Replayed:
    """Functions of tensors on a GPU: recorded as a CUDA graph at the first call, replayed from then on.

    A graph reads tensors where they lay in the recording, so that it sees parameters that are trained in place. It is
    recorded anew when a tensor of the modules has moved or an argument has another shape. A changed setting that is a
    number or a string has the same effect. Its random numbers come from torch's generator, in other places than those
    of the function itself.

    Example:
        >>> from ebmlab.energies import MLP
        >>> energy, replayed = MLP(8), Replayed()
        >>> if torch.cuda.is_available():
        ...     energy.cuda()
        ...     values, grads = replayed(energy.value_and_grad, energy.domain.random(4, device="cuda"), energy)
    """

    def __init__(self) -> None:
        self._recorded: tuple[Hashable, ...] | None = None

    def __reduce__(self) -> tuple[type[Replayed], tuple[()]]:
        """A copy records anew: a graph can be neither copied nor saved."""
        return Replayed, ()

    def __call__(
        self,
        function: Callable[..., Outputs],
        x: Tensor | Sequence[Tensor],
        *modules: nn.Module,
        settings: Hashable = None,
    ) -> Outputs:
        """What the function makes of x, states `(B, *event)` or several tensors.

        Args:
            function: of tensors alone; it may neither wait for the GPU nor bring tensors there.
            x: its argument, or its arguments in their order; other tensors at each call.
            modules: whatever else the function depends on.
            settings: and its own settings.

        Raises:
            UserError: the function waits for the GPU or draws random numbers on the CPU, which a recording cannot.
        """
        given = (x,) if isinstance(x, Tensor) else tuple(x)
        forms = tuple((t.shape, t.dtype) for t in given)
        now = (settings, forms, *_how_torch_computes(), *(part for m in modules for part in _parts(m)))
        if now != self._recorded:
            self._recorded = None
            self._record(function, given)
            self._recorded = now
        for mine, tensor in zip(self._given, given, strict=True):
            mine.copy_(tensor)
        self._graph.replay()
        return _copies(self._outputs)

    def _record(self, function: Callable[..., Outputs], given: Sequence[Tensor]) -> None:
        self._given = [t.detach().clone() for t in given]
        self._graph = torch.cuda.CUDAGraph()
        self._outputs: Outputs = ()
        on, kind = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        # weights that autocast has rounded and kept would not follow the training
        with torch.autocast("cuda", dtype=kind, enabled=on, cache_enabled=False):
            self._warm_up(function)
            before = torch.get_rng_state()
            try:
                with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):  # other threads load data
                    self._outputs = tuple(function(*self._given))
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                raise _refusal(str(error).splitlines()[0]) from error
        if not torch.equal(before, torch.get_rng_state()):
            raise _refusal("they draw random numbers on the CPU")

    def _warm_up(self, function: Callable[..., Outputs]) -> None:
        """Calls the function twice before it is recorded, as CUDA graphs require, and restores the random generators.

        The second call raises if it waits for the GPU. A recording that fails there would spoil torch's generator.
        """
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.random.fork_rng([self._given[0].device]):
            function(*(t.clone() for t in self._given))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Synchronization debug mode")
                torch.cuda.set_sync_debug_mode("error")
            try:
                function(*(t.clone() for t in self._given))
            except RuntimeError as error:
                if "synchronizing" not in str(error):
                    raise
                raise _refusal("they wait for the GPU") from error
            finally:
                torch.cuda.set_sync_debug_mode("default")
        torch.cuda.current_stream().wait_stream(side)


def _copies(outputs: Outputs) -> Outputs:
    """Copies of tensors, all by one kernel."""
    tensors = [t for t in outputs if t is not None]
    new = [torch.empty_like(t) for t in tensors]
    if tensors:
        torch._foreach_copy_(new, tensors)
    rest = iter(new)
    return tuple(None if t is None else next(rest) for t in outputs)


def _refusal(reason: str) -> UserError:
    return UserError(f"a GPU cannot record these steps as a CUDA graph, since {reason}: set compile_chains to false")


def _how_torch_computes() -> Iterator[Hashable]:
    settings = Float32Settings.now()
    yield settings.matmul
    yield settings.cudnn_tf32
    yield tuple(precision for _, precision in settings.newer)
    yield torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda")


def _parts(module: nn.Module) -> Iterator[Hashable]:
    """What a recording depends on: where the tensors of a module lie, and its settings that are numbers or strings."""
    for tensor in itertools.chain(module.parameters(), module.buffers()):
        yield tensor.data_ptr(), tensor.shape, tensor.dtype, tensor.requires_grad
    for part in module.modules():
        settings = {key: value for key, value in vars(part).items() if isinstance(value, bool | int | float | str)}
        yield str(type(part)), tuple(settings.items())
