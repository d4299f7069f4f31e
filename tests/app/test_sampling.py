"""`python -m ebmlab sample`: every config of configs/sampling through the real command line, and what goes wrong."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from helpers_data import make_adult, make_bert, make_blog, make_compas, make_mnist, make_news
from helpers_family import write_family
from helpers_grbm import PASS
from helpers_studies import rows, tiny
from helpers_tier import cases
from pytorch_lightning.loggers import WandbLogger

from ebmlab.app.cli import main
from ebmlab.app.config_files import read_config

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
STUDIES = sorted(path.stem for path in (CONFIGS / "sampling").glob("*.yaml"))
ALIKE = {  # to another config in all but the target, its size, or the model that was trained for it
    "ising_100x100",
    "ising_20x20",
    "ising_ba400",
    "rbm_random",
    "compas_bnn_batches",
    "ising_2x2_bias",
    "kernels_2025",
    "kernels_2025_rbm",
    "ising_critical",
    "ising_connectivity",
    "lattice_gaussian",
    "modes_25",
    "logistic_posterior",
    "dmala_variants",
    "rbm_mode",
    "deep_ebm",
    "antibody_infilling",
    "quartic_mixture",
    "family",
    "text_infilling",
}
TRAINED = {
    "rbm_random": "rbm_mnist_cd",
    "rbm_mode": "rbm_mnist_cd",
    "kernels_2025_rbm": "rbm_mnist_cd",
    "deep_ebm": "ebm_digits_cd",
    "family": "family",
}


def short_tuning(config: str, tmp_path: Path) -> Path:
    """A copy of the config with two of its targets at most, little tuning and small lattices."""
    study = read_config(CONFIGS / "sampling" / f"{config}.yaml")
    two = config in ("ising_5x5", "logistic_posterior")
    study["targets"] = dict(list(study["targets"].items())[: 1 + two])
    for entry in study["samplers"].values():
        if "tune_steps" in entry:
            entry["tune_steps"] = 40 if "AnyScaleTuner" in str(entry) else 90  # a cycle of 20 needs 90
    text = yaml.safe_dump(study, sort_keys=False, width=math.inf)
    for key, value in (("side", 4), ("num_nodes", 30), ("hidden_dim", 4)):
        text = re.sub(rf"\b{key}: \d+", f"{key}: {value}", text)
    path = tmp_path / f"{config}.yaml"
    path.write_text(text)
    return path


@pytest.mark.filterwarnings("ignore:the search for step size and balance ran out")  # so few steps are too few
@cases("config", {study: study for study in STUDIES}, fast=set(STUDIES) - ALIKE)
def test_config_runs(config: str, study: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBMLAB_DATA", str(tmp_path / "data"))
    options = []
    if config in TRAINED:
        make_mnist(tmp_path / "data", "MNIST")
        fit = ["fit", "--config", str(CONFIGS / f"{TRAINED[config]}.yaml"), "--name=trained", "--wandb=disabled"]
        short = ["--trainer.max_steps=1", "--trainer.limit_val_batches=0", "--model.init_args.num_steps=1"]
        if config == "family":
            fit += ["--trainer.log_every_n_steps=1"]
            fit += ["--callbacks.Contacts=false", f"--data.init_args.path={write_family(tmp_path / 'family.fasta')}"]
        main([*fit, *short, "--data.init_args.batch_size=8", "--trainer.accelerator=cpu"])
        monkeypatch.setenv("EBMLAB_RUN_FOLDER", "")
    if config.startswith("rbm_"):
        options += ["--measures.mmd.init_args.num_steps=2", "--measures.mmd.init_args.num_chains=8"]
    if config == "rbm_mode":
        options += ["--start.init_args.num_starts=1"]
    tables = {"compas": [make_compas], "uci": [make_adult, make_news, make_blog]}
    for make in tables.get(config.split("_")[0], []):
        make(tmp_path / "data")
    if config == "text_infilling":
        pytest.importorskip("transformers")
        options += [f"--targets.dodgers.init_args.model={make_bert(tmp_path / 'bert')}"]
    if config == "antibody_infilling":
        pytest.importorskip("transformers")
        target = "--targets.antibody.init_args"
        options += [f"{target}.model={make_bert(tmp_path / 'bert')}", f"{target}.top_k=3", f"{target}.text=the [MASK]"]
    if "infilling" in config:
        options += ["--num_chains=5"]  # as many sentences are scored
    folder = study(short_tuning(config, tmp_path), *options)
    table = rows(folder)
    assert table and all(math.isfinite(float(row["acceptance"])) for row in table)
    assert list((folder / "images").glob("*.png")) and (folder / "table.md").read_text().startswith("| target")


def test_the_numbers_of_a_study(study: Callable[..., Path], tmp_path: Path) -> None:
    """DMALA has the target's law and DULA with a large step has not; the counts in the table are right."""
    path = tiny(
        tmp_path,
        "{DMALA: {sampler: {class_path: ebmlab.samplers.DMALA, init_args: {step_size: 2.0}}},"
        " DULA: {sampler: {class_path: ebmlab.samplers.DULA, init_args: {step_size: 3.0}}}}",
        "measures: {law: {class_path: ebmlab.studies.LawDistance}, mean: {class_path: ebmlab.studies.MeanError}}\n",
    )
    folder = study(path, "--num_steps=400", "--num_chains=200", "--burn_in=20")
    table = {row["sampler"]: row for row in rows(folder)}
    assert float(table["DMALA"]["l1_law"]) < 0.03 < 0.1 < float(table["DULA"]["l1_law"])
    assert float(table["DMALA"]["evaluations_per_step"]) == 1
    assert float(table["DMALA"]["ess_distance"]) < 400 * 200 * 1.5
    assert float(table["DMALA"]["r_hat"]) < 1.02
    assert PASS < float(table["DMALA"]["rmse_mean"]) < float(table["DULA"]["rmse_mean"])


