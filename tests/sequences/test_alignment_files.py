"""Alignments in every format, and what is wrong with others in one line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from ebmlab.errors import UserError
from ebmlab.sequences import Alphabet, read_family
from ebmlab.sequences.alignment_file import Rows, find, read_rows

ROWS = ["AC-DE", "GCHDE", "-CHDK"]
FASTA = ">one first\r\nAC-\r\nDE\r\n\r\n>two\r\nGCHDE\r\n>one\r\n-CHDK\r\n"  # a name that comes twice, wrapped lines
A2M = ">one\nA.C-..DE\n>two\nGkCHnkDE\n>one\n-.CH..DK\n"
A3M = "#A3M#\n>ss_pred\nHHHHH\n>one\nAC-DE\n>two\nGkCHnkDE\n>one\n-CHDK\n\0"
STOCKHOLM = (
    "# STOCKHOLM 1.0\n#=GF ID x\n\none A.C-\ntwo GkCH\nsix -.CH\n#=GC SS ....\n\none ..DE\ntwo nkDE\nsix ..DK\n//\n"
)
COMMENTED = "# a comment, as above the WW domain\n" + FASTA
FILES = {
    "a.fasta": FASTA,
    "a.fa": COMMENTED,
    "a.a2m": A2M,
    "called-wrongly.fasta": A2M,
    "a.a3m": A3M,
    "also-wrongly.fa": A3M,
    "a.sto": STOCKHOLM,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("packed", [False, True])
def test_every_format_gives_the_same_rows(name: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / (f"{name}.gz" if packed else name)
    content = FILES[name].encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    rows = read_rows(path)
    assert [rows.columns(text) for text in rows.texts] == ROWS
    assert rows.names[:2] == ["one", "two"]
    family = read_family(path, max_column_gaps=0.5, max_sequence_gaps=0.5)
    assert family.alphabet.decode(family.values) == ROWS
    inserts = sum(letter.islower() for letter in "".join(rows.texts))
    assert family.dropped.inserts == inserts == (0 if FILES[name] in (FASTA, COMMENTED) else 3)


def test_lower_case_of_equally_long_rows_is_a_residue_unless_it_is_asked_not_to_be(tmp_path: Path) -> None:
    """As in DHFR's alignment, whose rows have lower case letters, equal lengths, and no dots."""
    path = tmp_path / "a.faa"
    path.write_text(">one\nACk-\n>two\nACDE\n>three\nA--E\n")
    assert read_family(path, max_column_gaps=1, max_sequence_gaps=1).values.shape == (3, 4)
    with pytest.raises(UserError, match=r"sequence 1, one, has 3 columns .* but most have 4"):
        read_family(path, inserts="drop")


def test_dots_without_lower_case_are_gaps(tmp_path: Path) -> None:
    path = tmp_path / "a.fasta"
    path.write_text(">one\nAC.E\n>two\nA..E\n>three\nACDE\n")
    family = read_family(path, max_column_gaps=1, max_sequence_gaps=1)
    assert family.alphabet.decode(family.values) == ["AC-E", "A--E", "ACDE"]


@pytest.mark.parametrize("form", [">{}\n{}\n", "{} {}\n"])
def test_dots_are_gaps_where_a_column_holds_letters_too(form: str, tmp_path: Path) -> None:
    """Each row has as many dots, as aligned FASTA and Stockholm may have by chance."""
    rows = ["AC.DE", "A.CDE", ".CADE", "ACD.E"]
    text = "".join(form.format(f"r{i}", row) for i, row in enumerate(rows))
    path = tmp_path / "a.txt"
    path.write_text(text if text.startswith(">") else f"# STOCKHOLM 1.0\n{text}//\n")
    family = read_family(path, max_column_gaps=1, max_sequence_gaps=1)
    assert family.alphabet.decode(family.values) == [row.replace(".", "-") for row in rows]
    assert not read_rows(path).inserts and read_rows(path, "drop").inserts


