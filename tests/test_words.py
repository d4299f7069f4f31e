"""Pages and sentences stay short enough to read."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from docs.words import LONGEST, length, limit, pages

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_short(page: Path) -> None:
    found = length(page.read_text())
    assert found.words <= (limit(page) or found.words)
    assert len(found.long) <= 1 + len(found.sentences) // 10, found.long


def test_a_release_has_thirty_lines() -> None:
    for release in re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[1:]:
        assert len([line for line in release.splitlines() if line.startswith("- ")]) <= 30, release.split("\n")[0]


def test_what_is_long_is_found() -> None:
    long = " ".join(["word"] * (LONGEST + 1))
    page = (
        f"# Title\n\nShort one. {long.capitalize()}. [A link](x.md) with `some code of mine`.\n\n- An item\n- {long}\n"
    )
    found = length(f"{page}\n| {long} | cell |\n|---|---|\n\n```\n{long}\n```\n")
    assert found.sentences == [2, 26, 4, 2, 26] and found.words == 60 + 27 and len(found.long) == 2
    assert length("A proposal. By Sun et al. It moves (Fig. 2). Really.").sentences == [2, 8, 1]


def test_the_verdicts_are_counted_right() -> None:
    page = (ROOT / "docs" / "results.md").read_text()
    claims = Counter(re.findall(r"^\| \[[^|]*\| [^|]* \| ([a-z ]+) \|", page, re.M))
    legend = {verdict: int(number) for verdict, number in re.findall(r"^\| ([a-z ]+) \| (\d+) \|", page, re.M)}
    assert legend == claims and f"Of {claims.total()} claims {claims['confirmed']} are confirmed" in page
