"""Relative links and anchors of the README and of the site's pages lead somewhere; pages link to pages only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")


def text(page: Path) -> str:
    """The page without its blocks and pieces of code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as Python-Markdown and GitHub make them of plain words."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


def broken(page: Path) -> list[str]:
    """The page's links that lead nowhere."""
    wrong = []
    for link in (a or b for a, b in LINK.findall(text(page))):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if "://" in link:
            continue
        outside = page.name != "README.md" and not target.is_relative_to(ROOT / "docs")
        if not target.exists() or outside or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("# One two\n[a](#one-two) [b](#two) [c](nowhere.md) [d](README.md) `[e](code.md)`\n")
    assert broken(page) == ["#two", "nowhere.md"]
