"""Studies that are resumed with other samplers, or with a folder that is not as a study leaves it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers_studies import rows, tiny

DMALA = "{class_path: ebmlab.samplers.DMALA, init_args: {step_size: 1.6}}"
TWO = f"{{A: {{sampler: ebmlab.samplers.Gibbs}}, B: {{sampler: {DMALA}}}}}"
OTHER = "--samplers.B.sampler.init_args.step_size=0.01"


def refusal(capfd: pytest.CaptureFixture[str], call: Callable[..., Path], *args: object) -> str:
    """The one line with which the study ends."""
    with pytest.raises(SystemExit) as error:
        call(*args)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert error.value.code == 2 and len(lines) == 1
    return lines[0]


@pytest.mark.slow
def test_a_sampler_that_was_left_out_comes_back_with_its_settings_only(
    study: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tiny(tmp_path, TWO)
    folder = study(path)
    first = rows(folder)
    study(path, "--resume=true", "--samplers.B=null")
    assert "samplers.B differs from that of the results" in refusal(capfd, study, path, "--resume=true", OTHER)
    study(path, "--resume=true")
    assert rows(folder) == first


def test_a_sampler_without_results_may_change(study: Callable[..., Path], tmp_path: Path) -> None:
    path = tiny(tmp_path, TWO)
    folder = study(path)
    (folder / "results" / "ising--B.pt").unlink()
    study(path, "--resume=true", OTHER)
    assert float(rows(folder)[1]["step_size"]) == pytest.approx(0.01)


@pytest.mark.slow
def test_runs_of_earlier_versions_have_their_samplers_in_the_config(
    study: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tiny(tmp_path, TWO)
    folder = study(path)
    (folder / "samplers.yaml").unlink()
    assert "samplers.B differs" in refusal(capfd, study, path, "--resume=true", OTHER)
    study(path, "--resume=true")
    assert (folder / "samplers.yaml").exists()


@pytest.mark.slow
def test_a_resumed_run_writes_the_texts_of_samplers_before_the_last(study: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "own_texts.py").write_text(
        "from ebmlab.studies import Measure\n"
        "class Text(Measure):\n    def text(self):\n        return str(self._x[0].tolist())\n"
    )
    path = tiny(tmp_path, TWO, "measures: {t: own_texts.Text}\n")
    folder = study(path, "--samplers.A=null")
    study(path, "--resume=true")
    assert sorted(file.name for file in folder.glob("*.txt")) == ["t-ising-A.txt", "t-ising-B.txt"]


@pytest.mark.slow
def test_a_run_that_another_process_works_on_is_not_resumed(
    study: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tiny(tmp_path, TWO)
    descriptor = os.open(study(path), os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert "runs/tiny/test is in use by another process" in refusal(capfd, study, path, "--resume=true")
    os.close(descriptor)
    study(path, "--resume=true")


def test_a_folder_without_a_config_is_no_run(
    study: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tiny(tmp_path, TWO)
    Path("runs/tiny/test").mkdir(parents=True)
    assert "runs/tiny/test has no config.yaml" in refusal(capfd, study, path, "--resume=true")
    study(path)
