"""DMALA on a ResNet of 64 channels, images of 28 x 28 pixels. It and a smaller one in training by persistent CD."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from benchmarks import published
from benchmarks.cases.rbm import training
from benchmarks.cases.targets import repeating, sampling
from benchmarks.harness import Contestant, Race, race
from ebmlab.energies import Energy, ResNet
from ebmlab.learners import ReplayBuffer
from ebmlab.samplers import DMALA, Bfloat16Proposals, Sampler

CHAINS, STEP_SIZE, TRAINING_STEPS, INNER = 100, 0.15, 40, 8


def images(n: int) -> Tensor:
    return torch.randint(2, (n, 1, 28, 28), generator=torch.Generator().manual_seed(1)).float()


class ByAutograd(ResNet):
    """The network whose gradient is not written out."""

    value_and_grad = Energy.value_and_grad


def energy(kind: type[ResNet] = ResNet, channels: int = 64) -> ResNet:
    torch.manual_seed(0)
    return kind((1, 28, 28), channels)


def convolutions(times: int, weights: bool, channels: int = 64) -> Contestant:
    """The products of an evaluation, forward and backward, channels last; with `weights` those of their gradients too.

    The three convolutions in front of the first activation are one product of patches.
    """
    net = energy(channels=channels).net.to(memory_format=torch.channels_last)
    for parameter in net.parameters():
        parameter.requires_grad_(weights)
    blocks = list(net)[1:]
    first = torch.rand(25, 2 * channels, requires_grad=weights)
    patches = torch.rand(CHAINS * 14 * 14, 25)

    def run() -> None:
        for _ in range(times):
            parts = (patches.clone().requires_grad_() @ first).view(CHAINS, 14, 14, 2, channels).permute(3, 0, 4, 1, 2)
            y = blocks[0].second(parts[0]) + parts[1]
            for block in blocks[1:]:
                y = block.second(block.first(y)) + block.shortcut(y)
            y.backward(y)

    return Contestant(run)


def flat_log_prob(net: ResNet, memory_format: torch.memory_format = torch.contiguous_format) -> published.LogProb:
    """The network as it is written, one layer after the other; the authors' has torch's own memory format."""
    net.net.to(memory_format=memory_format)

    def log_prob(x: Tensor) -> Tensor:
        images = x.view(-1, 1, 28, 28)
        return net.linear(net.net(images).mean((2, 3))).squeeze(1) - net.base_energy(images)

    return log_prob


@race("resnet-dmala")
def step() -> Race:
    x, steps = images(CHAINS), 10

    def plain(memory_format: torch.memory_format) -> Contestant:
        step = partial(published.dmala, flat_log_prob(energy(), memory_format), step_size=STEP_SIZE)
        return repeating(step, x.flatten(1), steps, published.ADJUSTED)

    return Race(
        "DMALA, ResNet-64 on 28 x 28, 100 chains",
        steps,
        {
            "ebmlab": lambda: sampling(DMALA(STEP_SIZE), energy(), x, steps),
            "ebmlab, by autograd": lambda: sampling(DMALA(STEP_SIZE), energy(ByAutograd), x, steps),
            "published": lambda: plain(torch.contiguous_format),
            "published, channels last": lambda: plain(torch.channels_last),
            "floor": lambda: convolutions(steps, weights=False),
        },
    )


@race("resnet-pcd")
def pcd() -> Race:
    return training_race(64)


@race("resnet16-pcd")
def small_pcd() -> Race:
    return training_race(16)


def training_race(channels: int) -> Race:
    x = images(CHAINS)

    def plain() -> Contestant:
        net, held = energy(channels=channels), {"chains": x.flatten(1)}
        optimizer, f = torch.optim.Adam(net.parameters(), lr=1e-4), flat_log_prob(net)

        def run() -> None:
            y = held["chains"]
            for _ in range(TRAINING_STEPS):
                y = published.dmala(f, y, STEP_SIZE).detach()
            held["chains"] = y
            optimizer.zero_grad()
            (f(y).mean() - f(x.flatten(1)).mean()).backward()
            optimizer.step()

        return Contestant(run)

    def least() -> Contestant:
        chain, both = convolutions(TRAINING_STEPS, False, channels), convolutions(2, True, channels)
        return Contestant(lambda: (chain.run(), both.run()))

    def ours(sampler: Sampler, num_steps: int) -> Contestant:
        net, adam = energy(channels=channels), partial(torch.optim.Adam, lr=1e-4)
        return training(net, sampler, [x], start=ReplayBuffer(CHAINS), num_steps=num_steps, optimizer=adam)

    def rounded() -> Contestant:
        plainly = ours(DMALA(STEP_SIZE), TRAINING_STEPS)

        def run() -> None:
            with torch.autocast("cpu", torch.bfloat16):
                plainly.run()

        return Contestant(run)

    return Race(
        f"PCD with 40 steps of DMALA, ResNet-{channels}, batch 100",
        1,
        {
            "ebmlab": lambda: ours(DMALA(STEP_SIZE), TRAINING_STEPS),
            "ebmlab, chains in bfloat16": lambda: ours(
                Bfloat16Proposals(DMALA(STEP_SIZE), INNER), TRAINING_STEPS // INNER
            ),
            "ebmlab, bf16-mixed": rounded,
            "published": plain,
            "floor": least,
        },
        unit="s",
    )
