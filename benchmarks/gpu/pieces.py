"""Bits times float32 weights as three products in bfloat16: are they exact, and what do they cost?"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from benchmarks.gpu.fused import seconds


def pieces(weight: Tensor) -> list[Tensor]:
    """Three bfloat16 numbers for each float32 number, whose sum it is exactly, unless it is near the smallest ones."""
    parts = []
    for _ in range(3):
        parts.append(weight.bfloat16())
        weight = weight - parts[-1].float()
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    device = torch.device(parser.parse_args().device)
    tiny = device.type == "cpu"
    torch.manual_seed(0)
    visible, hidden = (40, 20) if tiny else (784, 500)
    weight = torch.randn(visible, hidden, device=device)
    parts = pieces(weight)
    assert torch.equal(sum(part.double() for part in parts), weight.double()), "the pieces do not add up"
    print("\n| chains | product | microseconds | largest deviation from float64 |\n|---|---|---|---|")
    for chains in (100, 10_000)[: 1 if tiny else 2]:
        bits = torch.randint(2, (chains, visible), device=device).float()
        half, stacked = bits.bfloat16(), torch.cat(parts, 1)
        exact = bits.double() @ weight.double()

        def in_pieces(half: Tensor = half, stacked: Tensor = stacked) -> Tensor:
            if tiny:  # a CPU would round the sums
                return (half.float() @ stacked.float()).unflatten(1, (3, -1)).sum(1)
            return torch.mm(half, stacked, out_dtype=torch.float32).unflatten(1, (3, -1)).sum(1)

        for name in ("float32", "TF32", "three of bfloat16"):
            torch.set_float32_matmul_precision("high" if name == "TF32" else "highest")
            call = in_pieces if name.startswith("three") else lambda bits=bits: bits @ weight
            off = float((call().double() - exact).abs().max())
            print(f"| {chains} | {name} | {1e6 * seconds(call, device, 5):.1f} | {off:.1e} |", flush=True)


if __name__ == "__main__":
    main()
