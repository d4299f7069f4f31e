"""The site is built without a warning, and loads nothing from other hosts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")
ROOT = Path(__file__).parents[1]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]+src=\"(https?:)?//|<link[^>]+stylesheet[^>]+href=\"(https?:)?//"
)


@pytest.mark.slow
def test_the_site_is_built_and_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        assert not LOADED.search(page.read_text()), page
    for css in tmp_path.rglob("*.css"):
        assert "@import" not in css.read_text() and "url(http" not in css.read_text()
    samplers = (tmp_path / "reference" / "samplers.html").read_text()
    assert 'id="ebmlab.samplers.DMALA"' in samplers and "&gt;&gt;&gt;" in samplers
