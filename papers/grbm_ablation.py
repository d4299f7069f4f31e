"""Tables 2 and 3 of Liao et al. (2022) at the size of the demo: what hidden units, steps and adjustment are worth.

    python papers/grbm_ablation.py              # trains what is missing, then prints the table

Each row is `python -m ebmlab fit --config configs/grbm_digits.yaml` with one or two settings that differ. The score is
FID by a classifier's features, of 1,000 samples against the test images of scikit-learn's digits. The paper adjusts
steps from 0, 25 and 50 of 100 on; here the chains have 30 steps, so that these are 0, 8 and 15.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from pathlib import Path

from kept import Result, cell, run_missing

ROWS = {
    "the config: 256 hidden units, 30 steps of 0.1, 10 inner steps": [],
    "64 hidden units": ["--model.energy.num_hidden", "64"],
    "128 hidden units": ["--model.energy.num_hidden", "128"],
    "512 hidden units": ["--model.energy.num_hidden", "512"],
    "10 steps": ["--model.num_steps", "10"],
    "50 steps": ["--model.num_steps", "50"],
    "1 inner step": ["--model.sampler.num_inner_steps", "1"],
    "5 inner steps": ["--model.sampler.num_inner_steps", "5"],
    "steps of 0.05": ["--model.sampler.step_size", "0.05"],
    "steps of 0.025": ["--model.sampler.step_size", "0.025"],
    "annealed": ["--callbacks.AnnealedSteps", "true"],
    "adjusted from step 0 on": ["--model.sampler.adjust_from", "0"],
    "adjusted from step 8 on": ["--model.sampler.adjust_from", "8"],
    "adjusted from step 15 on": ["--model.sampler.adjust_from", "15"],
    "adjusted from step 15 on, annealed": ["--model.sampler.adjust_from", "15", "--callbacks.AnnealedSteps", "true"],
    "annealed to a quarter": ["--callbacks.AnnealedSteps.end", "0.25"],
    "adjusted from step 15 on, annealed to a quarter": [
        *("--model.sampler.adjust_from", "15", "--callbacks.AnnealedSteps.end", "0.25"),
    ],
}
QUIET = ["--callbacks.SampleGrid", "false", "--callbacks.ParameterImages", "false", "--wandb", "disabled"]
SCORE = ["--callbacks.FID.split", "test", "--callbacks.FID.at_start", "false", "--callbacks.FID.every_n_epochs", "200"]


def run(job: str, settings: list[str], seed: int) -> Result:
    """Trains one row, from where an earlier call has been stopped."""
    command = [sys.executable, "-m", "ebmlab", "fit", "--config", "configs/grbm_digits.yaml", "--name", job]
    command += [*settings, "--seed_everything", str(seed), "--resume", "auto", *QUIET, *SCORE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "have drifted" in done.stderr:  # `DivergenceGuard` has ended the run
        return {"diverged": 1.0}
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    with Path("runs", "grbm_digits", job, "fid.csv").open(newline="") as file:
        return {"fid": float(list(csv.DictReader(file))[-1]["fid"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/grbm_ablation"))
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    jobs = {f"ablation-{i}-{seed}": (name, seed) for seed in args.seeds for i, name in enumerate(ROWS)}
    run_missing(args.folder, jobs, lambda job: run(job, ROWS[jobs[job][0]], jobs[job][1]), args.part)
    print("\n| setting | FID |\n|---|---|")
    for i, name in enumerate(ROWS):
        diverged = sum("diverged" in path.read_text() for path in args.folder.glob(f"ablation-{i}-*.json"))
        print(f"| {name} | {cell(args.folder, f'ablation-{i}-*', 'fid')}{f'; {diverged} diverged' * (diverged > 0)} |")


if __name__ == "__main__":
    main()
