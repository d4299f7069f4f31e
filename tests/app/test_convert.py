"""`python -m ebmlab convert`, and the commands that take what it made."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from helpers_trainer import quiet_trainer

import ebmlab
from ebmlab.app import convert, plain_yaml
from ebmlab.app.cli import main
from ebmlab.app.own_runs import is_own
from ebmlab.datamodules import Alignment, Arrays
from ebmlab.energies import RBM, CategoricalRBM, Energy, Ising, Potts
from ebmlab.errors import UserError
from ebmlab.evaluation import ais
from ebmlab.exchange import read, write
from ebmlab.io.files import load_checkpoint
from ebmlab.io.zoo import pack
from ebmlab.learners import ContrastiveDivergence
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


def test_a_config_that_no_command_would_read_is_not_written(
    folder: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "MOST", 51)
    main(["convert", "spins.coo", "mine"])
    said = capsys.readouterr().out
    assert "\nnot carried over: config.yaml: it would hold 52 values, and 51 are read at most\nmine\n" in said
    assert [path.name for path in Path("mine").iterdir()] == ["checkpoints"]
    assert ebmlab.load("mine").energy(np.array([[1, 1, 1]], np.int8)).item() == pytest.approx(-0.15)
    monkeypatch.setattr(convert, "MOST", 52)
    main(["convert", "spins.coo", "other"])
    assert Path("other/config.yaml").is_file() and "not carried over" not in capsys.readouterr().out


def test_a_written_config_is_one_that_is_read(folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    main(["convert", "spins.coo", "mine"])
    text = Path("mine/config.yaml").read_text()
    config = plain_yaml.plain_yaml(text, "mine")
    assert text == yaml.safe_dump(config, default_flow_style=None, width=120)
    size = plain_yaml.num_values(config)
    assert size == 37 + 4 * 3 + 3
    monkeypatch.setattr(plain_yaml, "MOST", size)
    assert plain_yaml.plain_yaml(text, "mine") == config
    monkeypatch.setattr(plain_yaml, "MOST", size - 1)
    with pytest.raises(UserError, match=f"stands for {size} values, and may for {size - 1} at most"):
        plain_yaml.plain_yaml(text, "mine")


def test_an_rbm_of_pixels_is_tested_on_data(folder: None) -> None:
    for name in ("a", "b"):
        main(["convert", "model.npz", name, "--shape", "1,8,8"])
    quiet = ["--wandb", "disabled", "--trainer.accelerator", "cpu", "--trainer.limit_test_batches", "1"]
    for name in ("a", "b"):
        assert is_own(Path(name, "config.yaml"))
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


def test_labels_of_two_numbers_or_of_fractions_travel(folder: None) -> None:
    """As the squares of a grid have them."""
    dimod = pytest.importorskip("dimod")
    h, J = {(0, 1): 1.0, ("a", 2): -2.0, 0.5: 3.0}, {((0, 1), ("a", 2)): 0.25, (0.5, ("a", 2)): -1.5}
    write(read((h, J)), "grid.bqm")
    main(["convert", "grid.bqm", "mine"])
    for name in ("back.bqm", "back.json"):
        main(["convert", "mine", name])
        assert read(name).names == ((0, 1), ("a", 2), 0.5)
    with Path("back.bqm").open("rb") as file:
        assert dimod.BinaryQuadraticModel.from_file(file).is_almost_equal(dimod.BinaryQuadraticModel.from_ising(h, J))


def test_numbers_of_nodes_are_labels_too(folder: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Samples whose nodes come in another order are put in that of the model."""
    Path("chain.rud").write_text("3 2\n1 2 1\n2 3 -2\n")
    main(["convert", "chain.rud", "mine"])
    assert ebmlab.load("mine").preprocessing.columns == ("1", "2", "3")
    rows, order = [[1, 1, -1], [-1, 1, 1]], [3, 1, 2]
    content = {"type": "SampleSet", "variable_labels": order, "variable_type": "SPIN", "num_rows": 2}
    content |= {"sample_packed": False, "sample_data": {"data": rows, "use_bytes": False}, "vectors": {}}
    Path("set.json").write_text(json.dumps(content))
    main(["score", "set.json", "--ckpt_path", "mine"])
    energies = read("chain.rud").energy(torch.tensor([[1.0, -1, 1], [1, 1, -1]]))
    assert f"mean energy {float(energies.mean()):g}" in capsys.readouterr().out


