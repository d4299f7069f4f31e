"""Persistent CD by block Gibbs goes on from the hidden units of the last step. Adam steps in one pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers_trainer import quiet_trainer

from ebmlab.callbacks import RunState
from ebmlab.datamodules.tensor_loader import TensorLoader
from ebmlab.energies import GRBM, RBM, Bipartite
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.learners.one_pass import in_one_pass
from ebmlab.samplers import BlockGibbs

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no"),
]
DATA = torch.randint(2, (20, 6), generator=torch.Generator().manual_seed(1)).float()


class Silent(ContrastiveDivergence):
    log_is_due = False  # type: ignore[assignment]


def energy_of(name: str) -> Bipartite:
    torch.manual_seed(3)
    return {"RBM": RBM(6, 4), "gaussian": RBM(6, 4, hidden="gaussian"), "GRBM": GRBM(6, 4)}[name]


@pytest.mark.parametrize("name", ["RBM", "gaussian", "GRBM"])
def test_chains_of_many_training_steps_are_one_chain_of_block_gibbs(name: str) -> None:
    """While the parameters stay, the states are those of one chain of as many steps, number by number."""
    energy, buffer = energy_of(name), ReplayBuffer(20)
    learner, first = Silent(energy, BlockGibbs(), start=buffer, num_steps=2), energy.random(20)
    buffer.slots = first.clone()
    torch.manual_seed(5)
    states = [state.x for state, _ in BlockGibbs().chain(energy, first, 10)]
    torch.manual_seed(5)
    for step in range(5):
        learner.training_step(DATA, step)
        assert buffer.slots is not None and torch.equal(buffer.slots.float(), states[2 * step + 1])


def test_a_step_of_pcd_1_multiplies_by_w_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data to hidden, hidden to visible, visible to hidden; the first step alone needs hidden units of its chains."""
    energy, calls = energy_of("RBM"), []
    for name in ("hidden_given_visible", "visible_given_hidden"):
        inner = getattr(RBM, name)
        monkeypatch.setattr(RBM, name, lambda self, x, inner=inner: calls.append(1) or inner(self, x))
    learner = Silent(energy, BlockGibbs(), start=ReplayBuffer(20))
    counts = []
    for step in range(3):
        learner.training_step(DATA, step)
        counts.append(len(calls))
    assert counts == [4, 7, 10]


@pytest.mark.parametrize("buffer", [ReplayBuffer(30), ReplayBuffer(20, reinitialize=0.1)], ids=["larger", "renewed"])
def test_chains_that_do_not_all_go_on_draw_them_anew(buffer: ReplayBuffer) -> None:
    learner = Silent(energy_of("RBM"), BlockGibbs(), start=buffer)
    learner.training_step(DATA, 0)
    assert buffer.hidden() is None


def test_others_who_set_or_move_the_chains_end_them() -> None:
    buffer = ReplayBuffer(20)
    learner = Silent(energy_of("RBM"), BlockGibbs(), start=buffer)
    for change in (
        lambda: setattr(buffer, "slots", DATA.to(torch.int8)),
        lambda: buffer.move(learner.energy, DATA, step=lambda x: 1 - x, at_once=20),
        lambda: buffer.put_back(DATA),
    ):
        learner.training_step(DATA, 0)
        assert buffer.hidden() is not None
        change()
        assert buffer.hidden() is None


def fit(folder: Path, epochs: int, *, hidden: str, **settings: object) -> tuple[object, ContrastiveDivergence]:
    torch.manual_seed(0)
    learner = ContrastiveDivergence(RBM(6, 4, hidden=hidden), BlockGibbs(), start=ReplayBuffer(10))  # type: ignore[arg-type]
    trainer = quiet_trainer(folder, max_epochs=epochs, callbacks=[RunState()])
    trainer.fit(learner, TensorLoader(DATA, 10), **settings)  # type: ignore[arg-type]
    return trainer, learner


@pytest.mark.parametrize("hidden", ["bits", "gaussian"])
def test_a_checkpoint_holds_them_and_one_of_before_goes_on_without(hidden: str, tmp_path: Path) -> None:
    _, whole = fit(tmp_path, 4, hidden=hidden)
    trainer, _ = fit(tmp_path / "half", 2, hidden=hidden)
    path = tmp_path / "half.ckpt"
    trainer.save_checkpoint(path)  # type: ignore[attr-defined]
    content = torch.load(path, weights_only=True)
    assert isinstance(content["replay_buffer_hidden"], dict) == (hidden == "bits")  # packed
    _, resumed = fit(tmp_path / "resumed", 4, hidden=hidden, ckpt_path=str(path))
    assert torch.equal(resumed.start.slots, whole.start.slots)  # type: ignore[attr-defined]
    assert torch.equal(resumed.start.hidden(), whole.start.hidden())  # type: ignore[arg-type]
    for a, b in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(a, b)
    del content["replay_buffer_hidden"]
    torch.save(content, path)
    _, older = fit(tmp_path / "older", 4, hidden=hidden, ckpt_path=str(path))
    assert older.global_step == 8 and older.start.hidden() is not None


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("settings", [{}, {"weight_decay": 0.1, "betas": (0.5, 0.9)}], ids=["plain", "decay"])
def test_adam_in_one_pass_is_adam(kind: type[torch.optim.Adam], settings: dict[str, object]) -> None:
    torch.manual_seed(0)
    first = [torch.randn(7, 5, dtype=torch.float64), torch.randn(3, dtype=torch.float64)]
    mine, plain = ([torch.nn.Parameter(p.clone()) for p in first] for _ in range(2))
    fused, looped = in_one_pass(kind(mine, lr=0.1, **settings)), kind(plain, lr=0.1, foreach=False, **settings)  # type: ignore[arg-type]
    assert fused.param_groups[0]["fused"] and not looped.param_groups[0]["fused"]
    for _ in range(10):
        for a, b in zip(mine, plain, strict=True):
            a.grad = b.grad = torch.randn_like(a)
        fused.step()
        looped.step()
    for a, b in zip(mine, plain, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("settings", [{"foreach": True}, {"fused": False}, {"amsgrad": True}], ids=str)
def test_settings_of_the_user_stay(settings: dict[str, bool]) -> None:
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))], **settings)  # type: ignore[arg-type]
    before = dict(optimizer.param_groups[0])
    assert in_one_pass(optimizer).param_groups[0] == before
    assert not in_one_pass(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))])).param_groups[0]["fused"]
