"""Writes tiny data sets in the layouts that the loaders expect."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import torch
from PIL import Image


def write_idx(path: Path, array: np.ndarray) -> None:
    """Writes an unsigned-byte array in MNIST's idx format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    )


def make_mnist(root: Path, name: str = "MNIST", train: int = 6000, test: int = 100) -> None:
    """Noisy bars at ten places, which are ten classes that a small network can tell apart."""
    rng = np.random.default_rng(0)
    for prefix, n in (("train", train), ("t10k", test)):
        labels = rng.integers(0, 10, n).astype(np.uint8)
        images = rng.integers(0, 60, (n, 28, 28)).astype(np.uint8)
        for label in range(10):
            images[labels == label, :, 2 * label + 3 : 2 * label + 6] += 180
        write_idx(root / name / "raw" / f"{prefix}-images-idx3-ubyte", images)
        write_idx(root / name / "raw" / f"{prefix}-labels-idx1-ubyte", labels)


def make_celeba(root: Path, n: int = 30) -> None:
    """Random images of CelebA's size and a partition file: two thirds for training, the rest for val and test."""
    folder = root / "celeba" / "img_align_celeba"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    lines = []
    for i in range(n):
        name = f"{i + 1:06d}.jpg"
        Image.fromarray(rng.integers(0, 255, (218, 178, 3)).astype(np.uint8)).save(folder / name)
        lines.append(f"{name} {0 if i < 2 * n // 3 else 1 + i % 2}")
    (root / "celeba" / "list_eval_partition.txt").write_text("\n".join(lines) + "\n")


COMPAS_HEAD = (
    "age,sex,race,juv_fel_count,juv_misd_count,juv_other_count,priors_count,days_b_screening_arrest,c_charge_degree,"
    "is_recid,score_text,decile_score,two_year_recid\n"
)


def make_compas(root: Path) -> None:
    """Ten rows that COMPAS's publisher would keep, and one for each reason to drop a row."""
    usable = ["{a},Male,Other,0,0,1,{p},-1,F,0,Low,1,0", "{a},Female,Asian,2,1,0,{p},30,M,1,High,9,1"]
    lines = [usable[i % 2].format(a=20 + i, p=i % 4) for i in range(10)]
    lines += [  # each of these rows has one fault
        "99,Male,Hispanic,9,9,9,99,,F,0,Low,1,0",
        "99,Male,Hispanic,9,9,9,99,31,F,0,Low,1,0",
        "99,Male,Hispanic,9,9,9,99,-31,F,0,Low,1,0",
        "99,Male,Hispanic,9,9,9,99,0,O,0,Low,1,0",
        "99,Male,Hispanic,9,9,9,99,0,F,-1,Low,1,0",
        "99,Male,Hispanic,9,9,9,99,0,F,0,N/A,-1,0",
    ]
    path = root / "compas" / "compas-scores-two-years.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(COMPAS_HEAD + "\n".join(lines) + "\n")


def make_adult(root: Path) -> None:
    def line(i: int, end: str, work: str = "Private") -> str:
        race, sex, income = "Black" if i % 3 else "White", "Male" if i % 2 else "Female", ">50K" if i % 2 else "<=50K"
        person = f"{30 + i}, {work}, {1000 + i}, Bachelors, {i % 5}, Divorced, Sales, Wife, {race}, {sex}"
        return f"{person}, 0, {i}, {40 + i % 4}, Cuba, {income}{end}"

    _write(root / "adult" / "adult.data", "\n".join([*(line(i, "") for i in range(7)), line(60, "", "?")]) + "\n\n")
    _write(
        root / "adult" / "adult.test", "|1x3 Cross validator\n" + "\n".join(line(i, ".") for i in range(7, 10)) + "\n\n"
    )


def make_news(root: Path) -> None:
    names = ", ".join(["url", "timedelta", *(f"column_{i}" for i in range(58)), "shares"])
    rng = np.random.default_rng(0)
    lines = [
        ", ".join([f"http://site/{i}/", "731.0", *map(str, rng.normal(size=58)), str(2**i)]) for i in range(11)
    ]  # targets 1, 2, 4, ... have evenly spaced logarithms
    _write(root / "OnlineNewsPopularity" / "OnlineNewsPopularity.csv", "\n".join([names, *lines]) + "\n")


def make_blog(root: Path) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(20, 281))
    table[:, [3, 7, 11, 13]] = 0.1
    table[:, -1] = np.arange(20.0)
    for name, rows in (("train", table[:14]), ("test-2012.02.01.00_00", table[14:17]), ("test-2012.03.01", table[17:])):
        _write(root / "BlogFeedback" / f"blogData_{name}.csv", "\n".join(",".join(map(str, r)) for r in rows) + "\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "##s", "sat"]


def make_bert(path: Path) -> Path:
    """A tiny BERT of ten words with random weights, and its tokenizer, as `save_pretrained` writes them."""
    import transformers

    path.mkdir()
    vocabulary = path / "words.txt"
    vocabulary.write_text("\n".join(WORDS))
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.BertTokenizer(str(vocabulary))
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=40,
        initializer_range=0.7,  # far from linear
    )
    torch.manual_seed(0)
    transformers.BertForMaskedLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
