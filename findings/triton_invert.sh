#!/usr/bin/env bash
# triton 3.8.0, with torch 2.14.1 and numpy 2.4.6: `~x` of unsigned numbers in a kernel.
# Guess: the interpreter (TRITON_INTERPRET=1), which tests use where there is no GPU, runs what the compiler takes.
# Saw: the compiler makes a program of it. The interpreter raises an InterpreterError, for NumPy 2 makes no uint32 of -1.
#   `x ^ 0xFFFFFFFF` says the same, and both take it; so do signed numbers with `~`.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" "triton==3.8.0" "torch==2.14.1" "numpy==2.4.6"
cat > "$folder/kernels.py" <<'PYTHON'
import triton
import triton.language as tl


@triton.jit
def inverted(x, y, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(y + at, ~tl.load(x + at).to(tl.uint32))


@triton.jit
def by_xor(x, y, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(y + at, tl.load(x + at).to(tl.uint32) ^ 0xFFFFFFFF)
PYTHON
cat > "$folder/compiled.py" <<'PYTHON'
import kernels
import triton
from triton.backends.compiler import GPUTarget

for kernel in (kernels.inverted, kernels.by_xor):
    source = triton.compiler.ASTSource(kernel, {"x": "*i32", "y": "*u32", "n": "constexpr"}, {"n": 16})
    print(kernel.__name__, "compiled:", len(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]) > 0)
PYTHON
cat > "$folder/interpreted.py" <<'PYTHON'
import kernels
import torch

x, y = torch.arange(16, dtype=torch.int32), torch.zeros(16, dtype=torch.uint32)
kernels.by_xor[(1,)](x, y, n=16)
right = y.tolist() == [2**32 - 1 - k for k in range(16)]
try:
    kernels.inverted[(1,)](x, y, n=16)
    said = "nothing"
except Exception as error:
    said = repr(error)
print("by_xor interpreted:", right, "\ninverted interpreted:", said)
raise SystemExit(0 if right and "out of bounds for uint32" in said else "the behaviour has changed")
PYTHON
export PYTHONPATH=$folder
python3 "$folder/compiled.py"
TRITON_INTERPRET=1 python3 "$folder/interpreted.py"
