"""Commands of the site's pages, with flags that make them quick."""

from __future__ import annotations

import re
import shlex

FEW_PICTURES = ["--callbacks.SampleGrid.num_strips=1", "--callbacks.SampleGrid.num_frames=2"]
TINY = {
    "fit": "--trainer.limit_train_batches=2 --trainer.limit_val_batches=1 --model.num_steps=2 --wandb=disabled "
    "--trainer.log_every_n_steps=1 --trainer.enable_progress_bar=false --trainer.accelerator=cpu",
    "test": "--trainer.limit_test_batches=1 --trainer.accelerator=cpu --wandb=disabled",
    "sample": "--num_steps=50 --num_chains=10 --wandb=disabled --accelerator=cpu",
    "predict": "--num_steps=2",
    "complete": "--num_steps=2 --first=4",
}
QUIET = {
    "family": "--callbacks.FamilyReport.num_samples=20 --callbacks.FamilyReport.num_steps=2",
    "grbm_digits": "--callbacks.FID=false",
    "block_gibbs": "--callbacks.FID=false",
    "my_energy": "--callbacks.SampleGrid=false --callbacks.AIS.num_temperatures=20 --callbacks.AIS.num_chains=10",
    "ebm_digits": "--callbacks.AIS=false --callbacks.SampleGrid=false",
    "rm_ego_small": "--callbacks.GraphGrid=false --callbacks.GraphMMD=false",
}


def tiny(command: str) -> list[str]:
    """The arguments of a command of ebmlab, and flags that make it quick."""
    args = shlex.split(command)
    flags = shlex.split(TINY.get(args[0], ""))
    if args[0] == "fit" and (found := re.search(r"--config (?:configs/)?(\w+)", command)):
        epochs = 2 if "max_epochs" in command else 1
        flags += [f"--trainer.max_epochs={epochs}", *shlex.split(QUIET.get(found[1], ""))]
    if args[0] == "test" and "grbm" not in command:
        flags += ["--callbacks.AIS.test_temperatures=20", "--callbacks.AIS.num_chains=10"]
    return [*args, *flags]
