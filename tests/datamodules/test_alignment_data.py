"""Alignments as data: weights in batches, splits without sequences that are alike, and clear errors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers_errors import one_line
from helpers_family import family_texts, write_family

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import Alignment
from ebmlab.errors import UserError


def alike_family(path: Path) -> Path:
    """Ten families of six sequences of ten sites, in a chain: each has eight or nine sites of the one before."""
    generator = torch.Generator().manual_seed(0)
    texts = []
    for _ in range(10):
        text = torch.randint(1, 21, (10,), generator=generator)
        for i in range(6):
            text = text.clone()
            text[i] = 1 + (text[i] + 3) % 20
            texts.append("".join("-ACDEFGHIKLMNPQRSTVWY"[a] for a in text))
    path.write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(texts)))
    return path


def test_batches_are_states_with_their_own_weights(tmp_path: Path) -> None:
    data = Alignment(str(alike_family(tmp_path / "a.fasta")), batch_size=4)
    data.setup("fit")
    weight_of = {tuple(x.tolist()): float(w) for x, w in zip(data.raw("train"), data.weights("train"), strict=True)}
    seen = 0
    for states, weights in data.train_dataloader():
        assert states.shape == (4, 10, 21) and weights.shape == (4,) and weights.dtype == torch.float32
        for x, w in zip(states.argmax(-1), weights, strict=True):
            assert weight_of[tuple(x.tolist())] == float(w)
            seen += 1
    assert seen == len(data.train_dataloader()) * 4 >= 40
    for split in ("train", "val", "test"):
        assert float(data.weights(split).mean()) == pytest.approx(1)
    assert len(data.weights("train").unique()) > 1


def test_weights_count_neighbours_in_the_same_split_alone(tmp_path: Path) -> None:
    """The weights of a split are those of an alignment that holds the split alone."""
    data = Alignment(str(alike_family(tmp_path / "a.fasta")), val_fraction=0.3, test_fraction=0.3)
    for split in ("train", "val", "test"):
        own = data.raw(split)
        alike = ((own.unsqueeze(1) == own).sum(-1) > 8).sum(1)
        torch.testing.assert_close(data.weights(split), ((1 / alike) / (1 / alike).mean()).float())


def test_no_sequence_of_one_split_is_alike_to_one_of_another(tmp_path: Path) -> None:
    data = Alignment(str(alike_family(tmp_path / "a.fasta")), val_fraction=0.2, test_fraction=0.2)
    splits = [data.raw(split) for split in ("train", "val", "test")]
    assert [len(split) % 6 for split in splits] == [0, 0, 0] and sum(map(len, splits)) == 60
    for i, mine in enumerate(splits):
        for its in splits[i + 1 :]:
            assert int((mine.unsqueeze(1) == its).sum(-1).max()) <= 8
    other = Alignment(str(tmp_path / "a.fasta"), val_fraction=0.2, test_fraction=0.2, split_seed=1)
    assert not torch.equal(other.raw("test"), data.raw("test"))


def test_without_weights_all_are_one(tmp_path: Path) -> None:
    data = Alignment(str(alike_family(tmp_path / "a.fasta")), identity=None)
    assert data.weights("train").eq(1).all() and len(data.raw("test")) == 6


def test_the_checkpoint_knows_letters_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.fasta"
    path.write_text("".join(f">{i}\n-{text}-\n" for i, text in enumerate(family_texts())))
    data = Alignment(str(path))
    form = Preprocessing.from_dict(data.preprocessing.to_dict())
    assert (
        form.letters == "-ACDEFGHIKLMNPQRSTVWY" and form.columns == tuple(map(str, range(2, 14))) and form.width == 14
    )
    with pytest.raises(Exception, match=r"column 0 of the samples is 2, but 1 in the training data"):
        data.adopt(Alignment(str(write_family(tmp_path / "b.fasta"))).preprocessing)
    rna = Alignment(str(path), alphabet="ACDEFGHIKLMNPQRSTVWY-")
    with pytest.raises(Exception, match="letters is ACDEFGHIKLMNPQRSTVWY-, not -ACDEFGHIKLMNPQRSTVWY"):
        rna.adopt(form)


def test_what_was_left_out_is_said(tmp_path: Path) -> None:
    path = write_family(tmp_path / "a.fasta")
    path.write_text(path.read_text() + ">x\nAXCDEFGHIKLM\n")
    said = Alignment(str(path)).description()
    assert said.startswith("61 sequences of 12 columns; left out: 1 sequence with unknown letters")
    assert "sequences of 12 sites are left (" in said and "Meff" in said


def test_settings_that_cannot_be_are_one_line(tmp_path: Path) -> None:
    path = str(write_family(tmp_path / "a.fasta"))
    for options, said in [
        ({"identity": 80}, "identity is 80, but must be from 0 to 1, or null"),
        ({"val_fraction": 0.6, "test_fraction": 0.6}, "both must be above 0 and together below 1"),
        ({"max_column_gaps": 2}, "max_column_gaps is 2, but must be at least 0 and at most 1"),
        ({"unknown": "ignore"}, 'unknown is "ignore", but must be "drop", "gap" or "refuse"'),
        ({"inserts": "no"}, 'inserts is "no", but must be "auto", "drop" or "keep"'),
        ({"gap": "--"}, "gap is '--', but must be one letter"),
    ]:
        assert said in one_line(lambda options=options: Alignment(path, **options))
    same = tmp_path / "same.fasta"
    same.write_text("".join(f">{i}\nACDEF\n" for i in range(20)))
    said = one_line(lambda: Alignment(str(same)).setup("fit"))
    assert "; 1 group of alike ones among 20 sequences, the largest of 20, which leaves none for the val split" in said


def test_two_gaps_need_not_count(tmp_path: Path) -> None:
    path = tmp_path / "gaps.fasta"
    path.write_text(
        "".join(f">{i}\n--{a}{b}\n" for i, (a, b) in enumerate(zip("ACDEFGACDEFG", "AAAAAADDDDDD", strict=True)))
    )
    options = {"max_column_gaps": 1.0, "max_sequence_gaps": 1.0, "identity": 0.7}
    counted, left_out = Alignment(str(path), **options), Alignment(str(path), **options, count_gaps=False)
    assert counted.all_weights.tolist() == pytest.approx([1 / 7] * 12)  # 3 of 4 sites agree
    assert left_out.all_weights.tolist() == [1.0] * 12  # 1 of 2


def test_weights_may_come_from_a_file(tmp_path: Path) -> None:
    path, weights = alike_family(tmp_path / "a.fasta"), tmp_path / "weights.dat"
    count = len(Alignment(str(path)).family.rows.names)
    given = [0.1 * (i + 1) for i in range(count)]
    weights.write_text("# of adabmDCA\n" + "".join(f"{x:.18e}\n" for x in given))
    data = Alignment(str(path), weights_file=str(weights))
    assert data.all_weights.tolist() == pytest.approx([given[i] for i in data.family.kept.tolist()])
    own = data.all_weights[data.part("train")]
    torch.testing.assert_close(data.weights("train"), (own / own.mean()).float())
    assert torch.equal(data.part("test"), Alignment(str(path)).part("test"))
    for content, said in [
        ("1.0\n" * (count - 1), f"weights.dat holds {count - 1} weights, but the data's file {count} samples"),
        ("1.0\nnan\n", "weights.dat, line 2: 'nan' must be a finite number from 0 on"),
        ("1.0\n-1\n", "line 2: '-1' must be a finite number from 0 on"),
        ("0\n" * count, "Alignment, train split: all weights are 0"),
    ]:
        weights.write_text(content)
        with pytest.raises(UserError, match=said):
            Alignment(str(path), weights_file=str(weights)).weights("train")
