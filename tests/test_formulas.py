"""Formulas of the pages and of the reference are LaTeX that becomes MathML, and stand where they are looked for."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import yaml
from PIL import Image

pytest.importorskip("griffe")
pytest.importorskip("latex2mathml")
from docs.docstrings import FORMULAS, typeset
from docs.hooks import on_config, on_page_content, told_apart, with_mathml
from docs.notebooks import FENCE

ROOT = Path(__file__).parents[1]
SOURCES = "\n".join(path.read_text() for path in (ROOT / "ebmlab").rglob("*.py"))
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "$" in path.read_text())
MATH = re.compile(r"\$\$(.+?)\$\$|\$(?!\s)([^$\n]+?)(?<!\s)\$", re.S)


def formulas(text: str) -> list[str]:
    """The LaTeX between the dollars of a text, without its code."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
    return [display or inline for display, inline in MATH.findall(text)]


def mathml(latex: str) -> ElementTree.Element:
    """What the site shows of a formula."""
    return ElementTree.fromstring(with_mathml(rf'<span class="arithmatex">\({latex}\)</span>'))


def unknown(latex: str) -> list[str]:
    """Commands that are shown as they are written, and errors."""
    found = mathml(latex.replace("&", "&amp;").replace("<", "&lt;"))
    return [node.text or "" for node in found.iter() if "\\" in (node.text or "") or node.tag.endswith("merror")]


@pytest.mark.parametrize("plain", FORMULAS, ids=lambda plain: plain.strip()[:40])
def test_a_formula_of_the_reference_is_in_a_docstring(plain: str) -> None:
    assert plain in SOURCES
    made = typeset(plain)
    assert formulas(made) and not any(unknown(latex) for latex in formulas(made))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_formulas_of_a_page_are_known(page: Path) -> None:
    assert [word for latex in formulas(page.read_text()) for word in unknown(latex)] == []


def test_mathml_is_made_and_a_wrong_command_found() -> None:
    assert mathml(r"x^2").tag.endswith("math")
    whole = with_mathml(r'<span class="arithmatex">\(x\)</span>. <span class="arithmatex">\(y\)</span> is')
    assert re.sub(r"<math.*?</math>", "M", whole) == '<span class="kept">M.</span> M is'
    assert unknown(r"\nonesuch x") == [r"\nonesuch"]
    assert formulas("a $b$ `$c$`\n\n$$\nd\n$$\n\n```\n$e$\n```\n") == ["b", "\nd\n"]
    shown = with_mathml('<div class="arithmatex">\\[\na &lt; b\n\\]</div>')
    assert 'display="block"' in shown and "&lt;" in shown.replace("&#x0003C;", "&lt;")


def test_wide_pictures_scroll_and_options_stay_whole(tmp_path: Path) -> None:
    Image.new("L", (900, 9)).save(tmp_path / "wide.png")
    Image.new("L", (90, 9)).save(tmp_path / "small.png")
    page = SimpleNamespace(file=SimpleNamespace(abs_src_path=str(tmp_path / "page.md")))
    shown = [on_page_content(f'<p><img alt="a" src="{name}.png" /></p>', page=page) for name in ("wide", "small")]
    assert [text.startswith('<p class="wide"><a href="wide.png">') for text in shown] == [True, False]
    code = "<code>fit --a.b 1 +- 2</code> <pre><code>--c</code></pre>"
    whole = code.replace("--a.b", '<span class="kept">--a.b</span>')
    assert on_page_content(f"{code} 3 +- 4", page=page) == f"{whole} 3 ± 4"
    assert on_page_content("MMD^2, p^(1/4), <code>x^2</code>", page=page) == (
        "MMD<sup>2</sup>, p<sup>1/4</sup>, <code>x^2</code>"
    )


def test_every_page_is_in_the_navigation() -> None:
    config = {"nav": yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"], "docs_dir": str(ROOT / "docs")}
    kept = set(re.findall(r"[\w/]+\.md", repr(on_config(config)["nav"])))
    assert kept == {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}


def test_the_search_tells_states_apart() -> None:
    code = "for(var i=0;i<n;i++){var s=r[i],o=this.edges[s];e=e+s+o.id}return e}"
    assert told_apart(code) == code.replace("o.id}", 'o.id+","}')
    material = pytest.importorskip("material")
    [worker] = Path(material.__file__).parent.glob("templates/assets/javascripts/workers/search.*.min.js")
    for program in (code, worker.read_text()):
        mended = told_apart(program)
        assert len(mended) == len(program) + len('+","') and told_apart(mended) == mended
