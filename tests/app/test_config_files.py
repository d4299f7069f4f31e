"""Configs that state their difference from a base, and callbacks by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers_tier import cases
from omegaconf import OmegaConf
from omegaconf.errors import InterpolationResolutionError

from ebmlab.app.config_files import inline, load_config, read_config
from ebmlab.app.interpolation import absolute_names
from ebmlab.app.merging import merge
from ebmlab.app.named_callbacks import change_callbacks, take_flags
from ebmlab.errors import UserError

CONFIGS = Path(__file__).parents[2] / "configs"
DMALA = {"class_path": "ebmlab.samplers.DMALA", "init_args": {"step_size": 0.1, "balance": 0.4}}
FULL = ["Progress", "SamplerMonitor", "DivergenceGuard", "RunState", "ModelCheckpoint"]  # ebmlab/app/defaults.yaml

Resolve = Callable[..., dict[str, Any]]


@pytest.fixture
def resolve(run: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> Resolve:
    """The resolved config of a command, as it would be written in the run folder."""

    def call(*args: object, command: str = "fit", bare: bool = True, **kwargs: object) -> dict[str, Any]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            run(command, *args, "--print_config", bare=bare, **kwargs)
        assert not end.value.code
        return yaml.safe_load(capsys.readouterr().out)

    return call


def names(config: dict[str, Any]) -> list[str]:
    return [entry["class_path"].rpartition(".")[2] for entry in config["trainer"]["callbacks"]]


def options(config: dict[str, Any], name: str) -> dict[str, Any]:
    return config["trainer"]["callbacks"][names(config).index(name)]["init_args"]


@pytest.mark.parametrize(
    ("base", "change", "merged"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a+": [1]}, {"a+": [2]}, {"a+": [1, 2]}),
        ({"a+": [1]}, {"a": [2]}, {"a": [2]}),
        (DMALA, {"step_size": 1}, {**DMALA, "init_args": {"step_size": 1, "balance": 0.4}}),
        (DMALA, {"init_args": {"step_size": 1}}, {**DMALA, "init_args": {"step_size": 1, "balance": 0.4}}),
        (
            DMALA,
            "ebmlab.samplers.Langevin",
            {"class_path": "ebmlab.samplers.Langevin", "init_args": {"step_size": 0.1}},
        ),
        (DMALA, "ebmlab.samplers.GWG", {"class_path": "ebmlab.samplers.GWG"}),
        (DMALA, {"class_path": "ebmlab.samplers.BlockGibbs"}, {"class_path": "ebmlab.samplers.BlockGibbs"}),
        (DMALA, "nowhere.Sampler", {"class_path": "nowhere.Sampler"}),
        ("ebmlab.samplers.GWG", {"num_flips": 2}, {"class_path": "ebmlab.samplers.GWG", "init_args": {"num_flips": 2}}),
    ],
)
def test_merge(base: Any, change: Any, merged: Any) -> None:
    assert merge(base, change) == merged


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


def test_bases_merge_from_the_root_upwards(tmp_path: Path) -> None:
    """In the opposite order, the step size of the middle file would be lost when the root's class is replaced."""
    (tmp_path / "more").mkdir()
    write(tmp_path, root=yaml.safe_dump({"s": DMALA, "t": {"x": 1}}))
    middle, top = "base: ../root.yaml\ns: {step_size: 0.7}", "base: middle.yaml\ns: ebmlab.samplers.Langevin"
    write(tmp_path / "more", middle=middle, top=top)
    config = read_config(tmp_path / "more" / "top.yaml")
    assert config == {"s": {"class_path": "ebmlab.samplers.Langevin", "init_args": {"step_size": 0.7}}, "t": {"x": 1}}


def test_null_leaves_out_an_entry_of_a_study(tmp_path: Path) -> None:
    write(tmp_path, a="targets: {x: X}\nsweep: s", b="base: a.yaml\ntargets: {x: null, y: Y}\nsweep: null")
    assert read_config(tmp_path / "b.yaml") == {"targets": {"y": "Y"}, "sweep": None}


