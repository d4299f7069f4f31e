#!/usr/bin/env bash
# onnxruntime 1.32.0 with onnx 1.23.2, torch 2.14.1 and onnxscript 0.7.2.
# Guess: an exported torch.bernoulli(p) draws a 1 with probability p, as it does in torch and by the page of the operator.
# Saw: it draws a 1 with probability 1 - p. The runtime has no such operator and takes the definition that comes with the
#   format, a uniform number that is Greater than p; the format's own reference evaluator, in Python, draws right.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" torch==2.14.1 numpy==2.4.6 onnx==1.23.2 \
  onnxscript==0.7.2 onnxruntime==1.32.0
cat > "$folder/run.py" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
import torch
from onnx.reference import ReferenceEvaluator


class Draw(torch.nn.Module):
    def forward(self, p):
        return torch.bernoulli(p)


path, right, found = sys.argv[1] + "/draw.onnx", True, []
torch.onnx.export(Draw(), (torch.zeros(100_000),), path, dynamo=True, verbose=False)
program = onnxruntime.InferenceSession(path)
for p in (0.1, 0.3, 0.9):
    draws = {"p": np.full(100_000, p, np.float32)}
    ours, theirs = torch.bernoulli(torch.from_numpy(draws["p"])).mean().item(), program.run(None, draws)[0].mean()
    reference = ReferenceEvaluator(onnx.load(path)).run(None, draws)[0].mean()
    print(f"p = {p}: a share of {ours:.3f} in torch, {reference:.3f} by the reference, {theirs:.3f} in the runtime")
    right = right and abs(ours - p) < 0.01 and abs(reference - p) < 0.01
    found.append(float(theirs) + p)
raise SystemExit(0 if right and np.abs(np.array(found) - 1).max() < 0.01 else "the behaviour has changed")
PYTHON
PYTHONPATH=$folder python3 -W ignore "$folder/run.py" "$folder" 2> "$folder/errors" || { cat "$folder/errors"; exit 1; }
