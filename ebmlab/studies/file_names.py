"""The names of the files that a study writes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ebmlab.drawing.picture_names import SWEEP, picture_name
from ebmlab.errors import UserError
from ebmlab.studies.columns import MEAN_ENERGY, curve_labels
from ebmlab.studies.measures import Measure

LONGEST = 200  # bytes, of the 255 that file systems allow; W&B lengthens the names of pictures


def result_file(folder: Path, target: str, sampler: str) -> Path:
    """The file in the study's folder that holds the result of one sampler on one target."""
    return folder / "results" / f"{_plain(f'{target}--{sampler}')}.pt"


def text_file(folder: Path, measure: str, target: str, sampler: str) -> Path:
    """The file in the study's folder that holds a measure's text on one sampler and target."""
    return folder / f"{_plain(f'{measure}-{target}-{sampler}')}.txt"


def check_file_names(
    targets: Collection[str], samplers: Collection[str], measures: Mapping[str, Measure], sweep: bool = False
) -> None:
    """Raises `UserError` if two files of a study would have one name, or if a name is too long for a file.

    Args:
        targets: their names.
        samplers: their names.
        measures: by name.
        sweep: whether there are pictures of a sweep.
    """
    owners: dict[str, str] = {}
    for owner, name in _files(targets, samplers, measures, sweep):
        if name in owners:
            raise UserError(f"{owners[name]} and {owner} would both be saved as {name}; rename one")
        if (size := len(os.fsencode(name))) > LONGEST:
            raise UserError(
                f"{owner[:60]}...: its file would have a name of {size} bytes, but at most {LONGEST} are allowed; "
                "choose shorter names"
            )
        owners[name] = owner


def _files(
    targets: Collection[str], samplers: Collection[str], measures: Mapping[str, Measure], sweep: bool
) -> Iterator[tuple[str, str]]:
    """What each file holds, and its name."""
    drawn = [*curve_labels(measures).values(), MEAN_ENERGY]
    drawn += [name for name, measure in measures.items() if type(measure).picture is not Measure.picture]
    written = [name for name, measure in measures.items() if type(measure).text is not Measure.text]
    for target in targets:
        for sampler in samplers:
            yield f"{sampler} on {target}", result_file(Path(), target, sampler).name
            for measure in written:
                yield f"{measure} of {sampler} on {target}", text_file(Path(), measure, target, sampler).name
    for what in drawn:
        for target in (*targets, *([SWEEP] if sweep else [])):
            yield f"{what} of {target}", f"{picture_name(what, target)}.png"


def _plain(text: str) -> str:
    return text.replace("/", "-").replace(" ", "_")