def test_residues_know_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.a3m"
    path.write_text(">one\nAkC-D\n>two\nA-CD\n>three\nACCD\n")
    family = read_family(path, max_column_gaps=0.4, max_sequence_gaps=1)
    assert family.columns.tolist() == [0, 2, 3] or family.columns.tolist() == [0, 1, 2, 3]
    site = {column: i for i, column in enumerate(family.columns.tolist())}
    assert family.residues(0) == [("A", 0), ("K", -1), ("C", site.get(1, -1)), ("D", site[3])]


def test_what_is_left_out_is_counted_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.fasta"
    rows = ["ACDEX-", "ACDEF-", "ACXEF-", "A--EF-", "ACDEFG"]
    path.write_text("".join(f">{i}\n{row}\n" for i, row in enumerate(rows)))
    family = read_family(path, max_column_gaps=0.5, max_sequence_gaps=0.3)
    found = family.dropped
    assert (found.sequences, found.columns) == (5, 6)
    assert (found.gappy_columns, found.unknown, found.gappy_sequences, found.unknown_as_gaps) == (1, 2, 1, 0)
    assert family.names == ["1", "4"] and family.kept.tolist() == [1, 4] and family.values.shape == (2, 5)
    assert str(found) == (
        "5 sequences of 6 columns; left out: 1 column with too many gaps, 2 sequences with unknown letters, 1 "
        "sequence with too many gaps"
    )
    as_gaps = read_family(path, unknown="gap", max_column_gaps=0.5, max_sequence_gaps=0.3)
    assert as_gaps.dropped.unknown_as_gaps == 2 and as_gaps.alphabet.decode(as_gaps.values)[0] == "ACDE-"
    with pytest.raises(UserError, match=r"sequence 1, 0, has the letter X in column 5, .* so have 2 of 5 sequences"):
        read_family(path, unknown="refuse", max_column_gaps=0.5)


def test_alphabets(tmp_path: Path) -> None:
    assert Alphabet.of("protein").letters == "-ACDEFGHIKLMNPQRSTVWY"
    path = tmp_path / "a.fasta"
    path.write_text(">one\nacgu\n>two\nAC-U\n")
    assert read_family(path, alphabet="rna", max_column_gaps=1, max_sequence_gaps=1).values.tolist() == [
        [1, 2, 3, 4],
        [1, 2, 0, 4],
    ]
    with pytest.raises(UserError, match=r"has the letter U in column 4, which is not in the alphabet -ACDEF"):
        read_family(path, alphabet="protein")
    own = read_family(path, alphabet="UGCA-", max_column_gaps=1, max_sequence_gaps=1)
    assert own.values.tolist() == [[3, 2, 1, 0], [3, 2, 4, 0]] and own.alphabet.gap_value == 4
    stars = read_family(path, alphabet="*ACGU", gap="*", max_column_gaps=1, max_sequence_gaps=1)
    assert stars.values.tolist()[1] == [1, 2, 0, 4]
    for wrong in ("A", "AAC", "A C", "AC\u00c9"):
        with pytest.raises(
            UserError,
            match=f"the alphabet is '{wrong}', but must be protein, rna, dna, or two or more ASCII .* no spaces",
        ):
            read_family(path, alphabet=wrong)


@pytest.mark.parametrize("letters", ["-acgu", "-AcGu", "ACGU-"])
def test_an_alphabet_may_be_in_either_case(letters: str, tmp_path: Path) -> None:
    path = tmp_path / "a.fasta"
    path.write_text(">one\nacgu\n>two\nAC-T\n>three\naC-t\n")
    family = read_family(path, alphabet=letters, max_column_gaps=1, max_sequence_gaps=1)
    ends = "".join(letters[letters.upper().index(base)] for base in "ACGU")
    two = ends[:2] + "-" + ends[3]
    assert family.alphabet.decode(family.values) == [ends, two, two] and family.dropped.unknown == 0
    assert [family.alphabet.value(letter) for letter in "tUx"] == [letters.upper().index("U")] * 2 + [None]
    with pytest.raises(UserError, match=r"the alphabet is '-ACGTa', but must be .* none twice in either case"):
        read_family(path, alphabet="-ACGTa")


