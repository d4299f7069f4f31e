#!/usr/bin/env bash
# torch 2.14.1 with onnxscript 0.7.2 and onnxruntime 1.32.0: `torch.special.erfcx` and `log_ndtr` in an ONNX file.
# Guess: they keep their purpose. erfcx(x) = exp(x^2) erfc(x) and log_ndtr exist since their parts overflow or vanish.
# Saw: the file holds just these parts, exp(x^2) (1 - erf(x)) and log((1 + erf(x / sqrt(2))) / 2), without a warning. At
#   x = 4 erfcx is 0 in place of 0.137, and at 10 NaN in place of 0.0561. log_ndtr(-10) is -inf in place of -53.23.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" torch==2.14.1 numpy==2.4.6 onnx==1.23.2 \
  onnxscript==0.7.2 onnxruntime==1.32.0
cat > "$folder/run.py" <<'PYTHON'
import sys

import numpy as np
import onnxruntime
import torch


class Tail(torch.nn.Module):
    def forward(self, x):
        return torch.special.erfcx(x), torch.special.log_ndtr(-x)


x, path = torch.tensor([1.0, 4.0, 10.0]), sys.argv[1] + "/tail.onnx"
torch.onnx.export(Tail(), (x,), path, dynamo=True, verbose=False)
found = onnxruntime.InferenceSession(path).run(None, {"x": x.numpy()})
right = [y.numpy() for y in Tail()(x)]
for name, ours, theirs in zip(("erfcx(x)", "log_ndtr(-x)"), right, found):
    print(f"{name} at 1, 4, 10: torch {np.round(ours, 4)}, the file {np.round(theirs, 4)}")
same = np.allclose(found[0][0], right[0][0], rtol=1e-4) and np.allclose(found[1][0], right[1][0], rtol=1e-4)
off = found[0][1] == 0
raise SystemExit(0 if same and off and not np.isfinite([found[0][2], found[1][2]]).any() else "the behaviour has changed")
PYTHON
PYTHONPATH=$folder python3 -W ignore "$folder/run.py" "$folder" 2> "$folder/errors" || { cat "$folder/errors"; exit 1; }
