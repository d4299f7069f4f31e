#!/usr/bin/env bash
# adabmDCA 1.0.0: frequencies of pairs with a pseudo-count, from which `get_mf_contact_map` predicts contacts.
# Guess: at one site two unlike values never meet, as in the article on mean-field DCA (Morcos et al. 2011, Eq. S2), so
#   that the 16 frequencies of a site with itself sum to 1.
# Saw: the pseudo-count is added there too. With a share of 0.5 and four letters they sum to 1.375, and unlike values meet
#   at their own site with 0.031. Mean-field couplings are those of the inverse of such a matrix.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" adabmDCA==1.0.0 torch==2.14.1 numpy==2.4.6
cat > "$folder/run.py" <<'PYTHON'
import torch
from adabmDCA.stats import get_freq_single_point, get_freq_two_points

torch.manual_seed(0)
sequences = torch.nn.functional.one_hot(torch.randint(4, (50, 3)), 4).float()
pairs = get_freq_two_points(sequences, pseudo_count=0.5)[0, :, 0, :]
alone = get_freq_single_point(sequences, pseudo_count=0.5)[0]
print(f"site 0 with itself: A and C meet with {pairs[0, 1]:.4f}; all frequencies sum to {pairs.sum():.4f}")
same = torch.allclose(pairs.diagonal(), alone)
raise SystemExit(0 if same and abs(pairs.sum() - 1.375) < 1e-5 else "the behaviour has changed")
PYTHON
PYTHONPATH=$folder python3 "$folder/run.py"
