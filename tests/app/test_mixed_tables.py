"""A table of numbers and classes from `fit` to `predict`: what goes in comes out, with the types of its columns."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ebmlab.app.cli import main

CONFIG = """
model:
  class_path: ebmlab.learners.RatioMatching
  init_args:
    energy:
      class_path: ebmlab.energies.ProductMLP
      init_args:
        domain: {class_path: ebmlab.product.Product.of_columns, init_args: {columns: [3, 0, 2]}}
        hidden_dim: 8
    estimator: {class_path: ebmlab.learners.EnergyDiscrepancy, init_args: {num_samples: 4}}
    num_steps: 3
data:
  class_path: datamodules.Arrays
  init_args: {path: people.csv, domain: mixed, categories: [kind, tall], batch_size: 40}
trainer: {max_epochs: 1, accelerator: cpu, log_every_n_steps: 1}
callbacks:
  SampleTable: {num_samples: 20, num_steps: 2, at_start: false}
  AIS: {num_chains: 20, num_temperatures: 3, every_n_epochs: 1}
wandb: disabled
"""
RUN = "runs/people/a"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("people")


@pytest.fixture
def people(run: Callable[..., None], kept: Path) -> None:
    """The working directory has a table and a model of it."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 200)
    height = 160 + 10 * kind + 3 * rng.normal(size=200)
    rows = [f"{k},{h:.3f},{int(h > 170)}" for k, h in zip(kind, height, strict=True)]
    Path("people.csv").write_text("kind,height,tall\n" + "\n".join(rows) + "\n")
    Path("people.yaml").write_text(CONFIG)
    if not (kept / "runs").exists():
        run("fit", "--config=people.yaml", "--name=a", bare=True)
        shutil.copytree("runs", kept / "runs")
    else:
        shutil.copytree(kept / "runs", "runs")


def table(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def check(rows: list[dict[str, str]]) -> None:
    assert list(rows[0]) == ["kind", "height", "tall"]
    assert {row["kind"] for row in rows} <= {"0", "1", "2"} and {row["tall"] for row in rows} <= {"0", "1"}
    assert all(50 < float(row["height"]) < 300 for row in rows)


def test_rows_are_drawn_scored_and_completed(people: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(Path(RUN, "images").glob("samples-table*.png"))
    options = (f"--ckpt_path={RUN}", "--num_steps=3")
    main(["predict", *options, "--num_samples=30"])
    drawn = table(f"{RUN}/samples/samples.csv")
    check(drawn)
    assert len(drawn) == 30 and Path(RUN, "samples/samples.png").is_file()
    numbers = torch.load(f"{RUN}/samples/samples.pt", weights_only=True)
    assert [float(row["height"]) for row in drawn] == pytest.approx(numbers[:, 1].tolist(), rel=1e-6)

    main(["predict", *options, "--num_samples=9", "--condition=kind=2,1=171.5", "--output=given"])
    rows = table("given/samples.csv")
    check(rows)
    assert all(row["kind"] == "2" and float(row["height"]) == pytest.approx(171.5) for row in rows)

    main(["complete", "people.csv", *options, "--given=kind,tall", "--num_samples=2", "--first=5", "--output=c.csv"])
    rows, truth = table("c.csv"), table("people.csv")
    check(rows)
    assert len(rows) == 10 and Path("c.png").is_file()
    for i, row in enumerate(rows):
        assert (row["kind"], row["tall"]) == (truth[i // 2]["kind"], truth[i // 2]["tall"])

    capsys.readouterr()
    main(["score", "people.csv", f"{RUN}/samples/samples.csv", f"--ckpt_path={RUN}"])
    assert "AUROC" in capsys.readouterr().out
    assert len(table(f"{RUN}/scores.csv")) == 230


def test_what_does_not_fit_is_one_line(people: None, capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.csv").write_text("kind,height,tall\n7,170,1\n")
    for args, words in (
        (["score", "wrong.csv"], "wrong.csv: row 0, column 0, both counted from 0, holds 7"),
        (["complete", "people.csv", "--given=colour"], "names of columns (kind, height, tall) or a .npy file"),
        (
            ["complete", "people.csv", "--given=top"],
            "needs images, and the model's samples have shape (3,): give names",
        ),
        (["predict", "--condition=colour=1"], "there is no column colour; there are "),
        (["predict", "--condition=kind=9"], "error: --condition kind=9: "),
    ):
        with pytest.raises(SystemExit) as error:
            main([*args, f"--ckpt_path={RUN}"])
        assert error.value.code == 2 and words in capsys.readouterr().err
