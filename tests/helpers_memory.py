"""How much memory the tensors of some code take at most, by torch's own account."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def peak_of_tensors(run: Callable[[], object]) -> int:
    """Bytes of tensors on the CPU that are alive at the same time at most, beyond those that were alive before.

    It is run twice: libraries keep work space from the first time on.
    """
    run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        run()
    results = found.profiler.kineto_results  # type: ignore[union-attr]
    changes = sorted((e.start_ns(), e.nbytes()) for e in results.events() if e.name() == "[memory]")
    return max(itertools.accumulate(size for _, size in changes), default=0)
