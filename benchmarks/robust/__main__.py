"""`python -m benchmarks.robust [inputs] [mutants] [kills]`: tries to break the command line; exit code 1 if it does."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("EBMLAB_CACHE", tempfile.mkdtemp(prefix="ebmlab-robust-cache-"))


def main() -> int:
    """Runs the parts that are named, by default all; prints faults as they come and a table at the end."""
    import torch

    import ebmlab.app.cli  # noqa: F401  imported once, for all children
    from benchmarks.robust.inputs import bad_inputs, mutants
    from benchmarks.robust.kills import kills
    from benchmarks.robust.server import Outcome, run_all

    torch.set_num_threads(1)

    def tell(outcome: Outcome) -> None:
        if outcome.fault:
            print(f"{outcome.fault}: {outcome.case.name}\n    {outcome.last}", flush=True)

    parts = {
        "inputs": lambda: run_all(bad_inputs(), each=tell),
        "mutants": lambda: run_all(mutants(500), each=tell),
        "kills": lambda: kills(tell),
    }
    rows, bad = [], 0
    for part in sys.argv[1:] or parts:
        begin = time.monotonic()
        outcomes = parts[part]()
        faults = Counter(o.fault for o in outcomes if o.fault)
        bad += sum(faults.values())
        codes = Counter("hang" if o.code is None else str(o.code) for o in outcomes)
        cells = (part, len(outcomes), dict(codes), dict(faults), f"{time.monotonic() - begin:.0f} s")
        rows.append(f"| {' | '.join(map(str, cells))} |")
    print("| part | cases | exit codes | faults | time |\n|---|---|---|---|---|", *rows, sep="\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
