#!/usr/bin/env bash
# torch 2.14.1 from PyPI, on a machine without a GPU.
# Guess: under FakeTensorMode a training step on `cuda` runs without a GPU, forward and backward: nothing is computed.
# Saw: the forward pass gives a loss on cuda:0, and its backward pass raises RuntimeError, "hasPrimaryContext expects a
#   valid device index": autograd's engine asks the driver for its stream. The same step on `meta` has its gradient. Issue 92627 of pytorch, closed in
#   2023, was the same where there is a GPU.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" torch==2.14.1
CUDA_VISIBLE_DEVICES="" PYTHONPATH=$folder python3 - <<'PYTHON'
import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def step(device):
    weights = torch.nn.Parameter(torch.empty(3, 2, device=device))
    loss = (torch.empty(5, 3, device=device) @ weights).square().mean()
    seen = f"loss on {loss.device}"
    try:
        loss.backward()
    except RuntimeError as error:
        return f"{seen}, backward: {str(error).splitlines()[0]}"
    return f"{seen}, gradient on {weights.grad.device}"


with FakeTensorMode():
    fake = step("cuda")
meta = step("meta")
print(f"fake: {fake}\nmeta: {meta}")
raise SystemExit(0 if "hasPrimaryContext" in fake and "gradient on meta" in meta else "the behaviour has changed")
PYTHON
