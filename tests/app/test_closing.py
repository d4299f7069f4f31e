"""The end of `fit` and `test` says the score that counts, how far to trust it, and where its picture is."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ebmlab.evaluation.headline import Headline

SHORT = [
    "--callbacks.AIS.every_n_epochs=1",
    "--callbacks.AIS.num_temperatures=30",
    "--callbacks.AIS.test_temperatures=40",
    "--callbacks.AIS.num_chains=50",
    "--callbacks.FID=false",
    "--callbacks.ParameterImages=false",
    "--callbacks.SampleGrid=false",
    "--name=one",
]
SCORE = re.compile(r"^  score      (.*)$", re.MULTILINE)
PICTURE = re.compile(r"^  picture    (.*)$", re.MULTILINE)


def logged(path: str, name: str) -> list[float]:
    with Path("runs/rbm_digits/one", path).open() as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


@pytest.mark.filterwarnings("ignore:AIS. do not trust")
def test_fit_resume_and_test_end_with_the_score(run: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    run("fit", "--trainer.max_epochs=2", *SHORT, config="rbm_digits", quick=False)
    out = capfd.readouterr().out
    (line,) = SCORE.findall(out)
    begin, end = logged("metrics.csv", "ais/log_likelihood")
    assert line.startswith(f"validation log-likelihood {begin:.4g} -> ")
    assert float(line.split()[4]) == pytest.approx(end, abs=0.06)
    trusted = logged("metrics.csv", "ais/trusted")[-1]
    assert line.endswith(", trusted" if trusted else "not to be trusted") and ("+-" in line) == bool(trusted)
    assert Path(PICTURE.findall(out)[0]).is_file()
    # nothing is left to train
    run("fit", "--trainer.max_epochs=2", "--resume=auto", *SHORT, config="rbm_digits", quick=False)
    assert SCORE.findall(capfd.readouterr().out) == [line]
    run("test", "--ckpt_path=runs/rbm_digits/one/checkpoints/last.ckpt", bare=True)
    out = capfd.readouterr().out
    (line,) = SCORE.findall(out)
    assert line.startswith("test log-likelihood ") and "->" not in line
    assert float(line.split()[2]) == pytest.approx(logged("test/metrics.csv", "ais/log_likelihood")[0], abs=0.06)
    assert Path(PICTURE.findall(out)[0]).is_file()


def test_a_run_without_a_score_says_none(run: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    run("fit", "--trainer.max_epochs=1", "--callbacks.AIS=false", config="rbm_digits", quick=False)
    assert "score" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("headline", "line"),
    [
        (Headline("FID", 14.123, about="classifier", begin=283.61), "FID 283.6 -> 14.12 (classifier)"),
        (
            Headline("likelihood", -126.62, unit="nats", error=0.04, trusted=True),
            "likelihood -126.62 +- 0.04 nats, trusted",
        ),
        (Headline("likelihood", -126.62, unit="nats", error=12.0), "likelihood -127 +- 12 nats"),
        (Headline("likelihood", float("nan"), trusted=False), "likelihood nan, not to be trusted"),
        (Headline("likelihood", -3.0, error=0.0), "likelihood -3"),
    ],
)
def test_numbers_have_the_digits_that_count(headline: Headline, line: str) -> None:
    assert str(headline) == line


def test_a_run_that_is_too_short_for_a_row_says_so(run: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    without = [f"--callbacks.{name}=false" for name in ("AIS", "FID", "ParameterImages", "SampleGrid")]
    run(
        "fit",
        "--trainer.max_steps=3",
        "--trainer.log_every_n_steps=10",
        *without,
        "--name=one",
        config="rbm_digits",
        quick=False,
    )
    assert "metrics    none: the first row is due at step 10 " in capfd.readouterr().out
    assert not Path("runs/rbm_digits/one/metrics.csv").exists()
