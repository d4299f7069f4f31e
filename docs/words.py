"""How long the pages and their sentences are: `python -m docs.words`.

Code is left out, a piece of code within a sentence is one word, and a table's cells are words but no sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST = 25  # words of a sentence
LIMITS = {"docs/howto": 600, "docs/architecture.md": 900, "docs/results.md": 800, "docs/performance.md": 700}
END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!\bal\.)(?<!Fig\.)(?<!Eq\.)(?<!App\.)(?<!Sec\.)(?<!Alg\.)[\")*_]*\s+(?=[\"(*_`$\[]*[A-Z0-9`$])"
)


@dataclass(frozen=True)
class Length:
    """What a page takes to read.

    Attributes:
        words: in prose and tables.
        sentences: the words of each.
        long: sentences of more than `LONGEST` words.
    """

    words: int
    sentences: list[int]
    long: list[str]


def length(page: str) -> Length:
    r"""Counts the words of a page of Markdown.

    Example:
        >>> length("Three short words. Two more.").sentences
        [3, 2]
    """
    text = re.sub(r"^```.*?^```$|<!--.*?-->|^---\n.*?^---$", "", page, flags=re.M | re.S)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]+`|\$\$?[^$]+\$\$?", "Code", text)
    found = list(_sentences(text))
    words = [_words(sentence) for sentence in found]
    cells = re.sub(
        r"^\|[-| :]+$|\|", " ", "\n".join(line for line in text.splitlines() if line.startswith("|")), flags=re.M
    )
    long = [sentence for sentence, number in zip(found, words, strict=True) if number > LONGEST]
    return Length(sum(words) + _words(cells), words, long)


def _words(text: str) -> int:
    return len(re.findall(r"\S*\w\S*", text))


def _sentences(text: str) -> Iterator[str]:
    """The sentences of paragraphs and of items of lists; headings and tables have none."""
    lines = [
        re.sub(r"^\s*([-*]|\d+\.)\s+", "\n\n", line)
        for line in text.splitlines()
        if not line.startswith(("|", "#", "<"))
    ]
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        yield from (sentence.strip() for sentence in END.split(" ".join(paragraph.split())) if _words(sentence))


def pages() -> list[Path]:
    """README, CHANGELOG and the pages of the site."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def limit(page: Path) -> int | None:
    """The words that a page may have, if there is a limit."""
    name = str(page.relative_to(ROOT))
    return next((limit for start, limit in LIMITS.items() if name.startswith(start)), None)


def main() -> None:
    """Prints a line for each page."""
    print(f"{'page':40} {'words':>6} {'sentences':>9} {'mean':>5} {'longest':>7} {'over ' + str(LONGEST):>7}")
    for page in pages():
        found = length(page.read_text())
        mean = sum(found.sentences) / max(1, len(found.sentences))
        over = "  too long" if (most := limit(page)) and found.words > most else ""
        longest = max(found.sentences, default=0)
        numbers = f"{found.words:6} {len(found.sentences):9} {mean:5.1f} {longest:7} {len(found.long):7}"
        print(f"{page.relative_to(ROOT)!s:40} {numbers}{over}")


if __name__ == "__main__":
    main()
