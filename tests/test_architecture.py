"""The skeletons of docs/architecture.md run as they stand, and do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_finite import DOMAINS
from helpers_trainer import quiet_trainer

from ebmlab.energies import RBM, Energy
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_log_z
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.samplers import BlockGibbs
from ebmlab.testing import Rugged, assert_invariant

ROOT = Path(__file__).parents[1]
NAMES = ("Pairs", "Tamed", "PseudoLikelihood", "ExactLogZ", "Stripes")


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The classes of the page's blocks, each block run in a namespace of its own."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(), re.S)
    classes: dict[str, Any] = {}
    for name, block in zip(NAMES, blocks, strict=True):
        names: dict[str, Any] = {"__name__": "page"}
        exec(block, names)
        classes[name] = names[name]
    return classes


def shaken(energy: Any) -> Any:
    for p in energy.parameters():
        torch.nn.init.normal_(p)
    return energy.double()


def test_the_energy_is_in_closed_form(page: dict[str, Any]) -> None:
    torch.manual_seed(0)
    energy = shaken(page["Pairs"](6))
    x = energy.domain.random(9).double()
    value, grad = energy.value_and_grad(x)
    by_autograd = Energy.value_and_grad(energy, x)
    torch.testing.assert_close((value, grad), by_autograd)
    torch.testing.assert_close(energy.flip_differences(x), Energy.flip_differences(energy, x))
    some = torch.tensor([[4, 0]]).expand(9, 2)
    torch.testing.assert_close(energy.flip_differences(x, some), Energy.flip_differences(energy, x, some))


@pytest.mark.parametrize("domain", ["binary", "spin"])
def test_the_sampler_is_exact(page: dict[str, Any], domain: str) -> None:
    assert assert_invariant(page["Tamed"](0.8, 1.0), Rugged(DOMAINS[domain])).exact


def test_the_learners_gradient_is_0_at_its_datas_law(page: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    energy = shaken(page["Pairs"](5))
    learner = page["PseudoLikelihood"](energy)
    monkeypatch.setattr(learner, "log", lambda *_, **__: None)
    states = energy.domain.enumerate().double()
    weights = (-energy(states)).softmax(0).detach()
    copies = (weights * 200_000).round().long()
    data = states.repeat_interleave(copies, 0)

    def gradient() -> torch.Tensor:
        learner.training_step(data, 0).backward()
        flat = torch.cat([p.grad.flatten() for p in energy.parameters()])
        energy.zero_grad()
        return flat

    assert gradient().norm() < 1e-4
    with torch.no_grad():
        energy.bias += 0.3
    grad = gradient()[-5:]
    assert (grad > 1e-2).all(), "downhill is back"


def test_the_callback_logs_log_z_and_leaves_training_alone(page: dict[str, Any], tmp_path: Path) -> None:
    def train(callbacks: list[pl.Callback]) -> tuple[RBM, dict[str, Any]]:
        pl.seed_everything(0)
        data = page["Stripes"](side=3, num_samples=200)
        learner = ContrastiveDivergence(RBM(9, 3), BlockGibbs(), start=FromData(), num_steps=1)
        trainer = quiet_trainer(tmp_path, max_epochs=2, log_every_n_steps=1, callbacks=callbacks)
        trainer.fit(learner, data)
        return learner.energy, trainer.callback_metrics

    plain, _ = train([])
    looked_at, metrics = train([page["ExactLogZ"]()])
    torch.testing.assert_close(dict(looked_at.named_parameters()), dict(plain.named_parameters()), rtol=0, atol=0)
    assert float(metrics["exact/log_z"]) == pytest.approx(float(exact_log_z(looked_at)), rel=1e-6)
    with pytest.raises(UserError, match="ExactLogZ sums over all states"):
        page["ExactLogZ"]().check(pl.Trainer(logger=False), ContrastiveDivergence(RBM(30, 3), BlockGibbs()))


def test_the_data_are_stripes(page: dict[str, Any]) -> None:
    data = page["Stripes"](side=4, num_samples=500)
    x = data.states("train")[:, 0]
    same_rows = (x == x[:, :, :1]).all((1, 2))
    same_columns = (x == x[:, :1]).all((1, 2))
    assert (same_rows | same_columns).all() and 150 < int(same_rows.sum()) < 400
    assert not torch.equal(data.raw("train"), data.raw("test"))
    assert torch.equal(page["Stripes"](side=4, num_samples=500).raw("val"), data.raw("val"))