def fitted(energy: Energy, data: Any) -> Path:
    """A checkpoint of one step of training."""
    learner = ContrastiveDivergence(energy, Gibbs(), num_steps=1)
    trainer = quiet_trainer(Path(), max_steps=1, limit_val_batches=0)
    trainer.fit(learner, data)
    trainer.save_checkpoint("own.ckpt")
    return Path("own.ckpt")


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:You are trying to `self.log")
def test_letters_and_columns_of_an_own_family_travel(folder: None, capsys: pytest.CaptureFixture[str]) -> None:
    letters = np.random.default_rng(0).choice([*"ACGT-"], (40, 4))
    texts = [f"{a}{b}-{c}{d}" for a, b, c, d in letters]
    Path("dna.fasta").write_text("".join(f">s{i}\n{text}\n" for i, text in enumerate(texts)))
    data = Alignment("dna.fasta", alphabet="ACGT-", identity=None, batch_size=10, max_sequence_gaps=0.9)
    energy = Potts(4, 5)
    for p in energy.parameters():
        torch.nn.init.normal_(p)
    fitted(energy, data)
    assert data.preprocessing.columns == ("1", "2", "4", "5")
    expected = ebmlab.load("own.ckpt").energy(np.array([[0, 1, 2, 3], [1, 1, 2, 4]]))
    main(["convert", "own.ckpt", "own.dca"])
    main(["convert", "own.ckpt", "own.model"])
    said = capsys.readouterr().out
    assert "alphabet ACGT-" in said and "not carried over: the names of the variables" in said
    assert read("own.model").names == (1, 2, 4, 5)
    for name in ("own.dca", "own.model"):
        found = read(name)
        place = [found.facts["alphabet"].index(letter) for letter in "ACGT-"]
        states = torch.tensor([[0, 1, 2, 3], [1, 1, 2, 4]]).apply_(lambda k, place=place: place[k])
        assert found.energy(found.states(states)).tolist() == pytest.approx(expected.tolist(), abs=1e-4)
    main(["convert", "own.ckpt", "copy"])
    main(["score", "dna.fasta", "--ckpt_path", "copy"])
    own = ebmlab.load("own.ckpt").preprocessing
    assert ebmlab.load("copy").preprocessing == own and own.letters == "ACGT-"


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:You are trying to `self.log")
def test_how_raw_data_become_states_is_kept_or_said_to_be_lost(
    folder: None, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).integers(0, 2, (40, 3)).astype(np.float64)
    np.savetxt("bits.csv", x, "%d", ",", header="q0,q1,q2", comments="")
    fitted(Ising.learnable(3), Arrays("bits.csv", domain="spin", batch_size=10))
    main(["convert", "own.ckpt", "copy.ckpt"])
    assert "not carried over: the learner" in capsys.readouterr().out
    own, copy = (ebmlab.load(name) for name in ("own.ckpt", "copy.ckpt"))
    assert copy.preprocessing == own.preprocessing and own.preprocessing.columns == ("q0", "q1", "q2")
    np.testing.assert_array_equal(own.energy(x), copy.energy(x))
    main(["convert", "own.ckpt", "own.npz"])
    said = capsys.readouterr().out
    assert "not carried over: bits x, which became spins 2 x - 1" in said and "become states" not in said
    found = read("own.npz")
    assert found.names == ("q0", "q1", "q2")
    np.testing.assert_allclose(found.energy(torch.from_numpy(2 * x - 1).float()), own.energy(x), atol=1e-6)
    np.savetxt("levels.csv", 7 * x, "%g", ",", header="q0,q1,q2", comments="")
    fitted(RBM(3, 2), Arrays("levels.csv", domain="binary", binarize=True, max_value=7, batch_size=10))
    main(["convert", "own.ckpt", "levels.npz"])
    assert "not carried over: how raw data become states" in capsys.readouterr().out


@pytest.mark.parametrize("source", ["qubo.coo", "mine"])
def test_of_a_problem_on_bits_only_files_on_spins_lose_the_bits(
    source: str, folder: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The energies of a file's states are the problem's, up to the offset that `convert` names."""
    pytest.importorskip("dimod")
    Path("qubo.coo").write_text("# vartype=BINARY\n0 0 1.5\n0 1 -2\n")
    bits, value = np.array([[0, 0], [1, 0], [0, 1], [1, 1]]), np.array([0, 1.5, 0, -0.5])
    main(["convert", "qubo.coo", "mine"])
    energies = ebmlab.load("mine").energy(bits)
    np.testing.assert_allclose(energies - energies[0], value, atol=1e-6)
    for name, offset in (("out.json", 0.0), ("out.coo", 0.25), ("out.npy", 0.25), ("out.npz", 0.0)):
        capsys.readouterr()
        main(["convert", source, name])
        found, kept, said = read(name), name == "out.json", capsys.readouterr().out
        assert found.form == ("bits" if kept else "spins")
        assert ("not carried over: bits x, which became spins 2 x - 1\n" in said) is not kept
        assert ("not carried over: the offset 0.25, by which energies differ from the file's\n" in said) is (offset > 0)
        np.testing.assert_allclose(found.value(found.states(bits if kept else 2 * bits - 1)) + offset, value, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:You are trying to `self.log")
def test_an_own_model_of_bits_becomes_a_problem_on_bits(folder: None) -> None:
    pytest.importorskip("dimod")
    x = np.random.default_rng(0).integers(0, 2, (40, 3))
    np.savetxt("bits.csv", x, "%d", ",", header="a,b,c", comments="")
    fitted(Ising.learnable(3), Arrays("bits.csv", domain="spin", batch_size=10))
    main(["convert", "own.ckpt", "own.bqm"])
    found = read("own.bqm")
    assert found.form == "bits" and found.names == ("a", "b", "c")
    np.testing.assert_allclose(found.value(found.states(x)), ebmlab.load("own.ckpt").energy(x), atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:You are trying to `self.log")
def test_columns_that_are_called_alike_become_numbers(folder: None, capsys: pytest.CaptureFixture[str]) -> None:
    np.savetxt("bits.csv", np.eye(30)[:, :3], "%d", ",", header="a,a,b", comments="")
    fitted(Ising.learnable(3), Arrays("bits.csv", domain="spin", batch_size=10))
    main(["convert", "own.ckpt", "own.npz"])
    assert "not carried over: the names of the columns, as some are alike" in capsys.readouterr().out
    assert read("own.npz").names == () and read("own.npz").energy.domain.size == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gone.coo", "a"], "gone.coo: no such file"),
        (["spins.coo", "model.npz"], "is there already"),
        (["spins.coo", "a", "--kind", "gone"], "there is no format gone"),
        (["spins.coo", "a.xyz"], "say which kind (--kind): dimod, edges"),
        (["gone.coo", "model-v1.2"], "model-v1.2 ends in .2, as no format's files do: choose a folder without a dot"),
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
