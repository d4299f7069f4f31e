"""The tables of docs/appendix/races.md, from the results of `python -m benchmarks`.

    python -m benchmarks --threads 2 1       # every race with two threads, then with one
    python -m benchmarks.tables              # writes the tables into docs/appendix/races.md, and the pictures

And those of the papers, whose runs are kept: a script goes on where it stopped, and prints its table.

    python -m benchmarks.tables rm_lengths --seeds 0 1     # as python papers/rm_lengths.py --seeds 0 1

A table stands between the lines `<!-- name -->` and `<!-- end of name -->`; all other lines of the page stay.
"""

from __future__ import annotations

import argparse
import json
import runpy
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import chart

OURS, COMPILED, FLOOR, WRITTEN = "ebmlab", "ebmlab, compiled", "floor", "floor, written out"
HEAD = (
    "| race | contestant | median | range | times ours | range | times the floor | forward / backward | first run |\n"
)
HEAD += "|---|---|---|---|---|---|---|---|---|"

Races = dict[str, Any]
"""The races of a JSON file, as `harness.as_data` makes them."""


def rows(name: str, race: dict[str, Any]) -> list[str]:
    """A race as rows of a Markdown table, a contestant each."""
    scale = 1e3 if race["unit"] == "ms" else 1.0
    lines = []
    for who, c in race["contestants"].items():
        label = f"**{who}**" if who == OURS else who
        title = f"{race['title']} (`{name}`)" if who == OURS else ""
        if c.get("missing"):
            lines.append(f"| {title} | {label} | {c['missing']} | | | | | | |")
            continue
        low, high = min(c["seconds"]) * scale, max(c["seconds"]) * scale
        cells = [title, label, f"{short(c['median'] * scale)} {race['unit']}", f"{short(low)} to {short(high)}"]
        r = ratios(race, who)
        cells += ["", ""] if who == OURS else [f"{statistics.median(r):.2f}", f"{min(r):.2f} to {max(r):.2f}"]
        has_floor = who != FLOOR and FLOOR in race["contestants"]
        cells.append(f"{statistics.median(ratios(race, who, FLOOR)):.2f}" if has_floor else "")
        cells += [c["passes"], f"+{short(c['first'])} s"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def ratios(race: dict[str, Any], who: str, to: str = OURS) -> list[float]:
    """The time of one contestant over that of another, round by round."""
    times = race["contestants"]
    return [a / b for a, b in zip(times[who]["seconds"], times[to]["seconds"], strict=True)]


def short(value: float) -> str:
    """Three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def peers(race: dict[str, Any]) -> dict[str, float]:
    """The median of each peer's time over ours, the fastest peer first; ebmlab with other settings is none."""
    there = [w for w, c in race["contestants"].items() if not w.startswith((OURS, FLOOR)) and not c.get("missing")]
    return dict(sorted(((who, statistics.median(ratios(race, who))) for who in there), key=lambda pair: pair[1]))


def compiled_share(race: dict[str, Any]) -> float | None:
    """The median of the time of compiled steps over that of the others; None where none are."""
    there = COMPILED in race["contestants"] and not race["contestants"][COMPILED].get("missing")
    return statistics.median(ratios(race, COMPILED)) if there else None


def all_races(races: Races) -> str:
    return "\n".join([HEAD, *(line for name, race in races.items() for line in rows(name, race))])


def in_short(races: Races) -> str:
    """Of each race our time, that of compiled steps and of every peer over it."""
    lines = ["| race | ebmlab | compiled, over it | peers, over it |", "|---|---|---|---|"]
    for name, race in races.items():
        scale = 1e3 if race["unit"] == "ms" else 1.0
        ours = f"{short(race['contestants'][OURS]['median'] * scale)} {race['unit']}"
        compiled = compiled_share(race)
        best = min(1.0, compiled or 1.0)
        others = ", ".join(f"{who} {f'**{r:.2f}**' if r < best else f'{r:.2f}'}" for who, r in peers(race).items())
        lines.append(f"| `{name}` | {ours} | {'' if compiled is None else f'{compiled:.2f}'} | {others} |")
    return "\n".join(lines)


def ahead(races: Races) -> str:
    """The peers that are faster than ebmlab, with the time of compiled steps where there are such."""
    lines = []
    for name, race in races.items():
        share = compiled_share(race)
        compiled = "" if share is None else f"; compiled, ebmlab takes {share:.2f}"
        lines += [f"- `{name}`: {who}, {r:.2f} of our time{compiled}" for who, r in peers(race).items() if r < 1]
    return "\n".join(lines) or "None."


def spins(races: Races) -> str:
    """How many spins a nanosecond redraws, in the races that redraw spins."""
    lines = ["| race | contestant | spin updates per nanosecond |", "|---|---|---|"]
    for name, race in races.items():
        for who, c in race["contestants"].items():
            if race["updates"] and not c.get("missing") and who != FLOOR:
                lines.append(f"| `{name}` | {who} | {race['updates'] / c['median'] / 1e9:.3f} |")
    return "\n".join(lines)


def over_the_floor(races: Races) -> str:
    """Of each race our time, that of ebmlab and of a loop written by hand over the floor, and every peer over ours."""
    lines = [
        "| race | ebmlab | over the floor | compiled | written out | peers, over ebmlab |",
        "|---|---|---|---|---|---|",
    ]
    for name, race in races.items():
        scale = 1e3 if race["unit"] == "ms" else 1.0
        cells = [f"`{name}`", f"{short(race['contestants'][OURS]['median'] * scale)} {race['unit']}"]
        for who in (OURS, COMPILED, WRITTEN):
            both = {who, FLOOR} <= race["contestants"].keys()
            cells.append(f"{statistics.median(ratios(race, who, FLOOR)):.2f}" if both else "")
        cells.append(", ".join(f"{who} {f'**{r:.2f}**' if r < 1 else f'{r:.2f}'}" for who, r in peers(race).items()))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES: dict[str, tuple[int, Callable[[Races], str]]] = {
    "short": (2, in_short),
    "ahead": (2, ahead),
    "spins": (2, spins),
    "all": (2, all_races),
    "one thread": (1, in_short),
}
"""Name, number of threads and content of each table."""


def put(page: str, name: str, content: str) -> str:
    """The page with new content between the two lines of a table."""
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    head, _, rest = page.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise SystemExit(f"the page has no lines {begin.strip()} and {end.strip()}")
    return f"{head}{begin}{content}{end}{tail}"


def about(data: dict[str, Any]) -> str:
    """The machine, the packages and the number of rounds of a JSON file."""
    machine = data["machine"]
    packages = ", ".join(f"{package} {version}" for package, version in machine["packages"].items())
    return f"{machine['processor']}, Python {machine['python']}, {data['rounds']} rounds. Packages: {packages}."


def papers() -> dict[str, Path]:
    """The scripts that keep their runs, by name."""
    return {
        p.stem: p
        for p in sorted((Path(__file__).parents[1] / "papers").glob("*.py"))
        if "\nfrom kept import" in p.read_text()
    }


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.tables", description=(__doc__ or "").splitlines()[0])
    if sys.argv[1:2] and not sys.argv[1].startswith("-"):
        if sys.argv[1] not in papers():
            parser.error(f"no script {sys.argv[1]} keeps its runs; there are {', '.join(papers())}")
        del sys.argv[0]
        script = papers()[sys.argv[0]]
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")
        return
    parser.add_argument("--results", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--page", type=Path, default=Path("docs/appendix/races.md"))
    parser.add_argument("--machine", metavar="NAME", help="writes the tables of one more machine alone")
    options = parser.parse_args()
    page = options.page.read_text()
    for threads in (2, 1):
        file = options.results / f"results-{threads}.json"
        if not file.exists():
            print(f"{file} does not exist: the tables for {threads} threads stay as they are")
            continue
        data = json.loads(file.read_text())
        if options.machine:
            page = put(page, f"{options.machine} {threads}", over_the_floor(data["races"]))
            page = put(page, f"machine {options.machine}", about(data))
            continue
        for name, (wanted, table) in TABLES.items():
            if wanted == threads:
                page = put(page, name, table(data["races"]))
        page = put(page, f"machine {threads}", about(data))
        if threads == 2:
            shutil.copy(file.with_suffix(".png"), options.page.parents[1] / "pictures" / "races.png")
    options.page.write_text(page)
    if not options.machine:
        chart.main()


if __name__ == "__main__":
    main()