def test_resume_computes_only_what_is_missing(study: Callable[..., Path], tmp_path: Path) -> None:
    path = tiny(
        tmp_path,
        "{A: {sampler: ebmlab.samplers.Gibbs}, B: {sampler: ebmlab.samplers.GWG}}",
    )
    folder = study(path)
    first = rows(folder)
    kept = (folder / "results" / "ising--B.pt").stat().st_mtime_ns
    (folder / "results" / "ising--A.pt").unlink()
    study(path, "--resume=true")
    again = rows(folder)
    assert (folder / "results" / "ising--B.pt").stat().st_mtime_ns == kept
    assert [r["sampler"] for r in again] == ["A", "B"]
    assert [r["hops"] for r in again] == [r["hops"] for r in first], "the same seed gives the same chains"


@pytest.mark.slow
def test_entries_left_out_on_the_command_line_and_added_by_a_resumed_run(
    study: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tiny(
        tmp_path,
        "{A: {sampler: ebmlab.samplers.Gibbs}, B b: {sampler: ebmlab.samplers.GWG}}",
        "measures: {mean: {class_path: ebmlab.studies.MeanError}}\n",
    )
    folder = study(path, "--samplers.B b=null", "--measures.mean", "false")
    first = rows(folder)
    assert [r["sampler"] for r in first] == ["A"] and "rmse_mean" not in first[0]
    kept = (folder / "results" / "ising--A.pt").stat().st_mtime_ns
    study(path, "--resume=true", "--measures.mean=null")
    again = rows(folder)
    assert [r["sampler"] for r in again] == ["A", "B b"] and again[0]["hops"] == first[0]["hops"]
    assert (folder / "results" / "ising--A.pt").stat().st_mtime_ns == kept
    study(path, "--resume=true", "--measures.mean=null", "--samplers.A", "null")
    assert [r["sampler"] for r in rows(folder)] == ["B b"]
    with pytest.raises(SystemExit):
        study(path, "--samplers.C=null")
    assert "--samplers.C=null: there is no C to leave out of samplers; the config has A, B b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--samplers.LBB.tune_steps=4"], "--samplers.LBB.tune_steps: there is no LBB in samplers; did you mean LB?"),
        (["--samplers.Z.sampler.init_args.size", "4"], ".init_args.size: there is no Z in samplers; the config has LB"),
        (["--measures.mean.tolerance=1"], "--measures.mean.tolerance: there is no mean in measures; the config has no"),
        (["--samplers.LB.sampler.size=4"], "samplers.sampler: LocallyBalanced has no option size; it has "),
        (["--samplers.Z.sampler=ebmlab.samplers.GWG", "--samplers.Z.length=x"], "samplers.length is 'x', but must be"),
    ],
)
def test_an_option_of_a_misspelt_entry_names_the_entries(
    options: list[str], line: str, study: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tiny(tmp_path, "{LB: {sampler: ebmlab.samplers.LocallyBalanced}}")
    with pytest.raises(SystemExit):
        study(path, *options)
    assert line in capsys.readouterr().err


def test_a_second_config_changes_the_entries_of_the_first(study: Callable[..., Path], tmp_path: Path) -> None:
    path = tiny(
        tmp_path,
        "{A: {sampler: ebmlab.samplers.Gibbs},"
        " B: {sampler: {class_path: ebmlab.samplers.DMALA, init_args: {step_size: 2.0}}}}",
    )
    change = tmp_path / "change.yaml"
    change.write_text("samplers: {A: null, B: {sampler: {balance: 0.75}}, C: {sampler: ebmlab.samplers.GWG}}")
    table = rows(study(path, f"--config={change}"))
    assert [row["sampler"] for row in table] == ["B", "C"]
    assert (float(table[0]["step_size"]), float(table[0]["balance"])) == (2.0, 0.75)


@pytest.mark.slow
def test_null_and_false_as_values_of_an_entrys_options(
    study: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = "tuner: ebmlab.samplers.tuners.TargetAcceptance, tune_steps: 5"
    dmala = "{class_path: ebmlab.samplers.DMALA, init_args: {step_size: 0.5}}"
    path = tiny(tmp_path, f"{{A b: {{sampler: {dmala}, {tuned}}}, B = 2.4: {{sampler: {dmala}}}}}")
    options = [
        *("--samplers.B = 2.4=null", "--samplers.B = 2.4=false"),
        "--samplers.A b.sampler.init_args.stochastic=false",
        "--samplers.A b.tuner",
        "null",
    ]
    (row,) = rows(study(path, *options))
    assert row["sampler"] == "A b" and "tuning_steps" not in row
    (row,) = rows(study(path, "--samplers.B = 2.4=false", name="b"))
    assert row["sampler"] == "A b" and float(row["tuning_steps"]) == 5
    with pytest.raises(SystemExit):
        study(path, "--measures.mean=null", name="c")
    assert "there is no mean to leave out of measures; the config has none" in capsys.readouterr().err


@pytest.mark.slow
def test_chains_spread_over_two_processes(study: Callable[..., Path], tmp_path: Path) -> None:
    """Two processes give the right law, one table and one W&B run, and run different chains."""
    path = tiny(
        tmp_path,
        "{A: {sampler: {class_path: ebmlab.samplers.DMALA, init_args: {step_size: 0.5}},"
        " tuner: ebmlab.samplers.tuners.TargetAcceptance, tune_steps: 100}}",
        "measures: {law: {class_path: ebmlab.studies.LawDistance}}\n",
    )
    command = [sys.executable, "-m", "ebmlab", "sample", f"--config={path}", "--accelerator=cpu", "--devices=2"]
    sizes = ["--num_chains=60", "--num_steps=300", "--name=two", "--wandb=offline"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "WANDB_SILENT": "true"}
    environment.pop("EBMLAB_RUN_FOLDER", None)
    done = subprocess.run([*command, *sizes], env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    folder = Path("runs/tiny/two")
    (row,) = rows(folder)
    assert float(row["l1_law"]) < 0.05 and int(float(row["steps"])) == 300
    assert done.stdout.count("table.csv") == 1 and len(list(folder.glob("wandb/offline-run-*"))) == 1


def test_weights_and_biases_gets_the_table_and_the_pictures(
    study: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: dict[str, list[str]] = {"table": [], "image": []}
    monkeypatch.setattr(
        WandbLogger, "log_table", lambda self, key, columns, data: sent["table"].append(f"{key} {columns} {len(data)}")
    )
    monkeypatch.setattr(WandbLogger, "log_image", lambda self, key, images: sent["image"].append(key))
    folder = study(tiny(tmp_path, "{A: {sampler: ebmlab.samplers.Gibbs}}"), "--wandb=offline")
    assert len(sent["table"]) == 1 and "'sampler'" in sent["table"][0] and sent["table"][0].endswith(" 1")
    assert sorted(sent["image"]) == sorted(path.stem for path in (folder / "images").glob("*.png"))


def test_same_start_and_same_noise_for_every_sampler(study: Callable[..., Path], tmp_path: Path) -> None:
    same = "{class_path: ebmlab.samplers.DMALA, init_args: {step_size: 0.4}}"
    folder = study(tiny(tmp_path, f"{{A: {{sampler: {same}}}, B: {{sampler: {same}}}}}"))
    a, b = rows(folder)
    assert all(a[k] == b[k] for k in ("hops", "acceptance", "jump", "ess_energy"))


@pytest.mark.parametrize(
    ("samplers", "args", "message"),
    [
        ("{A: {sampler: ebmlab.samplers.Nope}}", [], "Nope"),
        (
            "{A: {sampler: {class_path: ebmlab.samplers.DMALA, init_args: {stepsize: 1.0}}}}",
            [],
            "did you mean step_size",
        ),
        ("{A: {sampler: ebmlab.samplers.BlockGibbs}}", [], "samplers.A on targets.ising: BlockGibbs needs a bipartite"),
        ("{A: {sampler: ebmlab.samplers.Gibbs}}", ["--num_chains=0"], "num_chains is 0, but must be at least 1"),
        ("{A: {sampler: ebmlab.samplers.Gibbs}}", ["--num_chains=3", "--devices=2"], "2 devices cannot share evenly"),
        ("{A: {sampler: ebmlab.samplers.Gibbs}}", ["--resume=true", "--name=gone"], "no run runs/tiny/gone"),
        (
            "{A: {sampler: ebmlab.samplers.Gibbs}}",
            ["--start.class_path=ebmlab.studies.FromPoint", "--start.init_args.x=5"],
            "outside Spin",
        ),
        (
            "{A: {sampler: ebmlab.samplers.Gibbs, tuner: ebmlab.samplers.tuners.TargetAcceptance}}",
            [],
            "samplers.A on targets.ising",
        ),
    ],
)
def test_bad_input_is_one_line(
    samplers: str,
    args: list[str],
    message: str,
    study: Callable[..., Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as error:
        study(tiny(tmp_path, samplers), *args)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert error.value.code == 2 and len(lines) == 1 and message in lines[0]
    assert not list(Path(".").glob("runs/*/*/*"))


GIBBS = "{A: {sampler: ebmlab.samplers.Gibbs}}"


@cases(
    ("args", "message"),
    [
        (["--resume=true", "--num_steps=7"], "num_steps differs from the run's own"),
        (["--resume=true", "--seed=5"], "seed differs"),
        ([], "go on with it by --resume true, or choose another --name"),
        (["--name=a/b"], "without slashes"),
        (["--num_steps=5", "--record_every=6", "--name=x"], "leave no record"),
        (["--max_seconds=-1", "--name=x"], "max_seconds is -1.0, but must be positive"),
        (["--accelerator=foo", "--name=x"], "--accelerator foo"),
        (["--devices=0", "--name=x"], "--devices 0"),
    ],
    fast=[0, 2, 5, 7],
)
def test_an_existing_run_refuses_other_settings(
    args: list[str], message: str, study: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = study(tiny(tmp_path, GIBBS))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit) as error:
        study(tiny(tmp_path, GIBBS), *args)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert error.value.code == 2 and len(lines) == 1 and message in lines[0]
    assert {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()} == before


def test_a_damaged_result_is_named(
    study: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = study(tiny(tmp_path, GIBBS))
    (folder / "results" / "ising--A.pt").write_bytes(b"")
    with pytest.raises(SystemExit):
        study(tiny(tmp_path, GIBBS), "--resume=true")
    assert "ising--A.pt is damaged" in capfd.readouterr().err


def test_random_targets_depend_on_the_seed_alone(study: Callable[..., Path], tmp_path: Path) -> None:
    path = tiny(tmp_path, GIBBS)
    path.write_text(
        "targets: {r: {class_path: ebmlab.energies.MLP, init_args: {num_coordinates: 6, hidden_dim: 4}}}\n"
        + f"samplers: {GIBBS}\n"
    )
    (first,), (second,) = rows(study(path, name="a")), rows(study(path, name="b"))
    assert first["hops"] == second["hops"] and first["ess_energy"] == second["ess_energy"]


def test_a_nan_energy_stops_the_study(
    study: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nan_energies.py").write_text(
        "import torch\nfrom ebmlab.domains import Spin\nfrom ebmlab.energies import Energy\n"
        "class Broken(Energy):\n"
        "    def __init__(self):\n        super().__init__()\n        self.domain = Spin(4)\n"
        "    def forward(self, x):\n        return (x.sum(1) - 10).log()\n"
    )
    path = tiny(tmp_path, GIBBS)
    path.write_text(f"targets: {{b: nan_energies.Broken}}\nsamplers: {GIBBS}\n")
    with pytest.raises(SystemExit):
        study(path)
    assert "b: A: an energy is NaN" in capfd.readouterr().err and not list(Path("runs").rglob("config.yaml"))


def test_a_target_that_fails_leaves_no_folder_behind(
    study: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "failing_energies.py").write_text(
        "from ebmlab.domains import Spin\nfrom ebmlab.energies import Energy\n"
        "class Failing(Energy):\n"
        "    def __init__(self):\n        super().__init__()\n        self.domain = Spin(4)\n"
        "    def forward(self, x):\n        raise RuntimeError('no such column')\n"
    )
    path = tiny(tmp_path, GIBBS)
    path.write_text(f"targets: {{b: failing_energies.Failing}}\nsamplers: {GIBBS}\n")
    with pytest.raises(SystemExit):
        study(path)
    assert "no such column" in capfd.readouterr().err and not list(Path("runs").rglob("*.yaml"))


def test_missing_checkpoint_says_how_to_train_it(study: Callable[..., Path], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        study("rbm_mode")
    assert "python -m ebmlab fit --config configs/rbm_mnist_cd.yaml --name trained" in capfd.readouterr().err


def test_results_load_safely(study: Callable[..., Path], tmp_path: Path) -> None:
    folder = study(tiny(tmp_path, "{A: {sampler: ebmlab.samplers.Gibbs}}"))
    result = torch.load(folder / "results" / "ising--A.pt", weights_only=True)
    assert result["exact"] is True and result["row"]["steps"] == 6
