"""`python -m ebmlab compare` of files of samples."""

from __future__ import annotations

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
    same, other, chains = map(float, found["p"][1:])
    assert same > 0.01 and other < 0.01 and chains == same
    x, y = (torch.tensor(files[k]).double() for k in (0, 2))
    mmd = float(hamming_mmd(x, y, unbiased=True))
    assert float(found["MMD^2 to the first"][2]) == pytest.approx(mmd, rel=1e-2)
    assert found["largest R-hat"][0] == "-" and float(found["largest R-hat"][3]) < 1.1


def test_errors_are_one_line(files: list[np.ndarray]) -> None:
    np.save("wide.npy", np.zeros((5, 3)))
    np.save("real.npy", np.full((5, 10), 0.5))
    for names, message in (
        (("a.npy", "wide.npy"), "samples of 3 numbers"),
        (("a.npy", "real.npy"), "not whole"),
        (("a.npy", "b.npy", "--out", "t.md"), "only printed"),
    ):
        with pytest.raises(UserError, match=message):
            compare(names)
