from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from ebmlab import callbacks
from ebmlab.callbacks import (
    FID,
    DivergenceGuard,
    ParameterImages,
    PeriodicEvaluation,
    RunState,
    SampleGrid,
    SamplerMonitor,
)
from ebmlab.callbacks.isolated_evaluation import isolated
from ebmlab.callbacks.periodic import NO_STATE
from ebmlab.errors import UserError


def is_evaluation(item):
    return inspect.isclass(item) and issubclass(item, PeriodicEvaluation) and item is not PeriodicEvaluation


class Record(PeriodicEvaluation):
    """Records when it runs, and logs the step."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.ran: list[tuple[str, int]] = []

    def evaluate(self, trainer, pl_module):
        assert not pl_module.training
        assert not torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        self.draw = torch.rand(())
        self.ran.append((str(trainer.state.fn.value), trainer.global_step))
        self.log_metrics(trainer, pl_module, {"test/step": float(trainer.global_step)})


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, [0, 4, 8, 12]),
        ({"at_start": False}, [4, 8, 12]),
        ({"every_n_epochs": 2}, [0, 8, 12]),
        ({"every_n_epochs": 9}, [0, 12]),
    ],
)
def test_when_it_runs_in_fit(setup, squares, settings, steps):
    callback = Record(**settings)
    learner, trainer = setup([callback], max_epochs=3, limit_val_batches=1)
    trainer.fit(learner, datamodule=squares)
    assert callback.ran == [("fit", k) for k in steps]
    assert trainer.callback_metrics["test/step"] == 12


def test_a_fast_dev_run_evaluates_once(setup, squares):
    callback = Record()
    learner, trainer = setup([callback], fast_dev_run=True)
    trainer.fit(learner, datamodule=squares)
    assert callback.ran == [("fit", 1)]


def test_ranks_draw_different_chains_and_share_them_out(setup):
    """Seven chains over three ranks; the second has other noise than the first."""
    learner, _ = setup([])

    def drawn(rank):
        trainer = SimpleNamespace(global_rank=rank, world_size=3, is_global_zero=False)
        return torch.cat(list(Record(seed=5).samples(trainer, learner, 7)))

    parts = [drawn(rank) for rank in range(3)]
    assert [len(part) for part in parts] == [3, 2, 2]
    assert len(torch.cat(parts).unique(dim=0)) == 7
    assert torch.equal(drawn(1), parts[1])


def test_it_runs_in_validate_and_test_and_fills_their_tables(setup, squares):
    callback = Record()
    learner, trainer = setup([callback], limit_val_batches=None, enable_model_summary=False)
    (results,) = trainer.validate(learner, squares, verbose=False)
    assert results["test/step"] == 0
    trainer.test(learner, squares, verbose=False)
    assert callback.ran == [("validate", 0), ("test", 0)]


def test_the_state_under_an_earlier_name_of_a_callback_is_found() -> None:
    callback = callbacks.AIS(num_chains=3)
    key, state = callback.state_key, {"last_step": 7, "metrics": {"ais/log_z": 1.5}}
    assert key.startswith("AIS{")
    earlier = f"AISEvaluation{key.removeprefix('AIS')}".replace("'num_moves': ", "'moves': ")
    checkpoint = {"callbacks": {earlier: state}}
    callback.on_load_checkpoint(pl.Trainer(logger=False), pl.LightningModule(), checkpoint)
    callback.load_state_dict(checkpoint["callbacks"][key])
    assert callback.state_dict()["last_step"] == 7


def test_a_resumed_run_does_not_repeat_evaluations_and_keeps_their_metrics(setup, squares, tmp_path):
    learner, trainer = setup([Record(every_n_epochs=2)], max_epochs=2)
    trainer.fit(learner, datamodule=squares)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    callback = Record(every_n_epochs=2)
    monitor = ModelCheckpoint(tmp_path / "ck", monitor="test/step", save_on_train_epoch_end=True)
    seen = pl.callbacks.LambdaCallback(
        on_train_epoch_end=lambda t, _: found.append(float(t.callback_metrics["test/step"]))
    )
    found: list[float] = []
    learner, trainer = setup([callback, monitor, seen], max_epochs=3, enable_checkpointing=True)
    trainer.fit(learner, datamodule=squares, ckpt_path=tmp_path / "a.ckpt", weights_only=True)
    assert callback.ran == [("fit", 12)]
    assert found == [8] and monitor.best_model_score is None, "the score of step 8 is known, and is not that of step 12"


@pytest.mark.parametrize("period", [{}, {"save_on_train_epoch_end": False}, {"every_n_train_steps": 4}])
@pytest.mark.parametrize("validation", [1, 2, 10])
def test_the_best_of_a_score_is_kept_however_rarely_a_run_validates(setup, squares, tmp_path, period, validation):
    """Validation comes before the evaluation at the end of an epoch; the smallest step is the first evaluated."""
    best = ModelCheckpoint(tmp_path, monitor="test/step", filename="best", **period)
    settings = {"max_epochs": 4, "limit_val_batches": 1, "check_val_every_n_epoch": validation}
    learner, trainer = setup([RunState(), Record(every_n_epochs=2), best], enable_checkpointing=True, **settings)
    trainer.fit(learner, datamodule=squares)
    kept = torch.load(best.best_model_path, weights_only=True)
    assert best.best_model_score == kept["global_step"] == 8


def test_a_run_killed_in_its_last_evaluation_catches_up_on_it(setup, squares, tmp_path):
    killed, caught_up = Record(every_n_epochs=9, at_start=False), Record(every_n_epochs=9, at_start=False)
    killed.evaluate = lambda *_: 1 / 0
    path = tmp_path / "last.ckpt"
    for callback in (killed, caught_up):
        keep = ModelCheckpoint(tmp_path, save_last=True, save_on_train_epoch_end=True)
        settings = {"max_epochs": 2, "limit_val_batches": 1, "enable_checkpointing": True}
        learner, trainer = setup([callback, keep], **settings)
        if callback is killed:
            with pytest.raises(ZeroDivisionError):
                trainer.fit(learner, datamodule=squares)
        else:
            trainer.fit(learner, datamodule=squares, ckpt_path=path)
            assert callback.ran == [("fit", 8)] and trainer.callback_metrics["test/step"] == 8
    again = Record(every_n_epochs=9, at_start=False)
    learner, trainer = setup([again, ModelCheckpoint(tmp_path, save_last=True)], **settings)
    trainer.fit(learner, datamodule=squares, ckpt_path=path)
    assert again.ran == []


def test_the_evaluation_after_the_last_checkpoint_is_not_made_again(setup, squares, tmp_path):
    """The third epoch is no multiple of two: its evaluation joins `last.ckpt`, of which all else stays the same."""
    path, ran, ended = tmp_path / "last.ckpt", [], []
    for end in (3, 3, 4):
        callbacks = [Record(every_n_epochs=2), type("Other", (Record,), {})(every_n_epochs=2)]
        keep = ModelCheckpoint(tmp_path, save_last=True, save_on_train_epoch_end=True)
        settings = {"max_epochs": end, "limit_val_batches": 1, "enable_checkpointing": True}
        learner, trainer = setup([RunState(), *callbacks, keep], **settings)
        trainer.fit(learner, datamodule=squares, ckpt_path=path if ran else None, weights_only=True)
        ran.append([[step for _, step in callback.ran] for callback in callbacks])
        ended.append(learner)
    assert ran == [[[0, 8, 12]] * 2, [[], []], [[16], [16]]]
    whole, trainer = setup([RunState()], max_epochs=4, limit_val_batches=1)
    trainer.fit(whole, datamodule=type(squares)())
    assert all(torch.equal(p, q) for p, q in zip(whole.parameters(), ended[-1].parameters(), strict=True))


@pytest.mark.slow
def test_evaluations_do_not_change_the_random_numbers_of_training(setup, squares):
    everything = [
        SampleGrid(num_samples=4),
        FID(num_samples=20, every_n_epochs=1),
        ParameterImages(),
        SamplerMonitor(),
        DivergenceGuard(),
        RunState(),
        Record(),
    ]
    learner, trainer = setup(everything, "with")
    trainer.fit(learner, datamodule=squares)
    stream = torch.get_rng_state()
    bare, trainer = setup([], "without")
    trainer.fit(bare, datamodule=type(squares)())
    assert all(torch.equal(p, q) for p, q in zip(learner.parameters(), bare.parameters(), strict=True))
    assert torch.equal(stream, torch.get_rng_state())


def test_isolation_is_undone_after_an_exception():
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Dropout().eval())
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), isolated(model, seed=3):
        assert not model[0].training
        torch.rand(5)
        raise ZeroDivisionError
    assert torch.equal(before, torch.get_rng_state())
    assert [m.training for m in model] == [True, False]
    assert torch.is_grad_enabled()


def test_an_apple_gpu_keeps_its_random_numbers(monkeypatch):
    stream = [7]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "manual_seed", lambda seed: stream.__setitem__(0, seed))
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: stream[0])
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda state: stream.__setitem__(0, state))
    with isolated(torch.nn.Linear(1, 1), seed=3):
        assert stream == [3]
    assert stream == [7]


def test_intervals_must_be_positive():
    with pytest.raises(UserError, match="every_n_epochs is 0"):
        Record(every_n_epochs=0)


@pytest.mark.slow
def test_callbacks_of_one_class_have_states_of_their_own(setup, squares, tmp_path):
    rare, often = SampleGrid(num_samples=4, every_n_epochs=2), SampleGrid(num_samples=5)
    learner, trainer = setup([rare, often], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    saved = torch.load(tmp_path / "a.ckpt", weights_only=True)["callbacks"]
    assert {rare.state_key, often.state_key} <= set(saved) and rare.state_key != often.state_key
    assert SampleGrid(num_samples=4, every_n_epochs=9, at_start=False).state_key == rare.state_key


def test_callbacks_of_one_class_write_pictures_and_metrics_of_their_own(setup, squares):
    class Two(PeriodicEvaluation):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = value

        def evaluate(self, trainer, pl_module):
            self.log_metrics(trainer, pl_module, {"a/b": self.value})

    grids = [SampleGrid(num_samples=4), SampleGrid(num_samples=9)]
    learner, trainer = setup([*grids, Two(1.0), Two(2.0), Two(3.0)], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    assert [float(trainer.callback_metrics[name]) for name in ("a/b", "a/b_2", "a/b_3")] == [1.0, 2.0, 3.0]
    pictures = {path.name for path in Path(trainer.default_root_dir, "images").glob("*_step0000000.png")}
    assert pictures >= {"samples-grid_step0000000.png", "samples-grid_2_step0000000.png"}
    (scores,) = trainer.test(learner, squares, verbose=False)
    assert (scores["a/b"], scores["a/b_3"]) == (1.0, 3.0)


def test_fids_by_two_extractors_are_told_apart_by_their_names():
    trainer = pl.Trainer(logger=False, callbacks=[FID("inception"), FID(), FID(num_samples=10)])
    keys = [fid.key(trainer, "fid") for fid in trainer.callbacks if isinstance(fid, FID)]
    assert keys == ["fid", "fid", "fid_2"]


@pytest.mark.parametrize("evaluation", [c for c in vars(callbacks).values() if is_evaluation(c)])
def test_every_setting_that_matters_is_in_the_state_key(evaluation):
    """A setting that a class forgets to keep under its name would let two callbacks overwrite each other's states."""
    settings = set(inspect.signature(evaluation).parameters) - NO_STATE
    made = evaluation("structure.pdb") if evaluation is callbacks.Contacts else evaluation()
    assert settings <= set(vars(made))


def test_ranks_draw_their_shares_in_batches(setup, squares, monkeypatch):
    learner, trainer = setup([])
    sizes, firsts = {}, []
    for rank in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(type(trainer), "global_rank", rank)
            patch.setattr(type(trainer), "world_size", 3)
            batches = list(Record(seed=4).samples(trainer, learner, num_samples=7, num_steps=1, batch_size=2))
        sizes[rank] = [len(x) for x in batches]
        firsts.append(batches[0][0])
    assert sizes == {0: [2, 1], 1: [2], 2: [2]}
    assert not torch.equal(firsts[0], firsts[1]) and not torch.equal(firsts[1], firsts[2])
    torch.manual_seed(4)
    assert torch.equal(firsts[0], learner.draw(torch.randn(2, 36), 1)[0])
    monkeypatch.setattr(type(trainer), "world_size", 9)
    monkeypatch.setattr(type(trainer), "global_rank", 8)
    assert [tuple(x.shape) for x in Record().samples(trainer, learner, num_samples=7)] == [(0, 36)]