@cases(
    ("text", "message"),
    [
        ("base: b.yaml", "leads back"),
        ("base: a.yaml", "leads back"),
        ("base: gone.yaml", "gone.yaml: no such file"),
        ("base: bb.yaml", "did you mean b.yaml"),
        ("base: [b.yaml]", "must be the name of a config file"),
        ("3: 3", "a.yaml: 3 is no option, such as trainer: options have names"),
        ("trainer: {max_epochs: 1, max_epochs: 2}", "a.yaml, line 1: max_epochs is there twice"),
        ("trainer: {x: [{y: 1,\n y: 2}]}", "a.yaml, line 2: y is there twice"),
        ("trainer: [", "a.yaml, line 1 is not valid YAML"),
        ("", "a.yaml is empty, but must have options by name, such as `trainer"),
        ("# all later", "a.yaml is empty"),
        ("- 1", "a.yaml is a list"),
        ("moons", "a.yaml holds only 'moons'"),
        (
            "modle: {num_steps: 3}",
            "the config has modle.num_steps, which fit does not take; did you mean model.num_steps?",
        ),
        ("class_path: X", "the config has class_path, which fit does not take; a class goes under model or data"),
        ("callbacks: [1]", "callbacks: must be names with options"),
        ("callbacks: {FID: 3}", "callbacks.FID is 3"),
        ("callbacks: {FDI: true}", "there is no callback FDI; did you mean FID?"),
        ("callbacks: {FID: {num_sample: 3}}", "did you mean num_samples?"),
        ("callbacks: {FID_3: {num_samples: 3}}", "the next FID of this config would be called FID"),
        ("trainer: {callbacks: []}", "trainer.callbacks is empty"),
        (
            "model: {num_steps: '${trainer.max_epoch}'}",
            "the config has no trainer.max_epoch; did you mean trainer.max_epochs?",
        ),
    ],
    fast=range(0, 21, 2),
)
def test_config_that_cannot_be(fails: Callable[..., str], text: str, message: str) -> None:
    write(Path(), a=text, b="base: a.yaml")
    assert message in fails("fit", "--config", "a.yaml", quick=False)
    assert not Path("runs").exists()


def test_file_that_is_no_text(fails: Callable[..., str]) -> None:
    Path("a.yaml").write_bytes(b"\xff\xfe\x00")
    assert "a.yaml cannot be read as a config: it is not text in UTF-8" in fails("fit", "--config", "a.yaml")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--model={}", "--model {} is empty, but must have options by name, such as `class_path: "),
        ("--data={}", "--data {} is empty, but must have options by name, such as `class_path: "),
        ("--trainer={}", "--trainer {} is empty, but must have options by name, such as `max_epochs: 3`"),
        ("--model.energy={}", "energy is {}, but must be a class: a file of settings goes by --config"),
        ("--space={}", "--space {} is empty, but must have options by name, such as `objective: "),
    ],
)
def test_a_file_that_holds_nothing(fails: Callable[..., str], option: str, message: str) -> None:
    Path("parts.yaml").touch()
    command = "sweep" if "space" in option else "fit"
    line = fails(command, "--config=moons", option.format("parts.yaml"), bare=True)
    assert message.format("parts.yaml") in line and not Path("runs").exists()


@pytest.mark.parametrize("option", ["--config", "--model", "--trainer", "--space"])
def test_a_folder_and_a_file_of_bytes_where_text_is_due(fails: Callable[..., str], option: str) -> None:
    Path("folder.yaml").mkdir()
    Path("bytes.yaml").write_bytes(b"\xa9\x00")
    given = [] if option == "--config" else ["--config=moons"]
    for name, message in {"folder": "is a directory", "bytes": "it is not text in UTF-8"}.items():
        line = fails("sweep" if option == "--space" else "fit", *given, option, f"{name}.yaml", bare=True)
        assert f"{option} {name}.yaml cannot be read" in line and message in line


@pytest.mark.slow
def test_a_config_over_its_base_is_the_base_with_flags(resolve: Resolve) -> None:
    write(
        Path(), child=f"base: {CONFIGS / 'rm_2spirals.yaml'}\nmodel: {{optimizer: {{lr: 0.5}}}}\ndata: {{shape: moons}}"
    )
    child = resolve("--config=child.yaml")
    flags = ["--model.optimizer.lr=0.5", "--data.shape=moons"]
    assert child == resolve(f"--config={CONFIGS / 'rm_2spirals.yaml'}", *flags)
    assert child["data"]["init_args"]["shape"] == "moons" and "base" not in child


