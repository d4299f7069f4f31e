"""How long compiled chains wait for their first steps, by what earlier processes have kept.

Each line is a process of its own. It counts its CPU time, and that of the compilers it starts, after all imports:

    python -m benchmarks.first_runs
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = {
    "DMALA on an RBM, one chain": "DMALA(0.2), RBM(784, 500), 1",
    "GWG on a perceptron, 100 chains": "GWG(), MLP(32), 100",
    "NUTS on a perceptron of reals, 10 chains": "NUTS(0.1), RealMLP(3), 10",
}
PROCESS = """
import json, resource, torch, torch._inductor.compile_fx
from ebmlab.energies import MLP, RBM, RealMLP
from ebmlab.samplers import DMALA, GWG, NUTS
torch.set_num_threads(1)
torch.manual_seed(0)
sampler, energy, chains = {case}
x = energy.requires_grad_(False).random(chains)
def seconds():
    return [sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
before = seconds()
last = sampler.last_states(energy, x, 16, compile=True)
print(json.dumps([b - a for a, b in zip(before, seconds())] + [float(last.sum())]))
"""


def first_run(case: str, folder: Path, own: str) -> tuple[float, float, float]:
    """CPU seconds of a fresh process and of its compilers, and a sum over its last states.

    Args:
        case: sampler, energy and chains.
        folder: holds what processes keep.
        own: the folder in it with the programs of ebmlab.
    """
    places = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"), "EBMLAB_CACHE": str(folder / own)}
    command = [sys.executable, "-W", "ignore", "-c", PROCESS.replace("{case}", case)]
    done = subprocess.run(command, env=os.environ | places, capture_output=True, text=True, check=True)
    own_time, compilers, total = json.loads(done.stdout.splitlines()[-1])
    return own_time, compilers, total


def main() -> None:
    print("| chains | nothing kept | the compiler's work alone | programs kept |\n|---|---|---|---|")
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            runs = [first_run(case, Path(folder), own) for own in ("first", "other", "first")]
        if len({total for _, _, total in runs}) > 1:
            raise SystemExit(f"{name}: processes disagree")
        print("|", name, *(f"| {own:.2f} + {compilers:.2f} s" for own, compilers, _ in runs), "|", flush=True)


if __name__ == "__main__":
    main()
