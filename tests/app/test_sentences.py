"""What a user got wrong is said in a sentence, not as an error of the library's own."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_tier import cases

from ebmlab.app import quiet_lightning
from ebmlab.app.checks import why_idle
from ebmlab.app.class_help import class_help
from ebmlab.app.cli import main
from ebmlab.app.finished_run import read_run
from ebmlab.app.known_classes import meant
from ebmlab.app.quick_answers import answer
from ebmlab.app.quiet_lightning import quieten
from ebmlab.app.sweep_space import read_space
from ebmlab.domains import Binary
from ebmlab.energies import RBM, Energy
from ebmlab.errors import UserError
from ebmlab.io.zoo import pull
from ebmlab.learners.optimizer_check import try_optimizer
from ebmlab.samplers import Sampler

Fails = Callable[..., str]
SPAWN = ("ddp_spawn", "ddp_fork_find_unused_parameters_true", "ddp_notebook")
PERIOD = "torch.optim.lr_scheduler"


@cases(
    ("options", "message"),
    [
        (["--model.optimizer=torch.optim.SparseAdam"], "optimizer: SparseAdam does not support dense gradients"),
        (
            [f"--model.lr_scheduler={PERIOD}.StepLR", "--model.lr_scheduler.step_size=0"],
            "lr_scheduler: step_size is 0, but must be at least 1",
        ),
        (["--lr=0.003"], "there is no option --lr; did you mean --model.optimizer.lr?"),
        (["--max_epochs=3"], "there is no option --max_epochs; did you mean --trainer.max_epochs?"),
        (["--epochs=3"], "there is no option --epochs; did you mean --trainer.max_epochs?"),
        (["--learning_rate=0.003"], "there is no option --learning_rate; did you mean --model.optimizer.lr?"),
        (["--model.lr=0.003"], "ContrastiveDivergence has no option lr; did you mean --model.optimizer.lr?"),
        (["--model.step_size=0.1"], "ContrastiveDivergence has no option step_size; did you mean --model.sampler.step"),
        (
            ["--model.sampler=BlockGibbs", "--model.sampler.step_size=1"],
            "BlockGibbs has no option step_size; it has none",
        ),
        (["--data=ebmlab.energies.RBM"], "data: ebmlab.energies.RBM is no LightningDataModule"),
        (["--sampler.step_size=3"], "there is no option --sampler.step_size; did you mean --model.sampler.step_size?"),
        (["--model.energy=torch.nn.Linear"], "error: energy: torch.nn.Linear is no Energy"),
        (["--model.optimizer=ebmlab.samplers.DMALA"], "error: optimizer: ebmlab.samplers.DMALA is no Optimizer"),
        (["--model.lr_scheduler=torch.optim.Adam"], "lr_scheduler: torch.optim.Adam is no schedule of torch.optim"),
        (["--import=./a.py"], "--import is './a.py', but must be the name of a module, such as a for a.py"),
        (
            ["--trainer.max_time=abc"],
            "trainer.max_time is 'abc', but must be days, hours, minutes and seconds, such as",
        ),
        (["--trainer.max_time={weeks: 1, foo: 2}"], "but must be days, hours, minutes and seconds"),
        (["--trainer.devices=0"], "trainer.devices is '0', but must be at least 1 (or auto)"),
        (["--trainer.devices=-1"], "trainer.devices is '-1', but must be at least 1 (or auto)"),
        (["--trainer.accelerator=tpu"], "trainer.accelerator is 'tpu', but this machine has only cpu"),
        (["--trainer.accelerator=abc"], "trainer.accelerator is 'abc', but this machine has only cpu"),
        (
            ["--trainer.profiler=abc"],
            "trainer.profiler is 'abc', but must be simple, advanced, pytorch or a class path",
        ),
        (["--trainer.max_epochs=-5"], "trainer.max_epochs is -5, but must be at least 0, or -1 for no limit"),
        (["--trainer.limit_train_batches=1.5"], "limit_train_batches is 1.5, but must be a share from 0.0 to 1.0, or"),
        (["--trainer.val_check_interval=-1"], "trainer.val_check_interval is -1, but must be a share from 0.0 to 1.0"),
        (["--trainer.gradient_clip_algorithm=abc"], "trainer.gradient_clip_algorithm is 'abc', but must be norm or"),
        (["--trainer.strategy=ddp", "--trainer.num_nodes=2"], "nothing says where the nodes meet: start the command"),
        *(
            (["--trainer.strategy=" + name], f"{name}, whose processes cannot hand the trained run back")
            for name in SPAWN
        ),
        (["--trainer.default_root_dir=s3://bucket/runs"], "s3://bucket/runs is an address, but must be a path"),
    ],
    fast=range(0, 100, 8),  # each eighth one: most are checked in one place
)
def test_options(options: list[str], message: str, fails: Fails) -> None:
    assert message in fails("fit", *options, "--name=a")
    assert not Path("runs").exists() or not options[0].startswith("--trainer.")


def test_slurms_number_of_tasks(fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NTASKS": "2", "JOB_NAME": "train", "JOB_ID": "1", "PROCID": "0", "LOCALID": "0"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    line = fails("fit", "--name=a")
    assert line.startswith("error: trainer: ") and "ntasks" in line and not re.search(r"\.py, line \d", line)


OWN = """
import torch
from ebmlab.domains import Real
from ebmlab.energies import Energy

