"""Bad input ends with exit code 2 and one line that says what is wrong and what would be right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import wandb
from helpers_tier import cases

from ebmlab.app.cli import main
from ebmlab.app.run_config import with_run_config

Fails = Callable[..., str]

NAN_DATA = """
import torch
from ebmlab.datamodules import Digits

class Broken(Digits):
    def load(self, split):
        data, labels = super().load(split)
        data = data.float() / 16
        data[3, 0, 2, 2] = float("nan")
        return data, labels
"""


def test_sampler_that_does_not_fit_the_energy(fails: Fails) -> None:
    Path("toy.py").write_text(
        "from ebmlab.domains import Real\n"
        "from ebmlab.energies import Energy\n"
        "class Quadratic(Energy):\n"
        "    def __init__(self, size: int):\n"
        "        super().__init__()\n"
        "        self.domain = Real(size)\n"
        "    def forward(self, x):\n"
        "        return x.square().sum(1) / 2\n"
    )
    Path("toy.yaml").write_text(
        "model: {init_args: {density: marginal, energy: {class_path: toy.Quadratic, init_args: {size: 64}}}}\n"
    )
    line = fails("fit", "--config", "toy.yaml")
    assert "GibbsLangevin needs a bipartite energy" in line
    assert "Quadratic" in line


def test_data_of_the_wrong_shape(fails: Fails) -> None:
    line = fails("fit", "--model.init_args.energy.init_args.num_coordinates=65")
    assert "Digits gives events of shape (1, 8, 8) (64 numbers)" in line
    assert "Real(65)" in line


def test_missing_data_folder(fails: Fails) -> None:
    options = ["--model.burn_in=0", "--data.init_args.root=nowhere", "--data.init_args.download=false"]
    line = fails("fit", *options, config="grbm_mnist_small")
    assert "nowhere" in line
    assert "grbm_digits.yaml" in line


def test_no_network_and_no_files(fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*args: object, **kwargs: object) -> None:
        raise OSError("Temporary failure in name resolution")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    options = ["--model.burn_in=0", "--data.init_args.root=nowhere", "--wandb=offline"]
    line = fails("fit", *options, config="grbm_mnist_small")
    assert "nowhere" in line
    assert "grbm_digits.yaml" in line
    assert not Path("runs").exists() and not Path("nowhere").exists()


@pytest.mark.parametrize(
    ("option", "hint"),
    [("--model.init_args.num_step=5", "num_steps"), ("--trainer.max_epochz=5", "max_epochz"), ("--modell=3", "modell")],
)
def test_misspelt_option(fails: Fails, option: str, hint: str) -> None:
    assert hint in fails("fit", option)


def test_misspelt_option_in_a_file(fails: Fails) -> None:
    Path("typo.yaml").write_text("model: {init_args: {sampler: {init_args: {stepsize: 0.1}}}}\n")
    line = fails("fit", "--config", "typo.yaml")
    assert "stepsize" in line
    assert "step_size" in line


def test_missing_config(fails: Fails) -> None:
    assert "nowhere.yaml" in fails("fit", "--config", "nowhere.yaml")


def test_corrupt_checkpoint(fails: Fails) -> None:
    Path("broken.ckpt").write_bytes(b"PK\x03\x04 cut short")
    for command in ("fit", "predict"):
        line = fails(command, "--ckpt_path", "broken.ckpt", *(["--name=x"] if command == "fit" else []))
        assert "broken.ckpt cannot be read as a checkpoint" in line
    assert not Path("runs").exists()


def test_missing_checkpoint(fails: Fails) -> None:
    assert "no such file" in fails("fit", "--ckpt_path=gone.ckpt")
    for command in ("predict", "test"):
        assert "runs/gone: no such file; give a .ckpt file" in fails(command, "--ckpt_path", "runs/gone", bare=True)
    assert "to continue" in fails("fit", "--ckpt_path=last")


def test_checkpoint_of_another_model(fails: Fails, brief_run: Path) -> None:
    line = fails("fit", "--ckpt_path=last", "--model.init_args.energy.init_args.num_hidden=16")
    assert "energy.b is (256,) in the file and (16,) in the model" in line or "energy.W is" in line


def test_nan_in_the_data(fails: Fails) -> None:
    Path("broken_data.py").write_text(NAN_DATA)
    Path("broken.yaml").write_text("data: {class_path: broken_data.Broken}\n")
    line = fails("fit", "--config", "broken.yaml")
    assert "NaN" in line
    assert "train" in line


def test_run_that_exists(fails: Fails, brief_run: Path) -> None:
    assert "--resume auto" in fails("fit", "--name=a")


def test_wandb_online_without_a_key(fails: Fails, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert "wandb login" in fails("fit", "--wandb=online")
    wandb.teardown()  # W&B reads its environment once in a process


def test_diverging_run_stops_and_says_why(fails: Fails) -> None:
    line = fails("fit", "--trainer.max_epochs=50", "--model.init_args.optimizer.init_args.lr=1000")
    assert re.search(r"step \d+, epoch \d+: .*not finite", line)
    assert "checkpoint" in line
    assert Path("runs").exists()


def test_no_command_of_that_name(fails: Fails) -> None:
    commands = "fit, validate, test, predict, score, complete, features, sample, list, compare, dashboard, sweep"
    assert f"choose {commands}, convert, zoo, mutate or solve" in fails("trian")


def test_no_config(capfd: pytest.CaptureFixture[str], run: Callable[..., None]) -> None:
    for command in ("fit", "test", "predict"):
        with pytest.raises(SystemExit) as error:
            main([command])
        assert error.value.code == 2
        assert "name a config: --config configs/grbm_digits.yaml" in capfd.readouterr().err


@cases(
    ("option", "hint"),
    [
        ("--data.init_args.batch_size=0", "batch_size is 0"),
        ("--data.init_args.batch_size=100000", "batch"),
        ("--model.init_args.energy.init_args.num_hidden=-3", "num_hidden is -3"),
        ("--model.init_args.sampler.init_args.step_size=-1", "step_size is -1"),
        ("--model.init_args.optimizer.init_args.lr=-1", "learning rate"),
        ("--model.init_args.burn_in=99", "burn_in is 99"),
        ("--trainer.strategy=dpp", "trainer.strategy is 'dpp', but must be auto, ddp, or"),
    ],
    fast=range(0, 100, 2),
)
def test_value_that_cannot_be(fails: Fails, option: str, hint: str) -> None:
    assert hint in fails("fit", option)


def test_chain_of_no_steps(fails: Fails, brief_run: Path) -> None:
    checkpoint = brief_run / "checkpoints" / "last.ckpt"
    assert "at least 1 step" in fails("predict", "--ckpt_path", checkpoint, "--num_steps=0", bare=True)


def test_run_that_ended_before_its_first_checkpoint(fails: Fails) -> None:
    Path("runs/grbm_digits/a").mkdir(parents=True)
    Path("runs/grbm_digits/a/metrics.csv").touch()
    assert "delete it" in fails("fit", "--name=a")


@pytest.mark.slow
def test_run_that_never_began_leaves_its_name_free(run: Callable[..., None]) -> None:
    Path("runs/grbm_digits/a").mkdir(parents=True)
    Path("runs/grbm_digits/a/config.yaml").touch()
    run("fit", "--trainer.max_epochs=1", "--name=a")


@cases(
    ("options", "message"),
    [
        (
            ["--callbacks.AIS.sampler={class_path: DULA, init_args: {step_size: 0.1}}"],
            "needs an exact sampler, and DULA",
        ),
        (["--model.sampler=ebmlab.samplers.BlockGibbs"], "BlockGibbs needs a bipartite energy"),
        (["--data.init_args.binarize=false"], "set the data's binarize to true"),
        (["--data.init_args.binarize=dynamc"], "binarize"),
        (["--model.start.init_args.size=50"], "size is 50, 50 slots on each rank, but a step runs 100 chains"),
        (["--model.start.init_args.init=mode"], "init"),
        (["--model.lr_interval=batch"], "lr_interval"),
        (["--model.energy_l2=-1"], "energy_l2 is -1"),
    ],
    fast=[0, 4, 7],
)
def test_persistent_cd(fails: Fails, options: list[str], message: str) -> None:
    line = fails("fit", "--trainer.fast_dev_run=true", *options, config="ebm_digits", quick=False)
    assert message in line


def test_initial_mean_without_the_mean(fails: Fails) -> None:
    Path("no_mean.yaml").write_text("trainer: {callbacks: [{class_path: callbacks.RunState}]}")
    line = fails("fit", "--config=no_mean.yaml", "--trainer.fast_dev_run=true", config="ebm_digits", quick=False)
    assert "add callbacks.DataMean" in line


@pytest.mark.parametrize(
    ("setting", "message"), [("schedule: cosine", "schedule"), ("num_chains: 0", "num_chains is 0")]
)
def test_ais_settings(fails: Fails, setting: str, message: str) -> None:
    Path("ais.yaml").write_text("trainer: {callbacks+: [{class_path: callbacks.AIS, init_args: {" + setting + "}}]}")
    line = fails("fit", "--config=ais.yaml", "--trainer.fast_dev_run=true", config="ebm_digits", quick=False)
    assert message in line


@cases("config", ["ebm_static_mnist", "ebm_caltech_acs", "rbm_omniglot", "rbm_emnist"], fast=[2])
def test_published_images_that_are_not_there(fails: Fails, config: str) -> None:
    line = fails("fit", "--data.root=nowhere", "--data.download=false", config=config, quick=False)
    assert "nowhere" in line and "configs/" in line


@pytest.mark.slow
def test_a_refused_run_leaves_its_name_free(run: Callable[..., None]) -> None:
    Path("runs/grbm_digits/a/wandb").mkdir(parents=True)
    Path("runs/grbm_digits/a/config.yaml").touch()
    run("fit", "--trainer.fast_dev_run=true", "--name=a")


@pytest.mark.slow
def test_schedules_when_max_epochs_is_unlimited_or_0(fails: Fails, run: Callable[..., None]) -> None:
    run("fit", "--trainer.max_epochs=-1", "--trainer.max_steps=9", "--name=a")  # an epoch has four batches
    content = torch.load("runs/grbm_digits/a/checkpoints/last.ckpt", weights_only=True)
    assert content["lr_schedulers"][0]["T_max"] == 3
    run("fit", *["--trainer.max_epochs=-1", "--trainer.max_steps=9", "--trainer.accumulate_grad_batches=2", "--name=c"])
    content = torch.load("runs/grbm_digits/c/checkpoints/last.ckpt", weights_only=True)
    assert content["lr_schedulers"][0]["T_max"] == 5
    assert "T_max is 0, but must be at least 1" in fails("fit", "--trainer.max_epochs=0", "--name=b")
    rises = pytest.warns(UserWarning, match="falls until epoch 3 of 4 and then rises again")
    with rises, pytest.warns(UserWarning, match="the run continues with the checkpoint's T_max = 3, not 4"):
        run("fit", "--trainer.max_epochs=-1", "--trainer.max_steps=13", "--name=a", "--resume=auto")


@pytest.mark.slow
def test_a_schedule_that_watches_a_metric(run: Callable[..., None]) -> None:
    """It waits where an epoch has no validation."""
    watched = ["--model.lr_scheduler=pytorch_lightning.cli.ReduceLROnPlateau"]
    watched += ["--model.lr_scheduler.monitor=val/energy", "--trainer.max_epochs=1"]
    run("fit", *watched, "--trainer.check_val_every_n_epoch=1")
    run("fit", *watched, "--trainer.check_val_every_n_epoch=2")


@pytest.mark.slow
def test_a_runs_folder_goes_on_from_its_last_checkpoint(run: Callable[..., None]) -> None:
    """Not from the best one: that would write over what came after it."""
    checkpoints = Path("runs/grbm_digits/a/checkpoints")
    run("fit", "--trainer.max_epochs=2", "--trainer.max_steps=4", "--name=a")
    (checkpoints / "best.ckpt").write_bytes((checkpoints / "last.ckpt").read_bytes())
    run("fit", "--trainer.max_epochs=2", "--name=a", "--resume=auto")
    args = with_run_config(["fit", "--ckpt_path", "runs/grbm_digits/a"])
    assert args[-1] == str(checkpoints / "last.ckpt")
    args = with_run_config(["test", "--ckpt_path", "runs/grbm_digits/a"])
    assert args[-1] == str(checkpoints / "best.ckpt")


@cases(
    ("option", "message"),
    [
        ("--seed_everything=-1", "seed_everything is -1"),
        ("--seed_everything=100000000000000000000", "seed_everything is 1000"),
        ("--trainer.accumulate_grad_batches=0", "accumulate_grad_batches is 0"),
        ("--trainer.strategy=fsdp", "strategy is fsdp"),
        ("--trainer.strategy=deepspeed_stage_2", "strategy is deepspeed_stage_2"),
        ("--callbacks.pytorch_lightning.callbacks.LearningRateFinder=true", "LearningRateFinder does not work"),
        ("--model.energy=3", "error: energy must be a class path, or class_path with init_args, not 3"),
        ("--callbacks.StochasticWeightAveraging=true", "StochasticWeightAveraging does not work"),
        ("--model.num_steps=99999999999999999999", "num_steps is 99999999999999999999, which is too large"),
        ("--trainer.check_val_every_n_epoch=0", "check_val_every_n_epoch is 0"),
        ("--trainer.devices=-1", "error: trainer.devices is '-1', but must be at least 1 (or auto)"),
        ("--trainer.callbacks=callbacks.Progress", "would replace all callbacks: add one by --callbacks.NAME true"),
        ("--model.optimizer.lr=1e30", "optimizer: lr is 1e+30, but must be 0 or a positive number up to 1e+18"),
        (
            "--trainer.precision=16-true --model.optimizer=torch.optim.RMSprop",  # its eps of 1e-8 is 0 in float16
            "set trainer.precision to bf16-true, or 32-true",
        ),
        ("--model.sampler=ebmlab.samplers.GibsLangevin", "did you mean ebmlab.samplers.GibbsLangevin?"),
        ("--model.optimizer=torch.optim.Adm", "did you mean torch.optim.Adam?"),
        ("--model.energy=GRBN", "did you mean ebmlab.energies.GRBM?"),
    ],
    fast=[2, 8, 10, 12],
)
def test_refused_settings_are_named(option: str, message: str, fails: Fails) -> None:
    assert message in fails("fit", *option.split(), "--name=a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data: 3", "odd.yaml: data is 3, but must be a class path"),
        ("model: [1]", "odd.yaml: model is [1], but must be a class path"),
        ("model: {class_path: 3}", "class_path is 3, but must be the dotted name of a class"),
        ("model: {energy: 3}", "energy must be a class path"),
        ("trainer: 3", "trainer is 3, but must be options"),
        ("trainer: {callbacks: {FID: {num_samples: 10}}}", "options by name belong in a section `callbacks:`"),
        ("trainer: {callbacks: [3]}", "3 is neither a class path nor has a class_path"),
        ("trainer: {callbacks: [{class_paths: callbacks.FID}]}", "is neither a class path nor has a class_path"),
        ("a: &a [*a]", "a part of it contains itself"),
    ],
)
def test_sections_of_another_kind(text: str, message: str, fails: Fails) -> None:
    Path("odd.yaml").write_text(text)
    assert message in fails("fit", "--config=odd.yaml")


@pytest.mark.slow
def test_callbacks_whose_defaults_are_enumerations(run: Callable[..., None]) -> None:
    run("fit", "--callbacks.Timer=true", "--trainer.fast_dev_run=true")


def test_an_energy_whose_states_have_two_axes(fails: Fails) -> None:
    Path("own_column.py").write_text(
        "import torch\nfrom ebmlab.domains import Real\nfrom ebmlab.energies import GRBM\n"
        "class Column(GRBM):\n    def __init__(self):\n        super().__init__(64, 8)\n"
        "    def forward(self, x):\n        return super().forward(x)[:, None]\n"
        "    def joint_energy(self, v, h):\n        return super().joint_energy(v, h)[:, None]\n"
    )
    line = fails("fit", "--model.energy=own_column.Column")
    assert "Column gives energies of shape (3, 1)" in line


def test_a_callback_with_chains_of_no_steps(fails: Fails) -> None:
    line = fails("fit", "--trainer.callbacks.num_steps=0", config="rm_2spirals", quick=False)
    assert "HammingMMD: num_steps is 0" in line
    assert not Path("runs").exists()
