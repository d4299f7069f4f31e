from __future__ import annotations

import copy
import shutil

import pytest
import torch

from ebmlab.callbacks import Acceleration
from ebmlab.datamodules import Digits
from ebmlab.energies import ResNet
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.numerics.float32 import Float32Settings
from ebmlab.samplers import DMALA


def check_equal(fast: ResNet, plain: ResNet) -> None:
    """Asserts equal names of parameters, energies, and gradients in x and in the parameters."""
    assert fast.state_dict().keys() == plain.state_dict().keys()
    x = plain.domain.random(6)
    for ours, theirs in zip(fast.value_and_grad(x), plain.value_and_grad(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    grads = [torch.autograd.grad(energy(x).sum(), list(energy.parameters())) for energy in (fast, plain)]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "compile",
    [
        False,
        pytest.param(
            True, marks=[pytest.mark.slow, pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler")]
        ),
    ],
)
def test_an_accelerated_energy_is_the_plain_one(setup, compile: bool) -> None:
    torch.manual_seed(0)
    energy = ResNet((1, 8, 8), channels=8)
    learner = ContrastiveDivergence(energy, DMALA(0.1), start=FromData())
    _, trainer = setup([Acceleration(compile)], learner=learner, max_epochs=1, limit_train_batches=2)
    before = torch.get_float32_matmul_precision()
    trainer.fit(learner, datamodule=Digits(binarize=True))
    plain = ResNet((1, 8, 8), channels=8)
    plain.load_state_dict(copy.deepcopy(energy.state_dict()))
    check_equal(energy, plain)
    weights = [p for p in energy.parameters() if p.dim() == 4 and min(p.shape[1:]) > 1]
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in weights)
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("asked, taken", [("high", "highest"), ("medium", "medium")])
def test_high_is_for_gpus_alone(setup, asked: str, taken: str) -> None:
    """On a CPU it would do nothing but keep oneDNN from multiplying."""
    seen = set()
    learner = ContrastiveDivergence(ResNet((1, 8, 8), channels=4), DMALA(0.1), start=FromData())
    learner.energy.register_forward_pre_hook(lambda *_: seen.add(torch.get_float32_matmul_precision()))
    _, trainer = setup(
        [Acceleration(False, matmul_precision=asked)], learner=learner, max_epochs=1, limit_train_batches=1
    )
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        trainer.fit(learner, datamodule=Digits(binarize=True))
    finally:
        torch.set_float32_matmul_precision(before)
    assert seen == {taken}


def test_energies_stay_in_float32_under_bf16() -> None:
    """Metropolis ratios of energies that are rounded to bf16 would be off by whole nats."""
    torch.manual_seed(0)
    energy = ResNet((28, 28), channels=8)
    torch.nn.init.constant_(energy.linear.bias, -300.0)
    x = energy.domain.random(20)
    with torch.autocast("cpu", torch.bfloat16):
        value, grad = energy.value_and_grad(x)
    exact, exact_grad = energy.value_and_grad(x)
    assert value.dtype == grad.dtype == torch.float32
    assert (value - exact).abs().max() < 0.05
    assert (grad - exact_grad).abs().max() < 0.05 * exact_grad.abs().max()


def test_a_precision_that_torch_does_not_know_is_refused() -> None:
    with pytest.raises(UserError, match='matmul_precision is "fast"'):
        Acceleration(matmul_precision="fast")


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch before 2.9")
@pytest.mark.parametrize("newer", [torch.backends.cuda.matmul, torch.backends.cudnn.conv], ids=["matmul", "conv"])
def test_the_newer_settings_of_torch_are_put_back(setup, newer) -> None:
    """Once one of them is set, torch refuses to tell the older ones."""
    before = Float32Settings.now()
    try:
        newer.fp32_precision = "ieee" if newer.fp32_precision == "tf32" else "tf32"
        given = [(place, place.fp32_precision) for place, _ in before.newer]
        learner = ContrastiveDivergence(ResNet((1, 8, 8), channels=4), DMALA(0.1), start=FromData())
        callback = Acceleration(False, matmul_precision="medium")
        _, trainer = setup([callback], learner=learner, max_epochs=1, limit_train_batches=1)
        trainer.fit(learner, datamodule=Digits(binarize=True))
        assert [(place, place.fp32_precision) for place, _ in given] == given
    finally:
        before.restore()
    assert torch.get_float32_matmul_precision() == "highest"