def test_full_names_of_settings(resolve: Resolve) -> None:
    """`${full.name}` works in a file and in a flag, after all overrides, and keeps the type of the setting."""
    flags = ["--trainer.max_epochs=7", "--model.num_steps=${data.init_args.batch_size}", "--data.batch_size=30"]
    config = resolve(*flags, bare=False)
    assert config["model"]["init_args"]["lr_scheduler"]["init_args"]["T_max"] == 7
    assert config["model"]["init_args"]["num_steps"] == 30


def test_a_part_of_a_config_has_no_settings_of_the_rest() -> None:
    """jsonargparse tries out parts alone; it must be told so at once, not after a thousand calls."""
    part = OmegaConf.create({"T_max": absolute_names("${trainer.max_epochs}"), "eta_min": 0})
    with pytest.raises(InterpolationResolutionError, match="the config has no trainer"):
        OmegaConf.to_container(part, resolve=True)


def test_callbacks_by_flags(resolve: Resolve) -> None:
    Path("own_callback.py").write_text(
        "from pytorch_lightning import Callback\n\n\nclass Mine(Callback):\n"
        "    def __init__(self, size: int = 1) -> None:\n        self.size = size\n"
    )
    flags = ["--callbacks.SampleGrid.every_n_epochs", "5", "--callbacks.FID=false", "--callbacks.Acceleration=true"]
    flags += [
        "--callbacks.own_callback.Mine.size=4",
        "--callbacks.ModelCheckpoint_2.filename=best",
        "--callbacks.RunState=true",
    ]
    config = resolve(*flags, bare=False, quick=False)
    assert names(config) == [*FULL, "SampleGrid", "ParameterImages", "Acceleration", "Mine", "ModelCheckpoint"]
    assert options(config, "SampleGrid")["every_n_epochs"] == 5
    assert options(config, "Mine") == {"size": 4}
    assert config["trainer"]["callbacks"][-1]["init_args"]["filename"] == "best"
    assert options(config, "ModelCheckpoint")["filename"] == "epoch={epoch}-step={step}", "the first is as it was"


def test_an_added_callback_inherits_no_option_of_a_removed_one(resolve: Resolve) -> None:
    config = resolve("--callbacks.ParameterImages=false", "--callbacks.EnergyLandscape=true", bare=False)
    assert names(config) == [*FULL, "FID", "EnergyLandscape"]
    assert options(config, "EnergyLandscape")["every_n_epochs"] == 1


def test_files_that_a_config_names_are_relative_to_it(resolve: Resolve) -> None:
    Path("sub").mkdir()
    write(Path("sub"), a="data: digits.yaml", digits="class_path: datamodules.Digits\ninit_args: {batch_size: 33}")
    config = resolve(f"--config={CONFIGS / 'grbm_digits.yaml'}", "--config=sub/a.yaml")
    assert config["data"]["init_args"]["batch_size"] == 33


def test_callbacks_over_bases(resolve: Resolve) -> None:
    """Classes inside a callback can be changed; the older form, a list of callbacks, can be changed by name too."""
    write(
        Path(),
        old="base: middle.yaml\ntrainer: {callbacks+: [{class_path: callbacks.FID, init_args: {num_samples: 9}}]}",
        middle=f"base: {CONFIGS / 'ebm_static_mnist_acs.yaml'}\ncallbacks: {{AIS: {{num_chains: 3}}, DataMean: false}}",
        top="base: old.yaml\ncallbacks: {FID: {every_n_epochs: 2}, DataMean: true, ModelCheckpoint: false}",
    )
    config = resolve("--config=top.yaml", "--callbacks.AIS.sampler.num_flips=2")
    own = ["FID", "DataMean", "EMAWeightAveraging", "AIS", "SampleGrid", "ModelCheckpoint"]
    assert names(config) == [*FULL[:-1], *own]
    ais = options(config, "AIS")
    assert ais["sampler"]["class_path"].endswith("GWG") and ais["sampler"]["init_args"]["num_flips"] == 2
    assert (ais["num_chains"], ais["every_n_epochs"]) == (3, 10)
    assert options(config, "ModelCheckpoint")["filename"] == "best"
    assert (options(config, "FID")["num_samples"], options(config, "FID")["every_n_epochs"]) == (9, 2)


