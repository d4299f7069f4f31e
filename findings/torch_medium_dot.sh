#!/usr/bin/env bash
# torch 2.14.1 on a CPU with avx512_bf16: torch.set_float32_matmul_precision("medium").
# Guess: products of float32 matrices may round to bfloat16 and get faster; what is bound by memory stays as it is.
# Saw: `torch.dot` takes 14 times as long: 80.9 in place of 5.3 microseconds for 50,000 numbers on one thread. A matrix
#   times a vector (784 x 500) takes 4 times as long. "high" changes neither. On other processors it may do nothing.
set -euo pipefail
grep -q avx512_bf16 /proc/cpuinfo || { echo "this processor has no avx512_bf16"; exit 0; }
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" torch==2.14.1 numpy==2.4.6
PYTHONPATH=$folder python3 - <<'PYTHON'
import statistics
import time

import torch

torch.set_num_threads(1)
a, b = torch.randn(50_000), torch.randn(50_000)
matrix, vector = torch.randn(784, 500), torch.randn(500)


def microseconds(run, times=500):
    rounds = []
    for _ in range(5):
        begin = time.process_time()
        for _ in range(times):
            run()
        rounds.append((time.process_time() - begin) / times * 1e6)
    return statistics.median(rounds)


found = {}
for precision in ("highest", "high", "medium"):
    torch.set_float32_matmul_precision(precision)
    found[precision] = microseconds(lambda: torch.dot(a, b)), microseconds(lambda: torch.mv(matrix, vector))
    print(f"{precision}: dot {found[precision][0]:.1f}, matrix times vector {found[precision][1]:.1f} microseconds")
slower = [found["medium"][k] / found["highest"][k] for k in range(2)]
raise SystemExit(0 if slower[0] > 4 and slower[1] > 1.5 else "the behaviour has changed")
PYTHON
