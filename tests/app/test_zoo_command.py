"""`python -m ebmlab zoo`, and `zoo/NAME` in the commands that take a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ebmlab.app.cli import main


@pytest.fixture
def zoo(run: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory with an empty cache."""
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path / "cache"))


def test_models_are_listed(zoo: None, capsys: pytest.CaptureFixture[str]) -> None:
    main(["zoo"])
    assert "zoo/rbm-digits" in capsys.readouterr().out


def test_predict_score_and_features(zoo: None) -> None:
    """Files go to `runs/zoo/NAME`, not to where the model lies."""
    np.save("bits.npy", np.eye(64, dtype=np.float32)[:5])
    main(["predict", "--ckpt_path", "zoo/rbm-digits", "--num_samples", "4", "--num_steps", "2"])
    main(["score", "bits.npy", "--ckpt_path", "zoo/rbm-digits"])
    main(["features", "bits.npy", "--ckpt_path", "zoo/rbm-digits"])
    folder = Path("runs/zoo/rbm-digits")
    assert (folder / "samples" / "samples.png").is_file() and (folder / "scores.csv").is_file()
    assert np.load(folder / "features.npy").shape == (5, 64)


def test_pack_pull_export(zoo: None, capsys: pytest.CaptureFixture[str]) -> None:
    Path("card.md").write_text("# zoo/mine\n\nMine.\n")
    main(["zoo", "pack", "zoo/rbm-digits", "mine", "--name", "mine", "--card", "card.md"])
    digest = capsys.readouterr().out.split()[-1]
    main(["zoo", "pull", "mine", "--sha256", digest])
    main(["zoo", "export", "zoo/mine", "mine.pt2"])
    main(["zoo", "list"])
    assert Path("mine.pt2").is_file() and "zoo/mine                   Mine." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pull", "gone"], "cannot be read"),
        (["fetch"], "is 'fetch', but must be one of 'list'"),
        (["pull"], "address"),
        (["export", "zoo/gone", "a.pt2"], "there is no such model"),
    ],
)
def test_errors(words: list[str], message: str, zoo: None, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["zoo", *words])
    line = capfd.readouterr().err.splitlines()[-1]
    assert end.value.code == 2 and line.startswith("error: ") and message in line
