#!/usr/bin/env bash
# torch 2.14.1, torch.compile on a CPU with AVX2 or AVX-512, and a C++ compiler.
# Guess: `x.isnan()` and `x != x` say the same of floats, and are the same vector comparison in a compiled program.
# Saw: the program asks about one number after the other for `isnan`, in the midst of vectors, and takes 2.6 times as
#   long: 61 in place of 24 microseconds for torch.where on 65,536 numbers, one thread. Without compilation both take 81.
set -euo pipefail
grep -qE "avx2|avx512f" /proc/cpuinfo || { echo "this processor has no vectors"; exit 0; }
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" torch==2.14.1 numpy==2.4.6
TORCHINDUCTOR_CACHE_DIR=$folder/cache PYTHONPATH=$folder python3 - <<'PYTHON'
import time

import torch

torch.set_num_threads(1)
x, y = torch.randn(2**16), torch.zeros(2**16)


def microseconds(run, times=300):
    for _ in range(20):
        run(x, y)
    rounds = []
    for _ in range(9):
        begin = time.process_time()
        for _ in range(times):
            run(x, y)
        rounds.append((time.process_time() - begin) / times * 1e6)
    return min(rounds)


asked = microseconds(torch.compile(lambda x, y: torch.where(x.isnan(), y, x)))
compared = microseconds(torch.compile(lambda x, y: torch.where(x != x, y, x)))
print(f"compiled: isnan {asked:.1f}, x != x {compared:.1f} microseconds")
raise SystemExit(0 if asked > 1.5 * compared else "the behaviour has changed")
PYTHON
