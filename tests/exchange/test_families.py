"""Potts models of plmc, EVcouplings and pydca."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers_errors import refused

from ebmlab.energies import Potts
from ebmlab.errors import UserError
from ebmlab.exchange import Foreign, read, write

H = 0.1 * np.outer([1, 2, 3], [0, 1, 2])  # of "-AC": h of ACA is 0.1 + 0.4 + 0.3
J = np.zeros((3, 3, 3))  # of the pairs 01, 02, 12
J[0, 1, 2], J[0, 2, 1], J[1, 1, 1], J[2, 2, 1], J[2, 1, 2] = -1.5, 9, 0.5, -0.32, 7
ACA, CAC = [1, 2, 1], [2, 1, 2]


def plmc(path: Path, form: str = "<f4", index: tuple[int, ...] = (1, 2, 3)) -> Path:
    """What `OutputParametersFull` of plmc writes for two sequences, one of which it skips."""
    parts = [np.array([3, 3, 1, 1, 100], "<i4"), np.array([0.2, 0.01, 0.5, 0, 1], form), np.frombuffer(b"-AC", "S1")]
    parts += [np.array([1, 0], form), np.frombuffer(b"ACA", "S1"), np.array(index, "<i4")]
    parts += [np.full(9, 1 / 3, form), H.astype(form), np.full(27, 1 / 9, form), J.astype(form)]
    path.write_bytes(b"".join(part.tobytes() for part in parts))
    return path


@pytest.mark.parametrize("form", ["<f4", "<f8"])
def test_the_hamiltonian_is_the_negative_energy(form: str, tmp_path: Path) -> None:
    found = read(plmc(tmp_path / "given", form, (7, 8, 12)))
    x = found.states(np.array([ACA, CAC]))
    assert found.kind == "plmc" and found.names == (7, 8, 12)
    assert found.energy(x).tolist() == pytest.approx([0.52, -17.0], abs=1e-6)
    assert found.value(x).tolist() == pytest.approx([-0.52, 17.0], abs=1e-6)
    assert found.facts["alphabet"] == "-AC" and found.facts["target"] == "ACA"
    assert found.facts["theta"] == pytest.approx(0.2) and found.facts["effective_number"] == 1
    assert found.lost == ("frequencies of one and two sites, and weights of sequences",)


def test_the_older_version_has_the_indices_of_each_pair(tmp_path: Path) -> None:
    ends = [(1, 2), (1, 3), (2, 3)]
    parts = [np.array([3, 3], "<i4"), np.frombuffer(b"ACA", "S1"), np.array([1, 2, 3], "<i4"), np.zeros(9, "<f4")]
    parts += [H.astype("<f4")]
    for pair, block in zip(ends, J, strict=True):
        parts += [np.array(pair, "<i4"), np.zeros(9, "<f4"), block.astype("<f4")]
    (tmp_path / "old").write_bytes(b"".join(part.tobytes() for part in parts))
    found = read(tmp_path / "old")
    assert found.energy(found.states(np.array([ACA, CAC]))).tolist() == pytest.approx([0.52, -17.0], abs=1e-6)
    parts[5] = np.array((1, 3), "<i4")
    (tmp_path / "old").write_bytes(b"".join(part.tobytes() for part in parts))
    with pytest.raises(UserError, match="not in the order"):
        read(tmp_path / "old")


def test_a_model_of_evcouplings_in_memory() -> None:
    blocks = np.zeros((3, 3, 3, 3))
    for (i, j), block in zip([(0, 1), (0, 2), (1, 2)], J, strict=True):
        blocks[i, j], blocks[j, i] = block, block.T
    model = SimpleNamespace(J_ij=blocks, h_i=H, alphabet=np.array(list("-AC")), index_list=np.array([1, 2, 3]))
    model.target_seq = np.array(list("ACA"))
    found = read(model)
    assert found.value(found.states(np.array([ACA]))).tolist() == pytest.approx([-0.52])
    assert found.names == (1, 2, 3)


def test_what_is_written_for_evcouplings_comes_back_bit_for_bit(tmp_path: Path) -> None:
    torch.manual_seed(0)
    energy = Potts(4, 5, pairs=[[0, 1], [1, 3]])
    for p in energy.parameters():
        torch.nn.init.normal_(p)
    given = Foreign(energy, "", form="values", names=(3, 4, 6, 9), facts={"alphabet": "-ACGU"})
    assert write(given, tmp_path / "a.model") == ["frequencies, which are NaN in the file"]
    found = read(tmp_path / "a.model")
    assert found.names == given.names and found.facts["alphabet"] == "-ACGU"
    for one, other in zip(found.energy.state_dict().values(), energy.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    torch.nn.init.constant_(energy.double().field, 0.1)
    assert "digits beyond those of float32" in write(energy, tmp_path / "b.model")


@pytest.mark.parametrize("damage", [lambda raw: raw[:-4], lambda raw: raw + b"0", lambda raw: raw[:10]])
def test_a_file_of_another_size_is_refused(damage: Any, tmp_path: Path) -> None:
    path = plmc(tmp_path / "given")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match="cut short"):
        read(path, "plmc")
    with pytest.raises(UserError):
        read(path)


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    path = plmc(tmp_path / "given")
    path.write_bytes(path.read_bytes()[:-4] + np.array(np.nan, "<f4").tobytes())
    with pytest.raises(UserError, match="NaN"):
        read(path)


RULE = "#" + 70 * "="
RNA = [[0.1 * (i + 1) * k for k in range(4)] for i in range(7)]  # of ACGU; the gap is not written
BLOCK = [0.0] * 16
BLOCK[0 * 4 + 1] = 1.5  # A and C


def pydca(folder: Path, couplings: str = "1,6," + ",".join(map(str, BLOCK)), first: int = 1) -> Path:
    """What `plmdca compute_params` writes: a pair of seven sites, by rank."""
    head = f"{RULE}\n# PARAMETERS USED FOR THIS COMPUTATION: \n#\tSequence type: RNA\n{RULE}\n"
    fields = "".join(f"{i + first},{','.join(map(str, row))}\n" for i, row in enumerate(RNA))
    (folder / "fields_x.txt").write_text(head + fields)
    (folder / "couplings_x.txt").write_text(head + couplings + "\n")
    return folder / "couplings_x.txt"


@pytest.mark.parametrize("name", ["fields_x.txt", "couplings_x.txt"])
def test_pydca_gives_some_pairs_and_no_gap(name: str, tmp_path: Path) -> None:
    pydca(tmp_path)
    found = read(tmp_path / name)
    assert found.kind == "pydca" and found.facts["alphabet"] == "ACGU" and found.names == (1, 2, 3, 4, 5, 6, 7)
    x = found.states(np.array([[0, 0, 0, 0, 0, 1, 3], [1, 0, 0, 0, 0, 0, 0]]))
    assert found.energy(x).tolist() == pytest.approx([-(1.5 + 0.6 + 2.1), -0.1])
    assert any("20 of the 21 pairs" in line for line in found.lost) and any("the gap" in line for line in found.lost)


def test_pydca_in_memory_counts_from_0() -> None:
    found = read((tuple(enumerate(RNA)), (((0, 5), np.array(BLOCK)),)))
    assert found.names == () and found.energy.pairs.tolist() == [[0, 5]]
    assert found.energy(found.states(np.array([[0, 0, 0, 0, 0, 1, 3]]))).tolist() == pytest.approx([-4.2])


@pytest.mark.parametrize(
    ("couplings", "message"),
    [
        ("1,6,0.5", "has not 16 couplings"),
        ("1,8," + ",".join(["0"] * 16), "not two sites that have fields"),
        ("2,2," + ",".join(["0"] * 16), "not two sites that have fields"),
        ("1,6," + ",".join(["nan"] * 16), "finite"),
        ("1,6," + ",".join(["x"] * 16), "line 5 of couplings_x.txt"),
        ("\n".join(f"{ends}," + ",".join(["0"] * 16) for ends in ("1,6", "6,1")), "in both orders"),
        ("\n".join("1,6," + ",".join(["0"] * 16) for _ in range(2)), "comes again"),
    ],
)
def test_bad_files_of_pydca(couplings: str, message: str, tmp_path: Path) -> None:
    with refused(message):
        read(pydca(tmp_path, couplings))


def test_one_file_of_pydca_alone_is_refused(tmp_path: Path) -> None:
    path = pydca(tmp_path)
    (tmp_path / "fields_x.txt").unlink()
    with pytest.raises(UserError, match=r"fields_x\.txt is not beside it"):
        read(path)


@pytest.mark.filterwarnings("ignore")
def test_evcouplings_itself(tmp_path: Path) -> None:
    couplings = pytest.importorskip("evcouplings.couplings")
    torch.manual_seed(0)
    energy, index = Potts(6, 21), torch.randint(21, (1000, 6))
    for p in energy.parameters():
        torch.nn.init.normal_(p)
    write(energy, tmp_path / "a.model")
    model = couplings.CouplingsModel(str(tmp_path / "a.model"))
    for found in (read(model), read(tmp_path / "a.model")):
        own = model.hamiltonians(index.numpy())[:, 0]
        np.testing.assert_allclose(found.value(found.states(index)), own, rtol=1e-5, atol=1e-4)
