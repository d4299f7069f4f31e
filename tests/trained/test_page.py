"""The blocks and commands of docs/trained_model.md run as they stand, and do what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ebmlab.app.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "trained_model.md").read_text()
PICTURES = re.findall(r"!\[[^\]]*\]\((.*?)\)", PAGE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::lightning_fabric.utilities.warnings.PossibleUserWarning")
def test_the_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 7
    out = capsys.readouterr().out
    auroc = float(re.findall(r"^0\.\d+$", out, re.M)[0])
    assert auroc > 0.65 and "trusted: True" in out and "log Z = " in out
    samples, digits = np.load("samples.npy"), names["digits"]
    assert samples.shape == (1000, 1, 8, 8) and set(np.unique(samples)) == {0, 1}
    assert abs(samples.mean() - (digits > 8).mean()) < 0.05
    assert Path("digits.ckpt.log_z.json").stat().st_mode & 0o077 == 0
    bits = (digits[:5] > 8).astype(np.float32)
    assert (names["completions"][:, :, :, :4] == bits[:, None, :, :4]).all()
    assert (names["completions"][:, :, :, 4:] == bits[:, None, :, 4:]).mean() > 0.7
    assert names["features"].shape == (len(digits), 64) and names["gradients"].shape == (len(digits), 1, 8, 8)
    assert np.allclose(names["product"](names["x"]).numpy(), 3 * names["model"].energy(digits), rtol=1e-4)
    commands = re.findall(r"^`?python -m ebmlab ((?:score|complete|features) [^`\n]*)", PAGE, re.M)
    assert len(commands) == 3
    for command in commands:
        main(shlex.split(command))
    main(
        ["predict", "--ckpt_path=digits.ckpt", "--num_samples=7", "--num_steps=3", "--denoise=false", "--condition=0=1"]
    )
    drawn = torch.load("samples/samples.pt", weights_only=True)
    assert drawn.shape == (7, 1, 8, 8) and (drawn[:, 0, 0, 0] == 1).all() and Path("samples/samples.png").exists()
    for name in ("scores.csv", "scores.png", "completions.npy", "completions.png", "features.csv"):
        assert Path(name).stat().st_size > 0


def test_the_pictures_are_there_and_small() -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert len(PICTURES) == 6
    assert all((docs / name).stat().st_size < 200_000 for name in PICTURES)
