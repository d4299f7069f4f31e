"""PDB files with insertion codes, missing residues, several chains and models; residues at the sites of alignments."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers_family import atom, family_texts, helix, write_family, write_structure

from ebmlab.errors import UserError
from ebmlab.sequences import Residue, distances, place, read_family, read_pdb
from ebmlab.sequences.pairwise import EXTEND, MATCH, MISMATCH, OPEN, align

LINES = [
    "HEADER    MADE UP",
    "MODEL        1",
    atom(1, " N", "GLY", "5", (0, 0, 0)),
    atom(2, " CA", "GLY", "5", (1, 0, 0)),
    atom(3, " H", "GLY", "5", (9, 9, 9)),
    atom(4, " CA", "SER", "6", (2, 0, 0)),
    atom(5, " CB", "SER", "6", (3, 0, 0), version="A", occupancy=0.3),
    atom(6, " CB", "SER", "6", (4, 0, 0), version="B", occupancy=0.7),
    atom(7, " CA", "THR", "6A", (5, 0, 0), version="A", occupancy=0.5),
    atom(8, " CA", "VAL", "6A", (6, 0, 0), version="B", occupancy=0.5),
    atom(9, " CA", "MSE", "9", (7, 0, 0), kind="HETATM"),
    atom(10, " O", "HOH", "10", (8, 0, 0), kind="HETATM"),
    atom(11, " N", "TRP", "11", (8, 0, 0)),  # a residue without C-alpha has no place
    "TER",
    atom(12, " CA", "ASP", "-1", (0, 1, 0), chain="B"),
    "ENDMDL",
    "MODEL        2",
    atom(1, " CA", "TRP", "5", (0, 0, 0)),
    "ENDMDL",
]


def test_what_a_file_says_of_residues(tmp_path: Path) -> None:
    path = tmp_path / "a.pdb"
    path.write_text("\n".join(LINES))
    residues = read_pdb(path)
    assert [(r.letter, r.label) for r in residues] == [("G", "5"), ("S", "6"), ("T", "6A"), ("M", "9")]
    assert [r.beta[0] for r in residues] == [1, 4, 5, 7] and len(residues[0].heavy) == 2
    other = read_pdb(path, chain="B")
    assert [(r.letter, r.label) for r in other] == [("D", "-1")]
    assert distances(residues, "beta")[0].tolist() == [0, 3, 4, 6]
    assert distances(residues, "heavy")[0].tolist() == [0, 1, 4, 6]


@pytest.mark.parametrize(
    ("content", "chain", "said"),
    [
        ("", None, "holds no residues"),
        ("data_1ABC\n", None, "is in mmCIF format: give the structure in PDB format"),
        ("\n".join(LINES), "Z", "has no chain Z; there are A, B"),
        (LINES[2][:30] + "     nan" + LINES[2][38:], None, "line 1: 'ATOM .* is no line of an atom"),
        (LINES[2][:40], None, "line 1: .* is no line of an atom"),
    ],
)
def test_what_is_wrong_with_a_structure_is_one_line(content: str, chain: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pdb"
    path.write_text(content)
    with pytest.raises(UserError, match=said) as error:
        read_pdb(path, chain)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def by_loops(first: str, second: str) -> float:
    """The best score of all alignments, by trying each."""

    def best(i: int, j: int, before: str) -> float:
        if i == len(first) and j == len(second):
            return 0.0
        found = []
        if i < len(first) and j < len(second):
            found.append((MATCH if first[i] == second[j] else MISMATCH) + best(i + 1, j + 1, "pair"))
        if i < len(first):
            free = j in (0, len(second))
            found.append((0 if free else EXTEND if before == "above" else OPEN) + best(i + 1, j, "above"))
        if j < len(second) and before != "above":  # a letter of the second above one of the first: the other order
            free = i in (0, len(first))
            found.append((0 if free else EXTEND if before == "below" else OPEN) + best(i, j + 1, "below"))
        elif j < len(second):
            free = i in (0, len(first))
            found.append((0 if free else OPEN) + best(i, j + 1, "below"))
        return max(found)

    return best(0, 0, "")


def score(first: str, second: str, pairs: list[tuple[int, int]]) -> float:
    """The score of an alignment, gaps at the ends free."""
    total = sum(MATCH if first[i] == second[j] else MISMATCH for i, j in pairs)
    for (i, j), (k, m) in pairwise(pairs):
        for gap in (k - i - 1, m - j - 1):
            total += OPEN + EXTEND * (gap - 1) if gap else 0
    return total


def test_an_alignment_of_two_has_the_best_score_of_all() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        first, second = ("".join(rng.choice(list("ACD"), rng.integers(1, 7))) for _ in range(2))
        pairs = align(first, second)
        assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
        assert score(first, second, pairs) == pytest.approx(by_loops(first, second)), (first, second, pairs)


def test_residues_are_placed_by_sequence_alone(tmp_path: Path) -> None:
    """A tag before, a loop missing, numbers that jump, an insert, and columns that were left out."""
    whole = "MKVLAWGDEFHIKNPQRSTVWYAC"
    rows = ["MKVLAWgdGDEFHIKNPQ-RSTVWYAC", "MRVLAYGDEFHLKNPQ-RATVWYAC", "MKILAWGDQFHIRNPQ-RSTVWFAC"]
    path = tmp_path / "a.a3m"
    path.write_text("".join(f">{i}\n{row}\n" for i, row in enumerate(rows)))
    family = read_family(path)
    assert family.values.shape == (3, 24)
    seen = "HHHH" + whole[:6] + "GD" + whole[6:12] + whole[15:]  # the insert is there, three residues are not
    structure = write_structure(tmp_path / "a.pdb", seen)
    placement = place(read_pdb(structure), family)
    expected = [*range(4, 10), *range(12, 18), -1, -1, -1, *range(18, 18 + 9)]
    assert placement.residue.tolist() == expected and placement.name == "0" and placement.identity == 1.0
    steps = [*range(6), *range(8, 14), -1, -1, -1, *range(17, 26)]
    assert placement.position.tolist() == steps


@pytest.mark.parametrize("alphabet", ["rna", "dna"])
def test_bases_of_a_structure_are_placed_whether_they_are_written_as_t_or_u(alphabet: str, tmp_path: Path) -> None:
    chain = "GUAUUCUUAGUUUAUUGCUUAUGUCUUAUU"
    path = tmp_path / "a.fasta"
    path.write_text(f">one\n{chain.replace('U', 'T')}\n>two\n{chain[::-1]}\n")
    found = place(_residues(chain[:12] + chain[14:]), read_family(path, alphabet))
    assert found.name == "one" and found.identity == 1
    assert found.residue.tolist() == [*range(12), -1, -1, *range(12, 28)]


def test_a_structure_of_another_family_or_length_is_refused(tmp_path: Path) -> None:
    family = read_family(write_family(tmp_path / "a.fasta", sites=30))
    wild = family_texts(sites=30)[0]
    for name, sequence in {"other": "GGGGGGGGGGGGGGGGGGGG", "short": wild[:10]}.items():
        with pytest.raises(
            UserError, match=r"the structure's chain of \d+ residues covers \d+ of 30 sites, by \d+% id"
        ):
            place(read_pdb(write_structure(tmp_path / f"{name}.pdb", sequence)), family)


@pytest.mark.parametrize(("letters", "sites", "length"), [("ACDEFGHIKLMNPQRSTVWY", 28, 159), ("ACGU", 76, 76)])
def test_a_structure_does_not_fit_by_chance(tmp_path: Path, letters: str, sites: int, length: int) -> None:
    """With gaps at will 28 letters find half of their like in 159 others, and 76 bases find three quarters in 76."""
    rng = np.random.default_rng(0)
    own = "".join(rng.choice(list(letters), sites))
    path = tmp_path / "a.fasta"
    path.write_text("".join(f">{i}\n{own[i:] + own[:i]}\n" for i in range(3)))
    family = read_family(path, alphabet="protein" if len(letters) > 4 else "rna")
    chains = ["".join(rng.choice(list(letters), length)) for _ in range(10)]
    for chain in chains:
        with pytest.raises(UserError, match="give a structure of the family, and its chain"):
            place(_residues(chain), family)
    kept = list(own)
    for i in rng.permutation(sites)[: sites // 5]:
        kept[i] = str(rng.choice(list(letters)))
    assert place(_residues("".join(kept)), family).name == "0"


def _residues(sequence: str) -> list[Residue]:
    return [Residue(x, str(i), heavy=np.zeros((1, 3)), beta=np.zeros(3)) for i, x in enumerate(sequence)]


def test_distances_of_closest_atoms_are_those_of_loops() -> None:
    rng = np.random.default_rng(0)
    residues = [
        Residue("A", str(i), heavy=9 * rng.normal(size=(rng.integers(1, 5), 3)), beta=np.zeros(3)) for i in range(6)
    ]
    expected = [[min(np.linalg.norm(a - b) for a in r.heavy for b in s.heavy) for s in residues] for r in residues]
    torch.testing.assert_close(distances(residues), torch.tensor(expected, dtype=torch.float64))
    assert helix(6).shape == (6, 3)
