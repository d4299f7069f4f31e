"""`python -m ebmlab convert`, and the commands that take what it made."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import ebmlab
from ebmlab.app.cli import main
from ebmlab.energies import RBM, CategoricalRBM
from ebmlab.evaluation import ais
from ebmlab.exchange import read, write
from ebmlab.io.files import load_checkpoint
from ebmlab.io.zoo import pack
from ebmlab.samplers import Gibbs


@pytest.fixture
def folder(run: Callable[..., None]) -> None:
    """An empty working directory with two files of other packages."""
    Path("spins.coo").write_text("# vartype=SPIN\n0 1 -0.5\n1 2 0.25\n2 2 1e-1\n")
    torch.manual_seed(0)
    write(RBM(64, 20), "model.npz", kind="sklearn")


def test_a_problem_becomes_a_run_that_every_command_takes(folder: None, capsys: pytest.CaptureFixture[str]) -> None:
    main(["convert", "spins.coo", "mine"])
    assert capsys.readouterr().out == "read spins.coo: coo, Ising on Spin(3), 2 couplings, lines 3\nmine\n"
    x = np.array([[1, 1, 1], [-1, 1, -1]], np.int8)
    model = ebmlab.load("mine")
    assert model.energy(x).tolist() == pytest.approx([-0.15, 0.15])
    np.save("x.npy", x)
    main(["score", "x.npy", "--ckpt_path", "mine", "--log_likelihood"])
    assert "mean energy" in capsys.readouterr().out and Path("mine/scores.csv").is_file()
    main(["predict", "--ckpt_path", "mine", "--num_samples", "4", "--num_steps", "3"])
    drawn = torch.load("mine/samples/samples.pt")
    assert drawn.shape == (4, 3) and set(drawn.unique().tolist()) <= {-1, 1}
    np.save("given.npy", np.array([True, False, False]))
    main(["complete", "x.npy", "--given", "given.npy", "--ckpt_path", "mine", "--num_steps", "5"])
    assert (np.load("mine/completions.npy")[:, :, 0] == x[:, None, 0]).all()
    assert abs(ais(model.learner.energy, Gibbs(), num_chains=200, num_temperatures=100).log_z - 2.2) < 0.2
    assert load_checkpoint(Path("mine/checkpoints/last.ckpt"))["origin"]["source"] == "spins.coo"
    kept = load_checkpoint(
        pack(Path("mine/checkpoints/last.ckpt"), Path("packed"), "packed", "# P") and Path("packed/model.ckpt")
    )
    assert kept["origin"]["kind"] == "coo"


def test_an_rbm_of_pixels_is_tested_on_data(folder: None) -> None:
    for name in ("a", "b"):
        main(["convert", "model.npz", name, "--shape", "1,8,8"])
    quiet = ["--wandb", "disabled", "--trainer.accelerator", "cpu", "--trainer.limit_test_batches", "1"]
    for name in ("a", "b"):
        main(["test", "--ckpt_path", name, "--data", "Digits", "--data.binarize", "true", *quiet])
    main(["compare", "a", "b", "--out", "table.csv"])
    assert "test/energy last" in Path("table.csv").read_text()
    np.save("digits.npy", np.random.default_rng(0).integers(0, 256, (3, 1, 8, 8), np.uint8))
    main(["features", "digits.npy", "--ckpt_path", "a"])
    assert np.load("a/features.npy").shape == (3, 20)


def test_a_model_without_data_asks_for_them(folder: None, fails: Callable[..., str]) -> None:
    main(["convert", "model.npz", "mine"])
    assert "add --data, such as --data Arrays --data.path FILE" in fails("test", "--ckpt_path", "mine", bare=True)


def test_there_and_back(folder: None, capsys: pytest.CaptureFixture[str]) -> None:
    main(["convert", "model.npz", "mine.ckpt"])
    main(["convert", "mine.ckpt", "back.npz", "--kind", "sklearn"])
    for name in ("components_", "intercept_visible_", "intercept_hidden_"):
        np.testing.assert_array_equal(np.load("model.npz")[name], np.load("back.npz")[name])
    main(["convert", "spins.coo", "mine"])
    main(["convert", "mine", "back.coo"])
    main(["convert", "spins.coo", "spins.npz"])
    assert torch.equal(read("back.coo").energy.coupling, read("spins.coo").energy.coupling)
    assert "offset" not in capsys.readouterr().out


def test_labels_bits_and_offsets_travel(folder: None) -> None:
    write(read({("b", "b"): 1.0, ("b", "a"): -2.0, ("a", "a"): 0.5}), "qubo.npz")
    pytest.importorskip("dimod")
    write(read({("b", "b"): 1.0, ("b", "a"): -2.0, ("a", "a"): 0.5}), "qubo.bqm")
    main(["convert", "qubo.bqm", "mine"])
    model = ebmlab.load("mine")
    assert model.preprocessing.columns == ("b", "a")
    energies = model.energy(np.array([[1, 1], [1, 0], [0, 0]]))
    assert (energies - energies[2]).tolist() == [-0.5, 1, 0]
    main(["convert", "mine", "back.bqm"])
    assert read("back.bqm").names == ("b", "a") and read("back.bqm").offset == read("qubo.bqm").offset == 0.25


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gone.coo", "a"], "gone.coo: no such file"),
        (["spins.coo", "model.npz"], "is there already"),
        (["spins.coo", "a", "--kind", "gone"], "there is no format gone"),
        (["spins.coo", "a.xyz"], "say which kind"),
        pytest.param(
            ["spins.coo", "gone/deep/a.h5"],
            "holds an RBM",
            marks=pytest.mark.skipif(find_spec("h5py") is None, reason="h5py is not installed"),
        ),
        (["spins.coo", "a", "--shape", "1,3"], "--shape 1,3: give the axes"),
        (["model.npz", "a", "--shape", "8"], "pixels that the 64 units are"),
        (["spins.coo"], "target"),
        (["bad.coo", "a"], "line 2 is '0 1 nan'"),
    ],
)
def test_errors(words: list[str], message: str, folder: None, capfd: pytest.CaptureFixture[str]) -> None:
    Path("bad.coo").write_text("# vartype=SPIN\n0 1 nan\n")
    before = sorted(Path().rglob("*"))
    with pytest.raises(SystemExit) as end:
        main(["convert", *words])
    line = capfd.readouterr().err.splitlines()[-1]
    assert end.value.code == 2 and message in line and line.startswith("error: ")
    assert sorted(Path().rglob("*")) == before


def test_a_machine_of_sequences_becomes_a_run(folder: None) -> None:
    pytest.importorskip("h5py")
    torch.manual_seed(0)
    energy, x = CategoricalRBM(4, 5, num_hidden=3), np.array([[0, 1, 2, 3], [4, 4, 0, 1]])
    torch.nn.init.normal_(energy.W)
    write(energy, "given.h5")
    main(["convert", "given.h5", "mine"])
    expected = energy(energy.domain.from_index(torch.tensor(x))).tolist()
    assert ebmlab.load("mine").energy(x).tolist() == pytest.approx(expected)
    np.save("x.npy", x)
    main(["score", "x.npy", "--ckpt_path", "mine", "--log_likelihood"])
    main(["predict", "--ckpt_path", "mine", "--num_samples", "4", "--num_steps", "3"])
    main(["convert", "mine", "back.h5"])
    assert torch.equal(read("back.h5").energy.W, energy.W)
