"""Every config runs through the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from helpers_data import make_celeba, make_mnist
from helpers_family import family_texts, write_family, write_structure
from helpers_pages import FEW_PICTURES
from helpers_published import allow_small, write_caltech, write_emnist, write_omniglot, write_static_mnist
from helpers_tier import cases

from ebmlab.app.config_files import read_config
from ebmlab.evaluation import trajectory

FOLDER = Path(__file__).parents[2] / "configs"
CONFIGS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
PICTURES = {
    "AIS": "ais-weights",
    "SampleGrid": "samples-grid",
    "Density2D": "samples-density",
    "ParameterImages": "parameters-filters",
    "EnergyLandscape": "samples-landscape",
    "GraphGrid": "samples-graphs",
    "SampleTable": "samples-table",
    "CouplingRMSE": "parameters-couplings",
    "Contacts": "contacts-map",
    "FamilyReport": "family-report",
}
# At the papers' sizes one step takes minutes on a CPU. Fewer chains and steps run here; all else is as written.
LARGE = {"grbm_mnist", "grbm_fashion", "grbm_celeba32", "grbm_celeba2k64", "rbm_mnist_cd", "ebm_digits_cd"}
LARGE |= {c for c in CONFIGS if c.startswith(("ebm_", "rbm_"))}
ALIKE = {  # to another config in all but the data, or sizes that are small here
    *("ebm_caltech", "ebm_caltech_acs", "ebm_omniglot", "ebm_omniglot_acs", "ebm_static_mnist", "ebm_static_mnist_acs"),
    *("rbm_caltech", "rbm_emnist", "rbm_kmnist", "rbm_omniglot", "grbm_fashion", "grbm_celeba32", "grbm_mnist_small"),
    *("rm_8gaussians", "rm_checkerboard", "rm_circles", "rm_moons", "rm_pinwheel", "rm_swissroll", "grbm_gmm_aniso"),
    *(
        "cnce_moons",
        "ssm_moons",
        "dsm_colours",
        "rbm_mnist",
        "ebm_dynamic_mnist_small",
        "grbm_mnist_medium",
        "grbm_mnist",
    ),
    *("ebm_digits", "rbm_mnist_cd", "grbm_gmm_iso", "ebm_dynamic_mnist_acs", "dsm_moons"),
}
HUGE = {"grbm_fashion", "grbm_celeba32", "grbm_celeba2k64"}  # drawing initial weights of 10,000 hidden units is slow


PUBLISHED = {
    "StaticMNIST": write_static_mnist,
    "Omniglot": write_omniglot,
    "CaltechSilhouettes": write_caltech,
    "EMNIST": lambda root: write_emnist(root, num_train=5100),
    "KMNIST": lambda root: make_mnist(root, "KMNIST"),
}


def make_published(root: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    allow_small(monkeypatch)
    for name, write in PUBLISHED.items():
        if f"datamodules.{name}\n" in text:
            write(root)


@cases("config", {config: config for config in CONFIGS}, fast=set(CONFIGS) - ALIKE)
def test_config_runs(config: str, run: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read_config(FOLDER / f"{config}.yaml")
    text = yaml.safe_dump(settings)
    monkeypatch.setenv("EBMLAB_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(trajectory, "TEMPERATURES", 20)
    if "MNIST" in text:
        make_mnist(tmp_path / "data", "FashionMNIST" if config == "grbm_fashion" else "MNIST")
    make_published(tmp_path / "data", text, monkeypatch)
    if "celeba" in config:
        make_celeba(tmp_path / "data")
    options = ["--model.init_args.num_steps=2", "--data.init_args.batch_size=8"] if config in LARGE else []
    options += ["--model.init_args.energy.init_args.num_hidden=500"] if config in HUGE else []
    options += ["--data.init_args.num_samples=2000"] if "GrayCode2D" in text else []
    options += ["--data.init_args.num_train=900"] if "num_train:" in text else []
    options += ["--model.init_args.sampler.init_args.tuning_steps=5"] if config.endswith("_acs") else []
    options += ["--data.init_args.side=5", "--data.init_args.num_sweeps=3"] if "IsingSamples" in text else []
    if "datamodules.Alignment" in text:
        options += [f"--data.init_args.path={write_family(tmp_path / 'family.fasta')}", "--data.batch_size=20"]
        options += ["--model.num_chains=50"]
        options += [f"--callbacks.Contacts.path={write_structure(tmp_path / 'wild.pdb', family_texts()[0])}"]
    named = {name for name, values in settings["callbacks"].items() if values is not None}
    options += FEW_PICTURES if "SampleGrid" in named else []
    run("fit", "--trainer.fast_dev_run=true", *options, config=config, quick=False)
    pictures = {path.name.split("_step")[0] for path in Path("runs").rglob("images/*.png")}
    expected = {picture for callback, picture in PICTURES.items() if callback in named}
    expected |= {"samples-chain"} if "SampleGrid" in named else set()
    assert expected and expected <= pictures


@cases("config", {config: config for config in sorted(ALIKE)}, fast={"ebm_omniglot_acs", "grbm_celeba32", "rbm_kmnist"})
def test_a_config_that_the_slow_tier_alone_runs_is_parsed(
    config: str, run: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        run("fit", "--print_config", config=config, quick=False)
    assert end.value.code == 0
    assert "seed_everything:" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=lambda p: p.stem)
def test_headers_are_filled_in(path: Path) -> None:
    """A header gives source, hardware and expected result, and holds no placeholder."""
    header = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert len(header) >= (3 if path.parent == FOLDER else 1)
    assert not any(word in line for line in header for word in ("TODO", "SECS", "HARDWARE", "XXX"))


@pytest.mark.slow
def test_dula_may_train_a_deep_ebm_whose_likelihood_needs_an_exact_sampler(run: Callable[..., None]) -> None:
    dula = ["--model.sampler=ebmlab.samplers.DULA", "--model.sampler.step_size=0.1", "--model.num_steps=2"]
    run("fit", "--trainer.fast_dev_run=true", *dula, config="ebm_digits", quick=False)
