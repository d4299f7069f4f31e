"""The dashboard's HTML. All that comes from a run's files is escaped: nothing that a folder contains is executed."""

from __future__ import annotations

import base64
import csv
import json
import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from ebmlab.app.compare import differences, run_names
from ebmlab.app.finished_run import FinishedRun, Score
from ebmlab.app.run_pictures import pictures_of
from ebmlab.errors import how_many

MAX_POINTS = 2000  # of a curve, if there are few runs
MAX_PICTURES = 40  # of one title and run, if there are few runs
FEW = 4  # runs that fit beside each other; more of them stand below each other
_FIRST, _LAST = ("ais", "trajectory", "fid"), ("val", "train", "sampler", "lr")
_HERE = Path(__file__).parent
_TEMPLATE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>{css}</style></head><body class="{how_many}">
<header><p class="brand">ebmlab</p><h1>{title}</h1>{about}</header>
<nav>{links}<span class="switch">
<button data-axis="linear" class="on">linear</button><button data-axis="log">log</button></span></nav>
<main>{sections}</main>
<script type="application/json" id="content">{content}</script><script>{plotly}</script><script>{script}</script>
</body></html>
"""


def page(runs: Sequence[FinishedRun], plotly: str) -> str:
    """The page of one or several runs.

    Args:
        runs: what their folders say.
        plotly: the JavaScript of Plotly.
    """
    names = run_names(runs)
    logged, shown = _curves(runs), _pictures(runs)
    curves = {name: found for name, found in logged.items() if any(len(curve["x"]) > 1 for curve in found)}
    scored = {metric for run in runs for metric in run.metrics}
    numbers = {name: found for name, found in logged.items() if name not in curves and name not in scored}
    parts = {
        "Scores": _scores(runs, names),
        "Numbers": _tiles(numbers, names),
        "Pictures": _cards("picture", sorted(shown, key=lambda title: not title.startswith("samples"))),
        "Curves": "".join(
            f"<h3>{escape(group)}</h3>{_cards('plot', members)}" for group, members in _groups(list(curves)).items()
        ),
        "FID": _protocols("fid.csv", runs, names),
        "Rollbacks": _protocols("rollbacks.csv", runs, names),
        "Config": _configs(runs, names),
    }
    parts = {title: part for title, part in parts.items() if part}
    path = runs[0].folder.resolve()
    content = {"runs": names, "curves": curves, "pictures": shown}
    return _TEMPLATE.format(
        title=escape(_title(path, names)),
        how_many="one" if len(runs) == 1 else "few" if len(runs) <= FEW else "many",
        about=_about(runs, names),
        links="".join(f'<a href="#{title}">{title}</a>' for title in parts),
        sections="".join(f'<section id="{title}"><h2>{title}</h2>{part}</section>' for title, part in parts.items()),
        css=(_HERE / "dashboard.css").read_text(encoding="utf-8"),
        script=(_HERE / "dashboard.js").read_text(encoding="utf-8"),
        content=json.dumps(content, ensure_ascii=True).replace("<", "\\u003c"),
        plotly=plotly,
    )


def _title(path: Path, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{path.parent.name} / {path.name}"
    if len(names) > FEW:
        return f"{path.parent.name}: {len(names)} runs"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _cards(kind: str, names: Sequence[str]) -> str:
    """Empty figures, which the script fills."""
    cards = [
        f'<figure class="{kind}" data-name="{escape(name)}"><h4>{escape(name)}</h4><div class="body"></div></figure>'
        for name in names
    ]
    return f'<div class="grid {kind}s">{"".join(cards)}</div>' if cards else ""


def _about(runs: Sequence[FinishedRun], names: Sequence[str]) -> str:
    lines = "".join(_about_run(i, run, name) for i, (run, name) in enumerate(zip(runs, names, strict=True)))
    return lines if len(runs) <= FEW else f"<details><summary>What each run is</summary>{lines}</details>"


def _about_run(number: int, run: FinishedRun, name: str) -> str:
    kinds = {
        "learner": run.settings.get("model", ""),
        "energy": run.settings.get("model.energy", ""),
        "sampler": run.settings.get("model.sampler", ""),
        "data": run.settings.get("data", ""),
    }
    facts = [
        f"{kind} <b>{escape(path.rpartition('.')[2])}</b>" for kind, path in kinds.items() if path not in ("", "null")
    ]
    facts.append(f"<b>{run.steps:,}</b> steps")
    facts += [] if run.seconds is None else [f"<b>{_duration(run.seconds)}</b>"]
    return f'<p class="about"><span>{_dot(number)}<b>{escape(name)}</b> · </span>{" · ".join(facts)}</p>'


def _dot(number: int) -> str:
    """A dot in the colour of a run, which the script gives it."""
    return f'<i class="dot" data-run="{number}"></i>'


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _scores(runs: Sequence[FinishedRun], names: Sequence[str]) -> str:
    """The best and the last value of each metric, or its only one.

    Many runs are in the order of the first metric with a best value.
    """
    groups = _groups(list(dict.fromkeys(metric for run in runs for metric in run.metrics)))
    metrics = [metric for group in groups.values() for metric in group]
    ranked = next((metric for metric in metrics if any(run.best(metric) for run in runs)), None)
    order = list(range(len(runs)))
    if ranked and len(runs) > FEW:
        order.sort(key=lambda i: _rank(runs[i], ranked))
    runs = [runs[i] for i in order]
    rows = []
    for metric in metrics:
        known = any(metric in run.modes for run in runs)
        winner = min(runs, key=lambda run: _rank(run, metric)).best(metric) if known and len(runs) > 1 else None
        if all(len(run.metrics.get(metric, ())) <= 1 for run in runs):
            rows.append([escape(metric), *(_score(run.last(metric), winner) for run in runs)])
            continue
        if known:
            rows.append([f"{escape(metric)}, best", *(_score(run.best(metric), winner) for run in runs)])
        rows.append([f"{escape(metric)}, last", *(_score(run.last(metric)) for run in runs)])
    return _by_run("", rows, [f"{_dot(i)}{escape(names[i])}" for i in order]) if rows else ""


def _rank(run: FinishedRun, metric: str) -> float:
    """Lower is better; runs without a trusted score come last."""
    best = run.best(metric)
    return math.inf if best is None else best.value if run.modes[metric] == "min" else -best.value


def _by_run(corner: str, rows: Sequence[Sequence[str]], names: Sequence[str]) -> str:
    """A table of rows `[what, value of each run]`: a column for each run or, of many runs, a line for each."""
    if len(names) <= FEW:
        return _table([corner, *names], rows)
    labels, *columns = zip(*rows, strict=True)
    return _table(["", *labels], [[name, *column] for name, column in zip(names, columns, strict=True)])


def _tiles(numbers: dict[str, list[dict[str, Any]]], names: Sequence[str]) -> str:
    """A tile for each metric that was logged once and is no score."""
    tiles = []
    for metric, found in sorted(numbers.items()):
        values = [_value(curve, len(names) > 1) for curve in found]
        if len(values) > FEW:
            known = sorted(curve["y"][0] for curve in found if curve["y"][0] is not None)
            ends = dict.fromkeys(f"<b>{value:.5g}</b>" for value in (known[0], known[-1])) if known else ["-"]
            values = [f"{' to '.join(ends)} in {how_many(len(found), 'run')}"]
        tiles.append(
            f'<div class="tile"><h4>{escape(metric)}</h4>{"".join(f"<p>{value}</p>" for value in values)}</div>'
        )
    return f'<div class="tiles">{"".join(tiles)}</div>' if tiles else ""


def _value(curve: dict[str, Any], several: bool) -> str:
    """The one point of a curve, with the dot of its run."""
    value = math.nan if curve["y"][0] is None else curve["y"][0]
    score = Score(value, curve["x"][0], (curve["error"] or [None])[0], trusted=not curve["doubtful"])
    return (_dot(curve["run"]) if several else "") + _score(score)


def _score(score: Score | None, winner: Score | None = None) -> str:
    if score is None:
        return "-"
    error = "" if score.error is None else f" ± {score.error:.2g}"
    doubt = "" if score.trusted else ' <em class="doubt">not trusted</em>'
    won = ' class="won"' if score == winner else ""
    return f"<b{won}>{score.value:.5g}</b>{error}{doubt} <small>step {score.step:,}</small>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _groups(names: Sequence[str]) -> dict[str, list[str]]:
    """The metrics by what stands before their first slash: likelihoods first, details of the training last.

    Neighbours that have one metric each form a group together.
    """

    def rank(group: str) -> int:
        return _FIRST.index(group) if group in _FIRST else 10 + (_LAST.index(group) if group in _LAST else -1)

    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(re.split("[/-]", name)[0], []).append(name)
    joined: list[tuple[str, list[str]]] = []
    previous_single = False
    for group in sorted(groups, key=rank):
        single = len(groups[group]) == 1
        if joined and single and previous_single:
            joined[-1] = (f"{joined[-1][0]}, {group}", joined[-1][1] + groups[group])
        else:
            joined.append((group, sorted(groups[group])))
        previous_single = single
    return dict(joined)


def _curves(runs: Sequence[FinishedRun]) -> dict[str, list[dict[str, Any]]]:
    """For each metric the points of each run that logged it."""
    curves: dict[str, list[dict[str, Any]]] = {}
    at_most = max(100, MAX_POINTS * 2 * FEW // max(2 * FEW, len(runs)))
    for number, run in enumerate(runs):
        for metric, scores in run.logged.items():
            kept = thinned(scores, at_most)
            curve = {
                "run": number,
                "x": [score.step for score in kept],
                "y": [score.value if abs(score.value) < float("inf") else None for score in kept],  # NaN is no number
                "error": [score.error for score in kept] if any(score.error is not None for score in kept) else None,
                "doubtful": [i for i, score in enumerate(kept) if not score.trusted],
            }
            curves.setdefault(metric, []).append(curve)
    return curves


def thinned(scores: Sequence[Score], at_most: int) -> list[Score]:
    """At most so many of the points of a curve, the lowest and the highest of each part of it included."""
    if len(scores) <= at_most:
        return list(scores)
    size = -(-len(scores) * 2 // at_most)
    kept: list[Score] = []
    for start in range(0, len(scores), size):
        part = sorted(scores[start : start + size], key=lambda score: (not math.isnan(score.value), score.value))
        kept += sorted({part[0], part[-1]}, key=lambda score: score.step)
    return kept


def _pictures(runs: Sequence[FinishedRun]) -> dict[str, list[dict[str, Any]]]:
    shown: dict[str, list[dict[str, Any]]] = {}
    at_most = max(1, MAX_PICTURES * 2 * FEW // max(2 * FEW, len(runs)))
    for number, run in enumerate(runs):
        for title, pictures in pictures_of(run.folder, at_most).items():
            frames = [{"step": p.step, "caption": p.caption, "png": base64.b64encode(p.png).decode()} for p in pictures]
            shown.setdefault(title, []).append({"run": number, "frames": frames})
    return shown


def _protocols(file: str, runs: Sequence[FinishedRun], names: Sequence[str]) -> str:
    """A CSV file of each run as a table; nothing of runs without one."""
    tables = []
    for run, name in zip(runs, names, strict=True):
        if (path := run.folder / file).is_file():
            with path.open(newline="", errors="replace") as opened:
                head, *rows = [[escape(_rounded(cell)) for cell in row] for row in csv.reader(opened)] or [[]]
            title = f"<h3>{escape(name)}</h3>" if len(runs) > 1 else ""
            tables += [title + _table(head, rows)] if rows else []
    return "".join(tables)


def _rounded(cell: str) -> str:
    return f"{float(cell):.5g}" if cell.replace(".", "", 1).isdigit() and "." in cell else cell


def _configs(runs: Sequence[FinishedRun], names: Sequence[str]) -> str:
    found = differences(runs) if len(runs) > 1 else []
    rows = [[escape(name), *map(escape, values)] for name, values in found]
    table = _by_run("setting", rows, [*map(escape, names)]) if rows else ""
    if len(runs) > 1:
        table = f"<h3>What differs</h3>{table or '<p>All settings are the same.</p>'}"
    texts = [(run.folder / "config.yaml") for run in runs]
    whole = "".join(
        f"<details><summary>{escape(name)}: the resolved config</summary><pre>{escape(_read(path))}</pre></details>"
        for name, path in zip(names, texts, strict=True)
    )
    return f'{table}<div class="configs">{whole}</div>'


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""
