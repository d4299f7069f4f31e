"""What is loaded and what is refused; nothing that a checkpoint names is executed."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_errors import refused
from helpers_trained import grbm_on_digits, trained
from torch import Tensor, nn
from torch.utils.data import DataLoader

import ebmlab
from ebmlab import learners
from ebmlab.data.interface import Data
from ebmlab.domains import Binary, Real
from ebmlab.energies import RBM, Energy, Ising, Potts, RealMLP
from ebmlab.errors import UserError
from ebmlab.io.rebuilding import describe
from ebmlab.learners import ContrastiveDivergence, FromData, GradientGuided, Learner, RatioMatching
from ebmlab.samplers import (
    DMALA,
    ULA,
    BlockGibbs,
)
from ebmlab.trained.record import ASKING, NUM_STEPS, Record, recorded

pytestmark = pytest.mark.filterwarnings("ignore::lightning_fabric.utilities.warnings.PossibleUserWarning")


def test_what_was_made_in_python_is_made_again_with_its_settings(tmp_path: Path) -> None:
    estimator = GradientGuided(num_samples=5, advanced=True, objective="exponential")
    learner = RatioMatching(Ising.learnable(5), estimator, sampler=DMALA(0.37))
    path = trained(tmp_path, learner, DataLoader(Ising.learnable(5).domain.random(16), batch_size=8))
    again = Learner.load_from_checkpoint(path)
    assert isinstance(again, RatioMatching) and isinstance(again.estimator, GradientGuided)
    assert again.estimator.num_samples == 5 and again.sampler.step_size == pytest.approx(0.37)
    assert torch.equal(again.energy.coupling, learner.energy.coupling)


class Own(Energy):
    """An energy that holds a network, as a user would write it."""

    domains = (Real,)

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.domain = Real(3)
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(1) + x.square().sum(1)  # type: ignore[no-any-return]


def test_a_network_that_no_checkpoint_describes_is_given_back_by_the_user(tmp_path: Path) -> None:
    def build() -> Learner:
        return ContrastiveDivergence(Own(nn.Linear(3, 1)), ULA(0.1), start=FromData())

    learner = build()
    with pytest.warns(UserWarning, match=r"lack a setting \(energy is a Linear, which is no plain data\): load"):
        path = trained(tmp_path, learner, DataLoader(torch.randn(16, 3), batch_size=8))
    with pytest.raises(UserError, match=r"its energy is a Linear, which no checkpoint describes\): build it as for"):
        ebmlab.load(path)
    raw = torch.randn(7, 3)
    assert torch.equal(ebmlab.load(path, build()).energy(raw), learner(raw))


def test_what_is_no_model_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.ckpt").write_text("not a checkpoint")
    torch.save({"weights": 1}, tmp_path / "other.ckpt")
    torch.save({"state_dict": {}, "hyper_parameters": {"num_steps": 3}}, tmp_path / "old.ckpt")
    torch.save({"state_dict": {}, "hyper_parameters": None}, tmp_path / "none.ckpt")
    for name, line in {
        "gone.ckpt": "no such file; give a .ckpt file, or the folder of a run",
        "empty": "there is no checkpoint in .*empty",
        "text.ckpt": r"cannot be read as a checkpoint \(it does not begin as what torch.save writes\): it is",
        "other.ckpt": "is not a Lightning checkpoint: it has no state_dict",
        "none.ckpt": r"cannot be rebuilt as a learner \(it has no settings, which no checkpoint describes\)",
        "old.ckpt": r"cannot be rebuilt as a learner \(it has no settings, which no checkpoint describes\)",
    }.items():
        with refused(line):
            ebmlab.load(tmp_path / name)


def test_a_run_folder_gives_its_best_checkpoint_else_its_last(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(RBM(4, 2), BlockGibbs(), start=FromData())
    run = tmp_path / "checkpoints"
    run.mkdir()
    path = trained(tmp_path, learner, DataLoader(Binary(4).random(8), batch_size=4))
    for name in ("epoch=3", "last", "epoch=1", "best"):
        (run / f"{name}.ckpt").write_bytes(path.read_bytes())
    assert ebmlab.load(tmp_path).path == run / "best.ckpt"
    (run / "best.ckpt").unlink()
    assert ebmlab.load(str(tmp_path)).path == run / "last.ckpt"


def test_a_checkpoint_without_preprocessing_takes_states_and_says_so(tmp_path: Path) -> None:
    learner, data = grbm_on_digits()
    path = trained(tmp_path, learner, data)
    content = torch.load(path, weights_only=True)
    del content["preprocessing"]
    torch.save(content, path)
    with pytest.warns(UserWarning, match="model.ckpt does not say how raw data become states: give it states"):
        model = ebmlab.load(path)
    x = data.states("val", 5)
    assert torch.equal(model.energy(x.flatten(1)), learner(x))


class States(Data, pl.LightningDataModule):
    """Data whose raw numbers are the states."""

    def train_dataloader(self) -> Any:
        return DataLoader(Binary(4).random(8), batch_size=4)


def test_data_without_preprocessing_are_states_without_a_warning(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(RBM(4, 2), BlockGibbs(), start=FromData())
    model = ebmlab.load(trained(tmp_path, learner, States()))
    x = Binary(4).random(3)
    assert torch.equal(model.energy(x), learner(x))


ATTACKS: dict[str, Any] = {
    "a function": {"class_path": "os.system", "init_args": {"command": "touch executed"}},
    "a process": {"class_path": "subprocess.Popen", "init_args": {"args": ["touch", "executed"]}},
    "under another name": {"class_path": "torch.nn.Module.__init__.__globals__.os", "init_args": {}},
    "a module beside it": {"class_path": "evil_beside.Energy", "init_args": {}},
    "evaluation": {"class_path": "builtins.eval", "init_args": {"source": "1"}},
    "a function of torch": {"class_path": "torch.hub.load", "init_args": {"repo_or_dir": "a/b", "model": "c"}},
    "an optimizer's method": {"class_path": "torch.optim.Adam.step", "init_args": {}},
}


@pytest.mark.parametrize("where", ["energy", "sampler", "optimizer", "start"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_a_checkpoint_names_is_executed(
    attack: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("evil_beside.py").write_text("import pathlib; pathlib.Path('executed').touch()")
    saved: dict[str, Any] = {
        "_class_path": "ebmlab.learners.ContrastiveDivergence",
        "energy": {"class_path": "ebmlab.energies.RBM", "init_args": {"num_coordinates": 2, "num_hidden": 2}},
        "sampler": {"class_path": "ebmlab.samplers.BlockGibbs"},
    }
    saved[where] = ATTACKS[attack]
    torch.save({"state_dict": RBM(2, 2).state_dict(prefix="energy."), "hyper_parameters": saved}, "a.ckpt")
    refuse: Any = ebmlab.load if where in ("energy", "sampler") else Learner.load_from_checkpoint
    unknown = attack == "a module beside it"
    said = r"a.ckpt: evil_beside.Energy is not part of" if unknown else r"a.ckpt cannot be rebuilt as a learner \("
    with pytest.raises(UserError, match=said) as error:
        refuse("a.ckpt")
    if where in ("optimizer", "start"):  # which are not looked at where nothing trains
        with pytest.warns(UserWarning, match="does not say how raw data become states"):
            ebmlab.load("a.ckpt")
    assert "\n" not in str(error.value) and not Path("executed").exists()
    saved |= {where: None, "_class_path": "os.system", "command": "touch executed"}
    torch.save({"state_dict": {}, "hyper_parameters": saved}, "a.ckpt")
    with pytest.raises(UserError, match=r"os\.system is no class of a model"):
        ebmlab.load("a.ckpt")
    assert not Path("executed").exists()


def test_records_are_of_the_learners_that_draw_by_their_sampler_alone() -> None:
    kinds = {name: kind for name in learners.__all__ if issubclass(kind := getattr(learners, name), Learner)}
    own = {name for name, kind in kinds.items() if kind.walk is not Learner.walk or kind.draw is not Learner.draw}
    steps = {name: inspect.signature(kind).parameters["num_steps"].default for name, kind in kinds.items()}
    assert {name: steps[name] for name in kinds if name not in {*own, "Learner"}} == NUM_STEPS


DEFAULTS: dict[str, Any] = {
    "BoltzmannLearning": lambda: Potts(3, 2),
    "PseudoLikelihood": lambda: Potts(3, 2),
    "RatioMatching": lambda: RBM(3, 2),
    "ConditionalNoiseContrast": lambda: RealMLP(2),
    "NoiseContrast": lambda: RealMLP(2),
    "ScoreMatching": lambda: RealMLP(2),
}


def test_learners_that_ask_for_no_sampler_have_a_default() -> None:
    assert {*DEFAULTS, *ASKING} == {*NUM_STEPS}
    for name in NUM_STEPS:
        default = inspect.signature(getattr(learners, name)).parameters["sampler"].default
        assert (default is inspect.Parameter.empty) == (name in ASKING)


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_record_has_the_sampler_of_a_learner_that_was_given_none(name: str, tmp_path: Path) -> None:
    learner = getattr(learners, name)(DEFAULTS[name]())
    saved = {"_class_path": f"ebmlab.learners.{name}", "energy": describe(learner.energy)}
    found = recorded(tmp_path, {"state_dict": learner.state_dict(), "hyper_parameters": saved})
    assert isinstance(found, Record) and describe(found.sampler) == describe(learner.sampler)


def test_a_model_goes_to_the_device_that_is_asked_for() -> None:
    model = ebmlab.load("zoo/rbm-digits", device="meta")
    assert {p.device.type for p in model.learner.parameters()} == {"meta"}
