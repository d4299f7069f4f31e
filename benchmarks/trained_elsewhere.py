"""RBMs of one size, trained by four packages for the same time of a processor and judged by one estimator of log Z.

`python -m benchmarks.trained_elsewhere 30` prints the table for 30 seconds each. All learn by persistent contrastive
divergence with one Gibbs step, batches of 100, plain gradient ascent at one rate, on MNIST's training images cut at
1/2; they are judged on 2,000 test images. `ebmlab.exchange` reads what rbms, scikit-learn and ebmkit have trained.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ebmlab.datamodules import MNIST
from ebmlab.energies import RBM
from ebmlab.exchange import make, read
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import BlockGibbs
from ebmlab.trained.likelihood import computed_log_z

HIDDEN, BATCH, RATE = 100, 100, 0.05
Step = Callable[[Tensor], object]


def ebmlab_steps() -> tuple[Step, Callable[[], RBM]]:
    energy = RBM(784, HIDDEN)
    learner = ContrastiveDivergence(energy, BlockGibbs(), start=ReplayBuffer(BATCH), num_steps=1)
    optimizer = torch.optim.SGD(energy.parameters(), lr=RATE)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        learner.training_step(x, 0).backward()
        optimizer.step()

    return step, lambda: energy


def rbms_steps() -> tuple[Step, Callable[[], RBM]]:
    from rbms.training.pcd import fit_batch_pcd

    machine = make(RBM(784, HIDDEN), "rbms")
    machine.init_grad()
    optimizer = torch.optim.SGD(machine.parameters(), lr=RATE, maximize=True)
    held, weights = {"chains": machine.init_chains(BATCH)}, torch.ones(BATCH)

    @torch.no_grad()
    def step(x: Tensor) -> None:
        held["chains"], _ = fit_batch_pcd((x, weights), held["chains"], machine, 1, 1.0)
        optimizer.step()

    return step, lambda: read(machine).energy  # type: ignore[return-value]


def sklearn_steps() -> tuple[Step, Callable[[], RBM]]:
    from sklearn.neural_network import BernoulliRBM

    machine = BernoulliRBM(HIDDEN, learning_rate=RATE, batch_size=BATCH, random_state=0)
    return lambda x: machine.partial_fit(x.numpy()), lambda: read(machine).energy  # type: ignore[return-value]


def ebmkit_steps() -> tuple[Step, Callable[[], RBM]]:
    import ebm
    import ebm.samplers

    machine: Any = make(RBM(784, HIDDEN), "ebmkit")
    buffer = ebm.ReplayBuffer(BATCH, (784,), init_fn=lambda shape: torch.rand(shape).round())
    loss = ebm.ContrastiveDivergence(ebm.samplers.GibbsSampler(1), buffer)
    optimizer = torch.optim.SGD(machine.parameters(), lr=RATE)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        loss(machine, x).loss.backward()
        optimizer.step()

    return step, lambda: read(machine).energy  # type: ignore[return-value]


TRAINED = {"ebmlab": ebmlab_steps, "rbms": rbms_steps, "scikit-learn": sklearn_steps, "ebmkit": ebmkit_steps}


def batches(images: Tensor) -> Iterator[Tensor]:
    """Epochs without end."""
    while True:
        yield from images[torch.randperm(len(images))].split(BATCH)


def main(seconds: float) -> None:
    """Prints a row for each package."""
    data = MNIST(binarize=True)
    data.setup("fit")
    data.setup("test")
    train, test = (data.states(split).flatten(1).float() for split in ("train", "test"))
    train = train[: len(train) // BATCH * BATCH]
    print("| trained by | updates | log-likelihood of the test images | log Z |\n|---|---|---|---|")
    for name, prepare in TRAINED.items():
        torch.manual_seed(0)
        step, trained = prepare()
        updates, begun = 0, time.process_time()
        for x in batches(train):
            step(x)
            updates += 1
            if time.process_time() - begun > seconds:
                break
        energy = trained().float().requires_grad_(False)
        found = computed_log_z(energy, [], test[:2000], 200, 2000)
        print(
            f"| {name} | {updates:,} | {float(-energy(test[:2000]).mean()) - found.log_z:.2f} | {found} |", flush=True
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(float(sys.argv[1]))