@pytest.mark.parametrize("inserts", ["keep", "drop"])
@pytest.mark.parametrize("letter", ["\N{LATIN SMALL LETTER SHARP S}", "\N{LATIN SMALL LETTER DOTLESS I}"])
def test_a_letter_whose_upper_case_is_of_an_alphabet_is_unknown(letter: str, inserts: Any, tmp_path: Path) -> None:
    """The upper case of the first is SS, of the second I."""
    path = tmp_path / "a.fasta"
    path.write_text(f">one\nA{letter}CD\n>two\nAECD\n", encoding="utf-8")
    family = read_family(path, inserts=inserts, unknown="gap", max_sequence_gaps=1, max_column_gaps=1)
    assert family.alphabet.decode(family.values) == ["A-CD", "AECD"] and family.dropped.unknown_as_gaps == 1
    assert family.residues(0) == [("A", 0), (letter, 1), ("C", 2), ("D", 3)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty: give an alignment in FASTA, A2M, A3M or Stockholm"),
        (" \n\n", "is empty"),
        (">one\n", "the sequence one has no letters"),
        (">one\nACD\n>two\nAC\n>three\nACD\n", "sequence 2, two, has 2 columns, but most have 3: align the sequences"),
        ("ACD\nACE\n", "line 1: 'ACD' stands before the first header"),
        (">one\n---\n>two\n---\n", "each column has more than 30% gaps"),
        (">one\n123\n>two\n456\n", "has the letter 1 in column 1, which is not in the alphabet"),
        ("# STOCKHOLM 1.0\none AC D\n//\n", "line 2: 'one AC D' must be a name and letters"),
        ("# STOCKHOLM 1.0\none AC\n//\n# STOCKHOLM 1.0\n", "line 4: a second alignment begins here"),
        ("# STOCKHOLM 1.0\n//\n", "holds no sequences"),
        ("# STOCKHOLM 1.0\none AC\ntwo AD\n", "has no // at its end, with which Stockholm files end: it is cut short"),
        ("a\0b", "is no text"),
        (">\x1b[31mred\nAC\n>two\nACD\n>three\nACD", r"sequence 1, \\x1b\[31mred, has 2 columns"),
    ],
)
def test_what_is_wrong_is_one_line(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.fasta"
    path.write_text(content)
    with pytest.raises(UserError, match=said) as error:
        read_family(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "a.fasta.gz"
    path.write_bytes(gzip.compress(FASTA.encode())[:-9])
    with pytest.raises(UserError, match="cannot be read"):
        read_family(path)
    for name, said in {
        "gone.fasta": "gone.fasta: no such file",
        "package:no_such_package/a.fasta": "the package no_such_package is not installed: pip install",
        "package:ebmlab/gone.fasta": "the package ebmlab has no such file",
        "package:ebmlab/../pyproject.toml": "the package ebmlab has no such file",
        "package:os.path/a": "the package os.path is not installed",
    }.items():
        with pytest.raises(UserError, match=said):
            find(name)


def test_a_package_is_found_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger" / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "stranger" / "a.fasta").write_text(FASTA)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find("package:stranger/a.fasta") == tmp_path / "stranger" / "a.fasta"


def test_an_alphabet_of_nucleotides_takes_t_and_u_alike() -> None:
    assert Alphabet.of("rna").encode(["TU-X"]).tolist() == [[4, 4, 0, 255]]
    assert Alphabet.of("dna").encode(["TU-X"]).tolist() == [[4, 4, 0, 255]]
    assert Alphabet.of("UGCA.", gap=".").encode(["TUA."]).tolist() == [[0, 0, 3, 4]]
    for letters in ("protein", "ACGTU", "-ACG", "-ACGTN"):
        assert 255 in (Alphabet.of(letters).encode(["TUX"])[0, :3])
        own = Alphabet.of(letters)
        assert [own.letters[k] for k in own.encode(["TU"])[0] if k != 255] == [a for a in "TU" if a in own.letters]


@pytest.mark.parametrize("inserts", [False, True])
@pytest.mark.parametrize("gap", ["-", "X", "x"])
def test_letters_are_those_of_residues(inserts: bool, gap: str) -> None:
    rows, text = Rows([], [], inserts, gap), "A-c.XxD--e.K\N{LATIN SMALL LETTER SHARP S}"
    assert rows.letters(text) == "".join(letter for letter, _ in rows.residues(text))
