"""The names of the files that a study writes."""

from __future__ import annotations

from pathlib import Path


def result_file(folder: Path, target: str, sampler: str) -> Path:
    """The file in the study's folder that holds the result of one sampler on one target.

    Example:
        >>> result_file(Path("runs/a/b"), "5x5 Ising", "Gibbs/1").as_posix()
        'runs/a/b/results/5x5_Ising--Gibbs-1.pt'
    """
    return folder / "results" / f"{_plain(f'{target}--{sampler}')}.pt"


def _plain(text: str) -> str:
    return text.replace("/", "-").replace(" ", "_")
