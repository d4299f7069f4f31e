"""What an iteration of the deep EBM consists of: milliseconds of its parts, and what the CPU asks of the GPU.

    python -m benchmarks.gpu.iteration
    python -m benchmarks.gpu.iteration --device cpu     # tiny sizes, whose times say nothing about a GPU

The learner of `ebm_dynamic_mnist` trains on random images, with the callbacks of its config but evaluations and
checkpoints, by Lightning's Trainer and in TF32.

1. Iterations a second, as they are; then the milliseconds of each part, where each waits for the one before.
2. Kernels, graphs and copies that the CPU starts in an iteration, and how often it waits, by torch's profiler. Plain
   steps, which are thousands of kernels, are not profiled.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EMAWeightAveraging
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.fused import wait
from ebmlab.callbacks import Acceleration, DataMean, DivergenceGuard, RunState, SamplerMonitor
from ebmlab.data.interface import Split
from ebmlab.datamodules import TensorDataModule
from ebmlab.energies import ResNet
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.numerics.streams import stream
from ebmlab.samplers import DMALA, Bfloat16Proposals, Sampler

STEP_SIZE = 0.15
SETTINGS: dict[str, tuple[Sampler, int, bool]] = {  # sampler, steps, and whether they are replayed
    "replayed": (DMALA(STEP_SIZE), 40, True),
    "replayed, bf16 proposals": (Bfloat16Proposals(DMALA(STEP_SIZE), 8), 5, True),
    "plain": (DMALA(STEP_SIZE), 40, False),
}
PARTS = ("loader, Lightning", "chains and gradients", "backward", "guard", "optimizer", "average, logs")
ASKED = {
    "kernels": ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"),
    "graphs": ("cudaGraphLaunch",),
    "copies": ("cudaMemcpyAsync", "cudaMemsetAsync"),
    "waits": ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"),
}
TIMED, PARTED, PROFILED, END = 10, 20, 30, 32  # the steps after which each begins


class Images(TensorDataModule):
    """Random grey images, whose pixels are bits with their intensity as probability."""

    name = "images"

    def load(self, split: Split) -> tuple[Tensor, None]:
        generator = stream("images", ("train", "val", "test").index(split))
        return torch.randint(256, (5000, *self.event_shape), dtype=torch.uint8, generator=generator), None


class Clock:
    """Notes how long the parts of iterations take, and what the CPU asks of the GPU.

    Args:
        device: to wait for.
        report: is called when the parts have been timed.
        end: the iteration after which the training ends. Without one after `PROFILED` nothing is profiled.
    """

    def __init__(
        self, device: torch.device, report: Callable[[Clock], None] = lambda _: None, *, end: int = END
    ) -> None:
        self.device, self.report, self.end = device, report, end
        self.rate, self.asked = 0.0, Counter[str]()
        self.seconds: dict[str, list[float]] = {part: [] for part in PARTS}
        self._last = self._begin = 0.0
        self._profile: Any = None

    def part(self, name: str, step: int) -> None:
        """A part has ended; `step` iterations are over."""
        if PARTED <= step < PROFILED:
            wait(self.device)
            now = time.perf_counter()
            if self._last:
                self.seconds[name].append(now - self._last)
            self._last = now

    def iteration(self, step: int) -> None:
        """So many iterations are over."""
        if step in (TIMED, PARTED):
            wait(self.device)
            now, before = time.perf_counter(), self._begin
            self._begin, self.rate = now, (PARTED - TIMED) / (now - before)
        if step == PROFILED:
            self.report(self)  # before a profiler could fail
        if step == PROFILED and self.end > PROFILED:
            gpu = [ProfilerActivity.CUDA] if self.device.type == "cuda" else []
            self._profile = profile(activities=[ProfilerActivity.CPU, *gpu])
            self._profile.start()
        if step == END:
            wait(self.device)
            self._profile.stop()
            self.asked.update({event.key: event.count for event in self._profile.key_averages()})


class First(pl.Callback):
    """Its hooks come before those of the other callbacks."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self.clock.part("loader, Lightning", trainer.global_step)

    def on_before_backward(self, trainer: pl.Trainer, *_: Any) -> None:
        self.clock.part("chains and gradients", trainer.global_step)

    def on_after_backward(self, trainer: pl.Trainer, *_: Any) -> None:
        self.clock.part("backward", trainer.global_step)

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.clock.part("optimizer", trainer.global_step - 1)


class Last(pl.Callback):
    """Its hooks come after those of the other callbacks."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_before_optimizer_step(self, trainer: pl.Trainer, *_: Any) -> None:
        self.clock.part("guard", trainer.global_step)

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.clock.part("average, logs", trainer.global_step - 1)
        self.clock.iteration(trainer.global_step)


def measured(clock: Clock, sampler: Sampler, num_steps: int, *, replayed: bool) -> None:
    """Trains until the clock's end."""
    tiny = clock.device.type == "cpu"
    torch.manual_seed(0)
    learner = ContrastiveDivergence(
        ResNet((1, 8, 8), 8) if tiny else ResNet((1, 28, 28)),
        sampler,
        start=ReplayBuffer(10_000, init="mean"),
        num_steps=max(1, num_steps // 10) if tiny else num_steps,
        optimizer=partial(torch.optim.Adam, lr=1e-4),
        compile_chains=replayed and not tiny,
    )
    own = [DataMean(), DivergenceGuard(), EMAWeightAveraging(decay=0.999), Acceleration(compile=False)]
    trainer = pl.Trainer(
        accelerator="cpu" if tiny else "gpu",
        devices=1,
        max_steps=clock.end,
        limit_val_batches=0,
        log_every_n_steps=10,
        callbacks=[First(clock), *own, SamplerMonitor(), RunState(), Last(clock)],
        **dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False),
    )
    side = learner.energy.domain.event_shape[-1]
    trainer.fit(learner, Images((1, side, side), 100, seed=0, binarize="dynamic"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    device = torch.device(parser.parse_args().device)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    os.environ |= {"DISABLE_CUPTI_LAZY_REINIT": "1", "TEARDOWN_CUPTI": "0"}  # which CUDA graphs would not survive
    with profile():  # the profiler has to be there before the first graph
        torch.ones(1, device=device)
    print(f"\n| setting | iterations a second | {' | '.join(PARTS)}, ms |\n|---|---|{'---|' * len(PARTS)}", flush=True)
    lines = []
    for name, (sampler, num_steps, replayed) in SETTINGS.items():
        clock = Clock(device, partial(_report, name), end=END if replayed else PROFILED)
        measured(clock, sampler, num_steps, replayed=replayed)
        if replayed:
            counts = [sum(clock.asked[key] for key in keys) for keys in ASKED.values()]
            counts.append(sum(n for key, n in clock.asked.items() if key.startswith("aten::")))
            lines.append(f"| {name} | {' | '.join(f'{count / (END - PROFILED):.0f}' for count in counts)} |")
    print(f"\n| an iteration | {' | '.join(ASKED)} | operators on the CPU |\n|---|{'---|' * (len(ASKED) + 1)}")
    print("\n".join(lines), flush=True)


def _report(name: str, clock: Clock) -> None:
    cells = [f"{1000 * median(clock.seconds[part]):.2f}" for part in PARTS]
    print(f"| {name} | {clock.rate:.1f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
