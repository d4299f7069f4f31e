"""Chains of the deep EBM in bfloat16 that are decided in float32 (`Bfloat16Proposals`): acceptance and time of a step.

    python -m benchmarks.gpu.rounded
    python -m benchmarks.gpu.rounded --device cpu     # tiny sizes, whose times say nothing about a GPU

1. Acceptance of DMALA on the trained `zoo/ebm-digits`, from 100 states after 200 steps.
2. DMALA steps per second of 100 chains on a ResNet of the paper's size, plain and replayed as a CUDA graph.
"""

from __future__ import annotations

import argparse

import torch

import ebmlab
from benchmarks.gpu.fused import seconds
from ebmlab.energies import ResNet
from ebmlab.engine import Replayed
from ebmlab.numerics.float32 import Float32Settings
from ebmlab.samplers import DMALA, Bfloat16Proposals, Sampler

STEP_SIZE = 0.15
SAMPLERS: dict[str, tuple[Sampler, int]] = {  # and how many steps of DMALA are in one of it
    "DMALA": (DMALA(STEP_SIZE), 1),
    **{f"in bfloat16, {k} a decision": (Bfloat16Proposals(DMALA(STEP_SIZE), k), k) for k in (1, 8, 40)},
}


def acceptances(device: torch.device, tiny: bool) -> None:
    energy = ebmlab.load("zoo/ebm-digits").learner.energy.to(device).requires_grad_(False)
    chains, steps = (25, 40) if tiny else (100, 200)
    x = DMALA(STEP_SIZE).to(device).last_states(energy, energy.random(chains), steps)
    print("\n| steps on zoo/ebm-digits | acceptance |\n|---|---|")
    for name, (sampler, k) in SAMPLERS.items():
        _, info = sampler.to(device).sample(energy, x, max(1, 40 // k))
        print(f"| {name} | {float(info.acceptance.mean()):.3f} |", flush=True)


def rates(device: torch.device, tiny: bool) -> None:
    energy = (ResNet((28, 28), 8) if tiny else ResNet((28, 28))).to(device).requires_grad_(False)
    x, steps = energy.random(10 if tiny else 100), 40
    print("\n| steps | float32: steps per second | replayed | TF32 | replayed |\n|---|---|---|---|---|")
    before = Float32Settings.now()
    for name, (sampler, k) in SAMPLERS.items():
        sampler, cells = sampler.to(device), []
        for precision in ("highest", "high"):
            torch.set_float32_matmul_precision(precision)
            torch.backends.cudnn.allow_tf32 = precision == "high"
            plain = lambda s=sampler, n=steps // k: s.last_states(energy, x, n)  # noqa: E731
            cells.append(f"{steps / seconds(plain, device, 2):.0f}")
            if device.type == "cuda":
                replayed = Replayed()
                chain = lambda x, s=sampler, n=steps // k: (s._run(energy, x, n),)  # noqa: E731
                call = lambda r=replayed, c=chain, s=sampler: r(c, x, energy, s)  # noqa: E731
                cells.append(f"{steps / seconds(call, device, 5):.0f}")
            else:
                cells.append("-")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    before.restore()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    device = torch.device(parser.parse_args().device)
    torch.manual_seed(0)
    acceptances(device, device.type == "cpu")
    rates(device, device.type == "cpu")


if __name__ == "__main__":
    main()