class Own(Energy):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.scale * x.flatten(1).square().sum(1)
"""


def test_an_energy_without_a_domain(fails: Fails) -> None:
    Path("no_domain.py").write_text(OWN)
    assert "Own has no domain: set self.domain = Binary" in fails("fit", "--model.energy=no_domain.Own", "--name=a")


def test_kernels_that_are_not_complete() -> None:
    class Proposes(Sampler):
        domains = (Binary,)

        def proposal(self, energy: Energy, state: Any) -> None: ...

    class Nowhere(Sampler):
        def step(self, energy: Energy, state: Any) -> Any: ...

    rbm = RBM(3, 2)
    with pytest.raises(UserError, match=r"Proposes has no step\(energy, state\): derive it from MetropolisSampler"):
        Proposes().sample(rbm, rbm.random(2), 1)
    with pytest.raises(UserError, match=r"Nowhere does not say what it samples: set domains"):
        Nowhere().sample(rbm, rbm.random(2), 1)
    assert not hasattr(Energy(), "domain")


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (torch.optim.SparseAdam, "SparseAdam does not support dense"),
        (lambda p: torch.optim.Adam(p, differentiable=True), "in-place"),
        (lambda p: torch.optim.Adam(p, fused=True, foreach=True), "cannot be `True` together"),
        pytest.param(
            lambda p: torch.optim.Muon(p),
            "only supports 2D",
            marks=pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="an older torch"),
        ),
    ],
)
def test_optimizers_that_cannot_step(optimizer: Any, message: str) -> None:
    before = torch.get_rng_state()
    with pytest.raises(UserError, match=f"^optimizer: .*{message}"):
        try_optimizer(optimizer, None, [torch.zeros(3, 4), torch.zeros(5), torch.zeros(())])
    assert torch.equal(before, torch.get_rng_state())


def test_optimizers_that_can_are_left_alone() -> None:
    real = torch.nn.Parameter(torch.ones(5))
    for kind in (torch.optim.Adam, torch.optim.LBFGS, torch.optim.Adafactor, torch.optim.ASGD):
        try_optimizer(kind, lambda optimizer: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer), [real])
    assert torch.equal(real, torch.ones(5)) and real.grad is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("space: {3: [1]}", "3 is no option of fit"),
        ("space: {null: [1]}", "is no option of fit"),
        ("space: {2020-01-01: [1]}", "is no option of fit"),
        ("space: {name: [a, b]}", "name belongs to a run, and each trial has its own: leave it out"),
        ("space: {resume: [auto]}", "resume belongs to a run"),
        ("metric: 3\nparameters: {a: {values: [1]}}", "metric must have a name"),
        ("metric: {name: fid/x}\nparameters: [a]", "parameters must be options"),
        ("metric: {name: fid/x}\nparameters: {a: 3}", "a is 3, but must be"),
        ("metric: {name: fid/x}\nparameters: {a: {distribution: [3]}}", r"a has the distribution \[3\]"),
    ],
)
def test_spaces_of_a_sweep(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(text if "metric" in text else f"objective: fid/x\n{text}")
    with pytest.raises(UserError, match=message):
        read_space(path)


def test_a_server_that_answers_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket
    import threading

    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        connection.recv(1000)
        connection.sendall(b"\x00\xff garbage\r\n\r\n")
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    with pytest.raises(UserError, match="the server's answer is not one of the web"), listener:
        pull(f"http://127.0.0.1:{listener.getsockname()[1]}/mine")


def test_the_options_of_a_class(capfd: pytest.CaptureFixture[str], fails: Fails) -> None:
    """The short help names this form; it needs no config."""
    for words in (["--model.energy.help", "ebmlab.energies.RBM"], ["--model.energy.help=RBM"]):
        main(["fit", *words])
        assert "--model.energy.num_hidden" in capfd.readouterr().out
    for words, line in {
        ("fit", "--model.energy.help"): "--model.energy.help needs a class, such as --model.energy.help RBM (",
        ("fit", "--data.help"): "--data.help needs a class, such as --data.help Arrays (",
        ("fit", "--trainer.help"): "--trainer.help needs a class, such as --model.energy.help RBM (",
        ("sample", "--samplers.help"): "--samplers.help needs a class, such as --samplers.help DMALA (",
    }.items():
        assert line in fails(*words, bare=True)
    assert "there is no class Nothing" in fails("fit", "--model.energy.help=Nothing", bare=True)
    assert "there is no class Array; did you mean datamodules.Arrays?" in fails("fit", "--data.help=Array", bare=True)
    assert "predict --ckpt_path RUN draws from a trained model" in fails("sample", "--ckpt_path=a", bare=True)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["fit", "--callbacks.help", "SampleGrid"], "--callbacks.SampleGrid.num_samples NUM"),
        (["fit", "--trainer.callbacks.help=callbacks.SampleGrid"], "--callbacks.SampleGrid.num_samples NUM"),
        (["fit", "--callbacks.SampleGrid.help"], "--callbacks.SampleGrid.num_samples NUM"),
        (["fit", "--callbacks.ModelCheckpoint_2.help"], "--callbacks.ModelCheckpoint.monitor MON"),
        (["sample", "--targets.help", "Ising"], "--targets.NAME.coupling COUP"),
        (["sample", "--samplers.help", "DMALA"], "--samplers.NAME.sampler.step_size STEP"),
    ],
)
def test_the_options_that_help_shows_can_be_given(words: list[str], option: str) -> None:
    assert f"\n  {option}" in str(class_help(words))


def test_the_help_of_sample_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sample", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "Runs samplers on targets from the same starts" in shown and "command line tool" not in shown


def test_who_lives_elsewhere_asks_for_settings(fails: Fails) -> None:
    said = "model.sampler: MALA needs step_size (it is for Real domains)"
    assert said in fails("fit", "--model.sampler=MALA", config="rbm_digits", quick=False)
    assert "RBM needs num_hidden (it is for Binary domains)" in fails(
        "fit", "--model.energy=RBM", config="moons", quick=False
    )


def test_only_a_dataset_is_sent_where_datasets_go(fails: Fails) -> None:
    assert "FromDataset" not in fails("fit", "--data=ebmlab.energies.RBM")
    Path("waves.py").write_text("import torch\n\nclass Waves(torch.utils.data.Dataset): ...\n")
    assert "by --data datamodules.FromDataset --data.train waves.Waves" in fails("fit", "--data=waves.Waves")


def test_the_end_of_the_time_says_what_it_does_not_cover(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        run("fit", "--trainer.max_time=00:00:00:00", "--callbacks.FID=false", "--name=a")
    assert "max_time is over: training ends here; it does not cover the evaluations" in caplog.text


def test_a_warning_has_no_place_but_in_the_code_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    quieten()
    ours = warnings.formatwarning(UserWarning("too few chains"), UserWarning, quiet_lightning.__file__, 3)
    assert ours == "warning: too few chains\n"
    assert warnings.formatwarning(UserWarning("b"), UserWarning, "mine.py", 3).startswith("mine.py:3: UserWarning: b")


def test_a_part_of_the_list() -> None:
    text = answer(["list", "energies", "configs"])
    assert text is not None and text.startswith("energies\n") and "\nconfigs\n" in text and "\nsamplers\n" not in text
    with pytest.raises(UserError, match="list: there is no energy; choose energies, samplers"):
        answer(["list", "energy"])


@pytest.mark.slow
def test_a_run_that_trained_nothing_says_so(run: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    run("fit", "--trainer.limit_train_batches=0", "--name=a")
    said = "finished at step 0: nothing was trained, for trainer.limit_train_batches is 0"
    assert said in capfd.readouterr().out
    run("fit", "--trainer.max_time=00:00:00:00", "--name=b")
    assert "finished at step 0: nothing was trained, for trainer.max_time" in capfd.readouterr().out
    run("fit", "--trainer.max_epochs=1", "--name=c")
    assert "nothing was trained" not in capfd.readouterr().out


def test_times_that_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("seed: 1")
    (tmp_path / "metrics.csv").write_text("step,fid/x\n1,2\n")
    for text in ("inf", "1e999", "nan", "an hour", ""):
        (tmp_path / "seconds.txt").write_text(text)
        assert read_run(tmp_path).seconds is None


def test_why_nothing_was_trained() -> None:
    class Trainer:
        global_step, limit_train_batches, max_epochs, max_steps = 7, 1.0, 3, -1

    assert why_idle(Trainer(), {}) == "" and "was reached before" in why_idle(Trainer(), {"global_step": 7})


def test_an_option_that_other_commands_have_is_not_suggested_for_itself() -> None:
    assert meant("--ckpt_path") is None and meant("--lr") == "--model.optimizer.lr"
