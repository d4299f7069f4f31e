"""`make gpu-check`: all parts of the check in a quarter of an hour, each with its own limit.

    make gpu-check
    python -m benchmarks.gpu --device cpu --minutes 0.2     # the same on a CPU, with tiny sizes

1. `tests`: of the samplers on the GPU, what a recording refuses among them; `laws`: of the fused kernels.
2. `fused`: fused kernels beside plain steps and replayed ones, with spin updates per nanosecond.
3. `peers`: thrml, JAX, rbms and adabmDCA on the same card, those that are installed.
4. `pieces`: bits times float32 weights as three products in bfloat16, exactness and speed.
5. `rounded`: chains of the deep EBM in bfloat16, decided in float32: acceptance and steps per second.
6. `iteration`: parts of a training step of the deep EBM with its callbacks, and what the CPU asks of the GPU.
7. `energies`, `samplers`, `settings`, `programs`, `trainings`: as `benchmarks/gpu_check.py` says.

`results.json` in the folder is written after each part. Exit code 1 if a part failed or was not reached.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import torch

from benchmarks.gpu.parts import Part, run

ROOT = Path(__file__).parents[2]
OWN = {"fused": 90, "peers": 105, "pieces": 30, "rounded": 30, "iteration": 30}
CHECKS = {"energies": 45, "samplers": 90, "settings": 75, "programs": 100}


def parts(device: str, minutes: float, folder: Path) -> list[Part]:
    """The parts in their order, with limits that leave the last ones time if the others take all of theirs."""
    python = sys.executable
    pytest = [python, "-m", "pytest", "-q", "-p", "no:benchmark", *(["-m", "not slow"] if device == "cpu" else [])]
    tests = Part("tests", [*pytest, "tests/samplers/test_cuda.py"], 60)
    laws = Part("laws", [*pytest, "tests/fused", "-k", "not interpreter and not compiles"], 100)  # those need no GPU
    own = [
        Part(name, [python, "-m", f"benchmarks.gpu.{name}", "--device", device], limit) for name, limit in OWN.items()
    ]
    check = [python, str(ROOT / "benchmarks" / "gpu_check.py"), "--device", device, "--minutes", str(minutes)]
    check += ["--folder", str(folder)]
    checks = [Part(name, [*check, "--only", name], limit) for name, limit in CHECKS.items()]
    training = Part("trainings", [*check, "--only", "trainings"], 60 * (7 * minutes + 1))
    return [tests, laws, *own, *checks, training]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=0.2, help="of training for each config")
    parser.add_argument("--seconds", type=float, default=900, help="of all parts together")
    parser.add_argument("--folder", type=Path, default=Path("runs/gpu_check"), help="where results and runs go")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("error: no CUDA device here; --device cpu tries the script without one")
    if args.device == "cpu":
        os.environ |= {"TRITON_INTERPRET": "1", "JAX_PLATFORMS": "cpu"}  # for all parts
    name = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}", flush=True)
    sys.exit(not run(parts(args.device, args.minutes, args.folder), args.folder, args.seconds))


if __name__ == "__main__":
    main()
