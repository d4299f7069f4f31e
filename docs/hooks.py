"""What `mkdocs build` does beside rendering: typesets formulas, lays out for phones, and mends the search.

A formula between dollars, `$E(x)$`, becomes MathML, which browsers draw by themselves: no script and no font is loaded.
How-tos stand before results in the search, which also works in pages that are opened as files.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from PIL import Image

WIDE = 700  # pixels of a picture that a phone would make too small to read
PICTURE = re.compile(r'<p>(<img [^>]*?src="([^"]+\.(?:png|svg))"[^>]*>)</p>')
CODE = re.compile(r"(?<!<pre>)<code>([^<]*)</code>")
OPTION = re.compile(r"(?<![\w-])--?[\w.+=-]{1,32}(?![\w.+=-])")
SIGNS = re.compile(  # of a text's numbers, and what is skipped: formulas and code
    r'<(span|div) class="arithmatex">.*?</\1>|<pre.*?</pre>|<code.*?</code>'
    r"|\+-(?=[ \dJ])|(?<=[\w)}])\^(?:(\w+)|\(([^()<]+)\))",
    re.S,
)
FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>([.,:;)]*)', re.S)
BOOST = {"Learn": 3.0, "Do": 3.0, "Understand": 2.0, "Evidence": 0.02, "Reference": 0.3}  # by shelf; others: 1


def on_config(config: Any) -> Any:
    """Keeps the entries of the navigation whose files exist."""
    config["nav"] = [_kept(entry, Path(config["docs_dir"])) for entry in config["nav"]]
    return config


def _kept(entry: Any, docs: Path) -> Any:
    if isinstance(entry, str):
        return entry if (docs / entry).exists() else None
    ((title, inside),) = entry.items()
    if isinstance(inside, str):
        return {title: inside} if (docs / inside).exists() else None
    return {title: [child for child in (_kept(child, docs) for child in inside) if child is not None]}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> None:
    """Says what a page weighs in the search: who looks for "learning rate" wants to set one."""
    above = [section.title for section in page.ancestors]
    page.meta.setdefault("search", {"boost": BOOST.get(above[-1], 1.0) if above else 1.0})


def on_post_build(config: Any) -> None:
    """Mends the search, which else finds nothing for words such as "column" and "spin", and nothing at all in files."""
    site = Path(config["site_dir"])
    for worker in site.glob("assets/javascripts/workers/search.*.min.js"):
        worker.write_text(told_apart(worker.read_text()))
    index = site / "search" / "search_index.json"
    index.with_suffix(".js").write_text(f"var __index = {index.read_text()}")  # a page may load it from a file


def told_apart(worker: str) -> str:
    """The program of the search, with states of lunr's automaton that it cannot take for each other.

    In mkdocs-material 9.8.2 a state's name is the letters and the numbers of the states that they lead to, so that "1"
    to 23 and "12" to 3 are the same. The index then has words that no page holds, and a query with the beginning of one
    ends in an error.
    """
    return re.sub(r"(\w+)=\1\+(\w+)\+(\w+)\.id\}", r'\1=\1+\2+\3.id+","}', worker)


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Draws formulas and the sign of plus or minus; wide pictures scroll and link to themselves; options stay whole."""
    folder = Path(page.file.abs_src_path).parent
    html = PICTURE.sub(lambda found: _scrolling(found, folder), html)
    html = CODE.sub(lambda found: OPTION.sub(r'<span class="kept">\g<0></span>', found[0]), html)
    return with_mathml(SIGNS.sub(_sign, html))


def _sign(found: re.Match[str]) -> str:
    if power := found[2] or found[3]:
        return f"<sup>{power}</sup>"
    return "±" if found[0] == "+-" else found[0]


def with_mathml(html: str) -> str:
    """Replaces the formulas by MathML."""
    return FORMULA.sub(_mathml, html)


def _scrolling(found: re.Match[str], folder: Path) -> str:
    path = folder / found[2]
    return (
        f'<p class="wide"><a href="{found[2]}">{found[1]}</a></p>'
        if path.suffix == ".svg" or _width(path) > WIDE
        else found[0]
    )


def _width(path: Path) -> int:
    with Image.open(path) as picture:
        return picture.width


def _mathml(found: re.Match[str]) -> str:
    made = convert(unescape(found[2]).strip(), display="block" if found[1] == "div" else "inline")
    return f'<span class="kept">{made}{found[3]}</span>' if found[3] else made  # no full stop begins a line
