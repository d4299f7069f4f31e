"""adabmDCA's text of couplings and fields, and models of it as runs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers_errors import refused

import ebmlab
from ebmlab.app.cli import main
from ebmlab.energies import Potts
from ebmlab.exchange import Foreign, read, write

PROTEIN = "-ACDEFGHIKLMNPQRSTVWY"
FIELDS = "".join(f"h {i} {a} {0.1 * (i + 1) * k}\n" for i in range(2) for k, a in enumerate(PROTEIN))


def words(*sequences: str) -> np.ndarray:
    return np.array([[PROTEIN.index(a) for a in sequence] for sequence in sequences])


def test_letters_are_values_with_the_gap_first(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("J 0 1 A C 1.5\n" + FIELDS)
    found = read(tmp_path / "given")
    assert found.kind == "dca" and found.facts["alphabet"] == PROTEIN
    assert found.value(found.states(words("AC", "AA"))).tolist() == pytest.approx([-2.0, -0.3])


@pytest.mark.parametrize("lines", ["J 1 0 C A 1.5\n", "J 0 1 A C 1.5\nJ 1 0 C A 1.5\n", "J 0 1 A C 1.5\n" * 2])
def test_either_triangle_or_both_are_one_coupling(lines: str, tmp_path: Path) -> None:
    (tmp_path / "given").write_text(lines + FIELDS)
    found = read(tmp_path / "given")
    assert found.value(found.states(words("AC", "AA"))).tolist() == pytest.approx([-2.0, -0.3])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("J 0 1 A C 1.5\nJ 1 0 C A 1.6\n" + FIELDS, "another line gives 1.5 for the same coupling"),
        ("J 0 0 A C 1.5\n" + FIELDS, "couples the site 0 with itself"),
        ("J 0 2 A C 1.5\n" + FIELDS, "a site beyond the 2"),
        (FIELDS.replace("h 1 ", "h 2 ").replace("h 0 ", "h 1 "), "the site 0 of 3 has no fields: sites count from 0"),
        ("J 0 1 A C nan\n" + FIELDS, "must be finite"),
        ("J 0 1 A C\n" + FIELDS, "J i j a b v"),
        ("J 0 1 A C 1.5\n", "no fields|beyond"),
    ],
)
def test_bad_files(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "given").write_text(text)
    with refused(message):
        read(tmp_path / "given", "dca")


def test_numbers_of_values_and_a_round_trip(tmp_path: Path) -> None:
    torch.manual_seed(0)
    energy = Potts(4, 5, pairs=[[0, 1], [1, 3]]).double()
    for p in energy.parameters():
        torch.nn.init.normal_(p)
    lost = write(Foreign(energy, "", form="values"), tmp_path / "a.dca")
    assert lost == ["what the values stand for: they are written as -ACGU"]
    known = Foreign(energy, "", form="values", facts={"alphabet": "ACGT-"})
    assert write(known, tmp_path / "dna.dca") == []
    assert torch.equal(read(tmp_path / "dna.dca").energy.field[:, [1, 2, 3, 4, 0]], energy.field)
    found = read(tmp_path / "a.dca")
    assert found.facts["alphabet"] == "-ACGU"
    assert torch.equal(found.energy.coupling, energy.coupling) and torch.equal(found.energy.field, energy.field)
    text = (tmp_path / "a.dca").read_text()
    for k, letter in enumerate("-ACGU"):
        text = text.replace(f" {letter} ", f" {k} ").replace(f" {letter} ", f" {k} ")
    (tmp_path / "b").write_text(text)
    assert torch.equal(read(tmp_path / "b").energy.coupling, energy.coupling)


def test_a_model_of_sequences_becomes_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ebmlab"])
    Path("given.dat").write_text("J 0 1 A C 1.5\n" + FIELDS)
    main(["convert", "given.dat", "mine"])
    assert ebmlab.load("mine").energy(words("AC", "AA")).tolist() == pytest.approx([-2.0, -0.3])
    np.save("x.npy", words("AC", "AA", "-Y"))
    main(["score", "x.npy", "--ckpt_path", "mine", "--log_likelihood"])
    main(["predict", "--ckpt_path", "mine", "--num_samples", "4", "--num_steps", "3"])
    main(["convert", "mine", "back.dca"])
    assert torch.equal(read("back.dca").energy.coupling.float(), read("given.dat").energy.coupling.float())


@pytest.mark.filterwarnings("ignore")
def test_adabmdca_itself(tmp_path: Path) -> None:
    adabm = pytest.importorskip("adabmDCA.io")
    statmech = pytest.importorskip("adabmDCA.statmech")
    torch.manual_seed(0)
    coupling = torch.randn(6, 21, 6, 21)
    coupling = coupling + coupling.permute(2, 3, 0, 1)
    for i in range(6):
        coupling[i, :, i] = 0
    params = {"bias": torch.randn(6, 21), "coupling_matrix": coupling}
    adabm.save_params(str(tmp_path / "own.dat"), params, "protein")
    found, index = read(tmp_path / "own.dat"), torch.randint(21, (1000, 6))
    own = statmech.compute_energy(torch.nn.functional.one_hot(index, 21).float(), params)
    np.testing.assert_allclose(found.value(found.states(index)), own, rtol=1e-5, atol=1e-4)
    write(found, tmp_path / "mine.dca")
    again = adabm.load_params(str(tmp_path / "mine.dca"), "protein", torch.device("cpu"))
    assert torch.equal(again["bias"], params["bias"])


def test_nucleotides_without_t_and_u_are_read_as_rna_and_it_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.dca"
    for letters, alphabet, is_unclear in [("ACG", "-ACGU", True), ("-ACGT", "-ACGT", False), ("ACU", "-ACGU", False)]:
        path.write_text("".join(f"h {i} {letter} 0.5\n" for i in range(2) for letter in letters))
        found = read(path)
        assert found.facts["alphabet"] == alphabet
        assert (found.lost == ("whether it is DNA, as it has neither T nor U: it became RNA",)) == is_unclear