def test_callbacks_of_earlier_names(resolve: Resolve) -> None:
    """In a config's section, in a list and in a flag they are today's callbacks."""
    write(Path(), old="base: ebm_static_mnist\ncallbacks: {AISEvaluation: {num_chains: 3}, HammingMMDEvaluation: true}")
    config = resolve("--config=old.yaml", "--callbacks.AISEvaluation.seed=4")
    assert names(config).count("AIS") == 1 and "HammingMMD" in names(config)
    assert (options(config, "AIS")["num_chains"], options(config, "AIS")["seed"]) == (3, 4)
    Path("list.yaml").write_text(inline({"trainer": {"callbacks": [{"class_path": "callbacks.AISEvaluation"}]}}))
    assert "AIS" in names(resolve("--config=ebm_static_mnist", "--config=list.yaml"))


def test_a_list_of_callbacks_replaces_the_list(resolve: Resolve) -> None:
    """A list of equal length too, where jsonargparse would merge the old entries' options into the new ones."""
    kept = ["RunState", "Progress", "SampleGrid", "DivergenceGuard"]
    entries = [{"class_path": f"callbacks.{name}"} for name in kept]
    entries.append({"class_path": "pytorch_lightning.callbacks.ModelCheckpoint"})
    Path("a.yaml").write_text(inline({"trainer": {"callbacks": entries}}))
    dropped = dict.fromkeys(["FID", "ParameterImages", "SampleGrid"])
    Path("b.yaml").write_text(inline({"base": str(CONFIGS / "grbm_digits.yaml"), "callbacks": dropped}))
    config = resolve("--config=b.yaml", "--config=a.yaml")
    assert names(config) == [*kept, "ModelCheckpoint"] and options(config, "ModelCheckpoint")["filename"] is None


@pytest.mark.slow
def test_the_resolved_config_of_a_run_can_be_run_again(run: Callable[..., None], resolve: Resolve) -> None:
    """It has no base, and flags change its callbacks by name; a run without ModelCheckpoint saves nothing."""
    flags = ["--trainer.max_epochs=1", "--callbacks.FID=false", "--callbacks.SampleGrid=false", "--wandb=disabled"]
    run("fit", *flags, "--callbacks.ModelCheckpoint=false", "--name=a")
    folder = Path("runs/grbm_digits/a")
    saved = yaml.safe_load((folder / "config.yaml").read_text())
    assert "base" not in saved and "callbacks" not in saved and not (folder / "checkpoints").exists()
    again = resolve(f"--config={folder / 'config.yaml'}")
    assert again["trainer"] == saved["trainer"] and again["model"] == saved["model"]
    changed = resolve(f"--config={folder / 'config.yaml'}", "--callbacks.ParameterImages.every_n_epochs=3")
    assert options(changed, "ParameterImages")["every_n_epochs"] == 3
    assert names(changed) == [*FULL[:-1], "ParameterImages"]


def test_flags_in_the_order_given() -> None:
    assert take_flags(
        ["--callbacks.A=true", "--callbacks.A.x=1e-4", "--callbacks.A.x=[2]", "--callbacks.A.y.z", "-1"]
    ) == (
        [],
        {"A": {"x": [2], "y": {"z": -1}}},
    )
    assert take_flags(["--callbacks.A.s=b.C", "--callbacks.A.s.x=1", "--callbacks.A=true", "--callbacks.B=null"]) == (
        [],
        {"A": {"s": {"class_path": "b.C", "init_args": {"x": 1}}}, "B": None},
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--callbacks.FID"], "--callbacks.FID needs a value"),
        (["--callbacks.FID", "--name=a"], "--callbacks.FID needs a value"),
        (["--callbacks", "null"], "name one"),
        (["--callbacks.fid.num_samples=3"], "did you mean FID?"),
    ],
)
def test_flag_that_cannot_be(flags: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        take_flags(flags)


def test_a_callback_is_found_by_any_import_path_of_its_class() -> None:
    entries = [{"class_path": "ebmlab.callbacks.SampleGrid"}]
    (changed,) = change_callbacks(entries, {"callbacks.sample_grid.SampleGrid": {"num_samples": 4}})
    assert changed == {"class_path": "ebmlab.callbacks.SampleGrid", "init_args": {"num_samples": 4}}
    assert load_config("callbacks: {A: true, B: false, C: {}}", "x") == {"callbacks": {"A": {}, "B": None, "C": {}}}
