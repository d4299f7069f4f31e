#!/usr/bin/env bash
# pytorch-lightning 2.6.6 with torch 2.14.1: `self.log(..., on_epoch=True, sync_dist=True)` where processes have unequal
#   numbers of samples.
# Guess: the mean over all samples, as each value is weighted by its batch size on one process, too.
# Saw: sums and batch sizes are averaged over the processes, the batch sizes as whole numbers, rounded down. Of 17 and 16
#   samples 16.5 become 16, and the mean of 0 to 32 is 16.5 in place of 16. Batch sizes that are floats give 16.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" torch==2.14.1 numpy==2.4.6 \
  pytorch-lightning==2.6.6 torchmetrics==1.9.0
cat > "$folder/run.py" <<'PYTHON'
import warnings

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

VALUES = torch.arange(33.0)  # with the mean 16
SHARES = VALUES[:17], VALUES[17:]  # of the two processes


class Mean(pl.LightningModule):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def validation_step(self, x, _):
        self.log("mean", x.mean(), on_epoch=True, sync_dist=True, batch_size=self.number(len(x)))

    def val_dataloader(self):
        return DataLoader(SHARES[self.trainer.global_rank], batch_size=8)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    spread = {"accelerator": "cpu", "devices": 2, "strategy": "ddp", "use_distributed_sampler": False}
    trainer = pl.Trainer(**quiet, **spread)
    found = [trainer.validate(Mean(kind), verbose=False)[0]["mean"] for kind in (int, float)]
    if trainer.is_global_zero:
        print(f"the mean of 0 to 32 is 16; with batch sizes that are int {found[0]:.4f}, float {found[1]:.4f}")
    raise SystemExit(0 if abs(found[0] - 16.5) < 1e-4 and abs(found[1] - 16) < 1e-4 else "the behaviour has changed")
PYTHON
PYTHONPATH=$folder python3 "$folder/run.py" 2> "$folder/errors" || { cat "$folder/errors"; exit 1; }
