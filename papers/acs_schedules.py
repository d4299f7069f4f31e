"""Figures 2 and 3 of Pynadath et al. (2024): the cycle that ACS's tuner finds, and acceptance against the step size.

    python papers/acs_schedules.py     # prints both tables; the picture goes to docs/pictures/acs_schedules.png

The models are the zoo's RBM and deep EBM of 8 x 8 digits. Acceptance is the mean over 1,000 chains in one step of DMALA
with the given step size and balance, from states that 2,000 steps of DMALA have reached: where a sampler spends its
time. The tuner starts there, too.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

import ebmlab
from ebmlab.energies import Energy
from ebmlab.samplers import ACS, DMALA
from ebmlab.samplers.tuners import ACSTuner

MODELS = {"RBM": "zoo/rbm-digits", "deep EBM": "zoo/ebm-digits"}
CHAINS, WARM_UP, TUNE = 1000, 2000, 500
STEPS = torch.logspace(-1.3, 3, 44)
BALANCES = [0.5, 0.6, 0.7, 0.8, 0.95]
CYCLE, BETA_MAX = 20, 0.8


def acceptances(energy: Energy, x: Tensor, beta: float) -> Tensor:
    """The mean acceptance of one step from x for each of `STEPS`."""
    return torch.stack([DMALA(float(alpha), balance=beta).sample(energy, x, 1)[1].acceptance.mean() for alpha in STEPS])


def rise(curve: Tensor) -> str:
    """The largest gain of acceptance from a step to a larger one: both acceptances and steps."""
    gains = torch.stack([curve[k:].max() - curve[k] for k in range(len(curve))])
    low = int(gains.argmax())
    high = low + int(curve[low:].argmax())
    return " to ".join(f"{float(curve[k]):.2f} at {float(STEPS[k]):.2g}" for k in (low, high))


def main() -> None:
    torch.manual_seed(0)
    figure, axes = plt.subplots(2, 2, figsize=(9, 6))
    columns = ["model", "balance", "acceptance at step 0.1, 1, 10, 100, 1,000", "last step above 0.5", "largest rise"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    cycles = []
    for (name, place), (left, right) in zip(MODELS.items(), axes, strict=True):
        energy = ebmlab.load(place).learner.energy
        x = DMALA(0.2).last_states(energy, energy.random(CHAINS), WARM_UP)
        for beta in BALANCES:
            curve = acceptances(energy, x, beta)
            at = [int((STEPS - step).abs().argmin()) for step in (0.1, 1, 10, 100, 1000)]
            feasible = STEPS[curve >= 0.5]
            largest = f"{float(feasible[-1]):.3g}" if len(feasible) else "none"
            cells = ", ".join(f"{float(curve[k]):.2f}" for k in at)
            print(f"| {name} | {beta} | {cells} | {largest} | {rise(curve)} |")
            left.semilogx(STEPS, curve, label=f"balance {beta}")
        tuned, _ = ACSTuner().tune(ACS(cycle_length=CYCLE, balance_max=BETA_MAX), energy, x, TUNE)
        assert isinstance(tuned, ACS)
        cycles.append((name, tuned))
        left.set(ylabel="acceptance", title=f"{name}: acceptance", ylim=(0, 1))
        right.semilogy(tuned.step_sizes.repeat(2), "o-", color="tab:blue", label="step size")
        right.set(title=f"{name}: two cycles of ACS", ylabel="step size")
        twin = right.twinx()
        twin.plot(tuned.balances.repeat(2), "s-", color="tab:orange")
        twin.set(ylabel="balance (orange)", ylim=(0.45, 1))
    axes[1, 0].legend(fontsize="small", loc="upper right")
    axes[1, 0].set(xlabel="step size")
    axes[1, 1].set(xlabel="step")
    print("\n| model | step sizes of a cycle, first to last | balances |\n|---|---|---|")
    for name, tuned in cycles:
        steps, balances = (", ".join(f"{v:.3g}" for v in a[::4].tolist()) for a in (tuned.step_sizes, tuned.balances))
        print(f"| {name} | {steps} | {balances} |")
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "docs" / "pictures" / "acs_schedules.png", dpi=120)


if __name__ == "__main__":
    main()
