"""`python -m ebmlab compare` of files of samples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ebmlab.app.compare import compare
from ebmlab.errors import UserError
from ebmlab.evaluation import hamming_mmd


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Two files of one law, one of another, and the second as chains."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    made = [(rng.random((400, 10)) < p).astype(np.int8) for p in (0.5, 0.5, 0.4)]
    for name, x in zip("abc", made, strict=True):
        np.save(f"{name}.npy", x)
    np.save("chains.npy", made[1].reshape(100, 4, 10))
    return made


def table(*names: str) -> dict[str, list[str]]:
    lines = compare(names).splitlines()[1:]
    return {" ".join(line.split()[: -len(names)]): line.split()[-len(names) :] for line in lines}


def test_laws_are_told_apart(files: list[np.ndarray]) -> None:
    import torch

    found = table("a.npy", "b.npy", "c.npy", "chains.npy")
    assert found["samples"] == ["400"] * 4
    assert found["chains"] == ["-", "-", "-", "4"]
    same, other, chains = map(float, found["p"][1:])
    assert same > 0.01 and other < 0.01 and chains > 0.01
    x, y = (torch.tensor(files[k]).double() for k in (0, 2))
    mmd = float(hamming_mmd(x, y, unbiased=True))
    assert float(found["MMD^2 to the first"][2]) == pytest.approx(mmd, rel=1e-2)
    assert found["largest R-hat"][0] == "-" and float(found["largest R-hat"][3]) < 1.1


def test_states_of_a_chain_are_no_independent_samples(files: list[np.ndarray]) -> None:
    """Chains that hold each draw for 25 steps say no more than the draws; those of another law are still found out."""
    for k, name in enumerate(("a", "b", "other")):
        np.save(f"{name}.npy", np.repeat(files[k][:200].reshape(20, 10, 10), 25, axis=0))
    found = table("a.npy", "b.npy", "other.npy")
    assert found["samples"] == ["5000"] * 3 and max(map(int, found["compared"])) <= 200
    assert float(found["p"][1]) > 0.05 > float(found["p"][2])


def test_all_chains_of_a_long_file_are_compared(files: list[np.ndarray]) -> None:
    x = np.random.default_rng(1).integers(0, 2, (1000, 10, 6))
    np.save("x.npy", x)
    x[:, [1, 2, 3, 4, 6, 7, 8, 9]] = 1  # every fifth of the 10,000 states is one of the chains 0 and 5
    np.save("stuck.npy", x)
    assert float(table("x.npy", "stuck.npy")["p"][1]) < 0.01


def test_single_samples_are_not_compared(files: list[np.ndarray]) -> None:
    np.save("one.npy", files[0][:1])
    for names in (("a.npy", "one.npy"), ("one.npy", "a.npy")):
        found = table(*names)
        assert found["p"] == found["MMD^2 to the first"] == ["-", "-"]


def write_csv(name: str, x: np.ndarray, header: str) -> None:
    np.savetxt(name, x, "%d", ",", header=header, comments="")


def write_set(name: str, x: np.ndarray, labels: list[str] | list[int]) -> None:
    """A sample set as dimod writes it, unpacked."""
    data = {"data": x.tolist(), "use_bytes": False}
    content = {"type": "SampleSet", "variable_labels": labels, "variable_type": "SPIN", "num_rows": len(x)}
    Path(name).write_text(json.dumps({**content, "sample_data": data, "sample_packed": False}))


LETTERS = list("abcdefghij")


def test_sample_sets_are_compared_by_their_labels(files: list[np.ndarray]) -> None:
    x = files[0]
    write_csv("x.csv", x, ",".join(LETTERS))
    write_set("x.json", x, LETTERS)
    write_set("turned.json", x[:, ::-1], LETTERS[::-1])
    write_set("counted.json", x, list(range(10)))  # no names
    for names in (("x.csv", "turned.json"), ("x.json", "turned.json"), ("a.npy", "counted.json"), ("x.csv", "a.npy")):
        assert table(*names)["p"][1] == "1", names
    write_set("other.json", x, [*LETTERS[1:], "k"])
    for first, second in (("x.json", "other.json"), ("x.csv", "other.json")):
        line = f"compare: {second}: column 0 of the samples is b, but a in {first}: give the same columns in the same"
        with pytest.raises(UserError, match=line):
            compare([first, second])
    Path("damaged.json").write_text(Path("x.json").read_text()[:90])
    with pytest.raises(UserError, match=r"damaged\.json is cut short or damaged"):
        compare(["x.json", "damaged.json"])


def test_tables_with_other_columns_or_in_another_order_are_refused(files: list[np.ndarray]) -> None:
    x = files[0]
    write_csv("x.csv", x, ",".join(LETTERS))
    write_csv("turned.csv", x[:, ::-1], ",".join(LETTERS[::-1]))
    write_csv("other.csv", x, ",".join([*LETTERS[:9], "z"]))
    for names, line in (
        (("x.csv", "turned.csv"), "compare: turned.csv: column 0 of the samples is j, but a in x.csv: give the same"),
        (("a.npy", "x.csv", "other.csv"), "compare: other.csv: column 9 of the samples is z, but j in x.csv: give"),
    ):
        with pytest.raises(UserError, match=line):
            compare(names)


def test_spins_beside_bits_are_refused(files: list[np.ndarray]) -> None:
    np.save("spins.npy", 2 * files[0] - 1)
    np.save("ones.npy", np.ones((9, 10)))
    Path("some.fasta").write_text(">a\nACDEFGHIKL\n>b\nACDEFGHIKM\n")
    for names, line in (
        (("a.npy", "spins.npy"), "compare: spins.npy holds -1 and 1, but a.npy 0 and 1: give all samples in the same"),
        (("spins.npy", "a.npy"), "compare: a.npy holds 0 and 1, but spins.npy -1 and 1"),
        (("ones.npy", "a.npy", "spins.npy"), "compare: spins.npy holds -1 and 1, but a.npy 0 and 1"),
        (("some.fasta", "a.npy"), "compare: a.npy holds numbers, but some.fasta letters"),
    ):
        with pytest.raises(UserError, match=line):
            compare(names)
    assert table("ones.npy", "spins.npy") and table("ones.npy", "a.npy")


def test_errors_are_one_line(files: list[np.ndarray]) -> None:
    np.save("wide.npy", np.zeros((5, 3)))
    np.save("real.npy", np.full((5, 10), 0.5))
    np.save("infinite.npy", np.full((5, 10), np.inf))
    for names, message in (
        (("a.npy", "wide.npy"), "samples of 3 numbers"),
        (("a.npy", "real.npy"), "not whole"),
        (("a.npy", "infinite.npy"), "infinite.npy holds numbers that are not whole"),
        (("a.npy", "b.npy", "--out", "t.md"), "only printed"),
    ):
        with pytest.raises(UserError, match=message):
            compare(names)
