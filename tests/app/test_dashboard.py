"""The dashboard shows what a run's files say, and executes nothing of it."""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from ebmlab.app.dashboard import dashboard
from ebmlab.app.dashboard_page import thinned
from ebmlab.app.finished_run import Score
from ebmlab.drawing.captions import texts_in, with_texts
from ebmlab.errors import UserError

pytest.importorskip("plotly")
HOSTILE = "</script><script>alert(1)</script>"
METRICS = """step,train/loss,ais/log_likelihood,ais/std_error,ais/trusted,fid/classifier
9,1.0,,,,
10,,-120.0,0.5,1,9.0
19,nan,,,,
20,,-50.0,,0,8.0
"""


def png(text: str = "") -> bytes:
    Image.new("L", (3, 2)).save(file := io.BytesIO(), "png")
    return with_texts(file.getvalue(), {"Title": "samples/grid", "Description": text}) if text else file.getvalue()


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes the folder of a run."""
    monkeypatch.chdir(tmp_path)

    def call(name: str = "a", metrics: str = METRICS, rate: float = 0.1, **files: bytes) -> Path:
        folder = Path("runs", "digits", name)
        model = {"class_path": "L", "init_args": {"energy": {"class_path": "ebmlab.energies.RBM"}, "rate": rate}}
        files |= {"config.yaml": yaml.safe_dump({"model": model}).encode(), "metrics.csv": metrics.encode()} | files
        for file, content in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        return folder

    return call


class Page(HTMLParser):
    """What a browser would find in a page: its texts, its scripts and the data in them."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.figures: list[str] = []
        self.outside: list[str] = []
        self.feed(path.read_text())
        self.content: dict[str, Any] = json.loads(self.scripts[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.outside += [value or "" for name, value in attrs if name in ("src", "href")]
        self.figures += [dict(attrs)["data-name"] or ""] if tag == "figure" else []
        self.scripts += [""] if tag == "script" else []

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script":
            self.scripts[-1] += data
        elif data.strip():
            self.words.append(data.strip())


def test_curves_scores_and_pictures_of_a_run(make: Callable[..., Path]) -> None:
    first, second = png("step 0, Gibbs"), png("step 20, Gibbs")
    folder = make(
        **{
            "images/samples-grid_step0000020.png": second,
            "images/samples-grid_step0000000.png": first,
            "images/samples-grid_step0000005.png": b"<svg onload=alert(1)>",
            "images/notes.txt": b"none",
            "test/images/ais-weights_step0000020.png": png(),
            "fid.csv": b"step,fid\n10,9.123456789\n",
            "seconds.txt": b"3700",
        }
    )
    assert dashboard([str(folder)]) == "wrote runs/digits/a/dashboard.html: open it in a browser"
    page = Page(folder / "dashboard.html")
    likelihood, loss = page.content["curves"]["ais/log_likelihood"][0], page.content["curves"]["train/loss"][0]
    assert (likelihood["x"], likelihood["y"]) == ([10, 20], [-120.0, -50.0])
    assert (likelihood["error"], likelihood["doubtful"]) == ([0.5, None], [1])
    assert (loss["x"], loss["y"], loss["error"]) == ([10, 20], [1.0, None], None)
    frames = page.content["pictures"]["samples/grid"][0]["frames"]
    assert [(frame["step"], frame["caption"]) for frame in frames] == [(0, "step 0, Gibbs"), (20, "step 20, Gibbs")]
    assert [base64.b64decode(frame["png"]) for frame in frames] == [first, second]
    curves = ["ais/log_likelihood", "ais/trusted", "fid/classifier", "train/loss"]
    assert page.figures == ["samples/grid", "test ais-weights", *curves]
    place = page.words.index("ais/std_error")  # was logged once: a tile in place of a curve
    assert page.words[place + 1 : place + 3] == ["0.5", "step 10"]
    for said in ("digits / a", "RBM", "-120", "not trusted", "9.1235", "1 h 1 min", "model:"):
        assert any(said in word for word in page.words), said
    assert all(place.startswith("#") for place in page.outside)  # nothing is fetched
    assert "default-src 'none'" in (folder / "dashboard.html").read_text()


def test_a_part_that_a_run_has_not_is_not_named(make: Callable[..., Path]) -> None:
    config = {"model": {"class_path": "L", "init_args": {"sampler": None}}}
    folder = make(**{"config.yaml": yaml.safe_dump(config).encode()})
    dashboard([str(folder)])
    assert not any("sampler" in word for word in Page(folder / "dashboard.html").words[:9])


def test_nothing_in_a_run_is_executed(make: Callable[..., Path]) -> None:
    folder = make(
        metrics=f"step,{HOSTILE},once{HOSTILE}\n1,2.0,1.0\n2,3.0,\n",
        **{
            "config.yaml": yaml.safe_dump({"model": {"class_path": f"a.{HOSTILE}"}, HOSTILE: 3}).encode(),
            "images/samples-grid_step0000001.png": png(HOSTILE),
            f"images/{HOSTILE.replace('/', '')}_step0000001.png": png(),
            "fid.csv": f"step,{HOSTILE}\n1,{HOSTILE}\n".encode(),
        },
    )
    dashboard([str(folder)])
    page = Page(folder / "dashboard.html")
    assert len(page.scripts) == 3  # the data, Plotly, and ours
    assert HOSTILE in page.content["curves"] and f"once{HOSTILE}" in page.words
    assert not any(HOSTILE in script for script in page.scripts[1:])
    assert page.content["pictures"]["samples/grid"][0]["frames"][0]["caption"] == HOSTILE


def test_two_runs(make: Callable[..., Path]) -> None:
    a, b = make("a"), make("b", METRICS.replace("-120", "-110"), rate=0.25)
    assert dashboard([str(a), str(b), "--output", "both.html"]).startswith("wrote both.html")
    page = Page(Path("both.html"))
    curves = page.content["curves"]["ais/log_likelihood"]
    assert [(curve["run"], curve["y"][0]) for curve in curves] == [(0, -120.0), (1, -110.0)]
    place = page.words.index("model.rate")
    assert page.words[place : place + 3] == ["model.rate", "0.1", "0.25"]
    values = {value for value in page.words if value in ("-120", "-110")}
    assert values == {"-120", "-110"} and '<b class="won">-110</b>' in Path("both.html").read_text()
    dashboard([str(a), str(make("c"))])
    assert "All settings are the same." in Page(Path("dashboard.html")).words


def test_many_runs_are_lines_in_the_order_of_their_score(make: Callable[..., Path]) -> None:
    runs = [
        make(name, METRICS.replace("-120", f"-{value}"))
        for name, value in zip("abcde", (105, 102, 101, 104, 103), strict=True)
    ]
    dashboard([*map(str, runs), "--output", "five.html"])
    page = Page(Path("five.html"))
    start = page.words.index("Scores", page.words.index("Config"))
    names = [word for word in page.words[start:] if word in set("abcde")][:5]
    assert names == ["c", "b", "e", "d", "a"] and "digits: 5 runs" in page.words


def test_thinned_curves_keep_their_extremes() -> None:
    scores = [Score(float((i * 37) % 1000), i) for i in range(1000)]
    kept = thinned(scores, 100)
    assert len(kept) <= 100 and {0.0, 999.0} <= {score.value for score in kept}
    assert [score.step for score in kept] == sorted(score.step for score in kept)


def test_bad_inputs_are_one_line(make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    a = make("a")
    for given, said in (
        ([], "the following arguments are required: RUN"),
        ([a, a], "a run is named twice"),
        (["missing"], "no such folder"),
        ([a, "--output", "a.pdf"], "must end in .html"),
        ([a, "--output", "missing/a.html"], "missing/a.html cannot be written"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            dashboard([str(word) for word in given])
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(UserError, match=re.escape("pip install 'ebmlab[dashboard]'")):
        dashboard([str(a)])
    assert not list(Path().rglob("*.html"))


def test_neither_torch_nor_a_number_cruncher_is_loaded(make: Callable[..., Path]) -> None:
    program = (
        "import runpy, sys; sys.argv = ['ebmlab', *sys.argv[1:]]; runpy.run_module('ebmlab', run_name='__main__');"
        "assert not {'torch', 'numpy', 'pytorch_lightning', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, "dashboard", str(make())], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "wrote" in done.stdout


def test_texts_in_a_png_are_read_back_and_leave_the_picture_as_it_was() -> None:
    made = with_texts(png(), {"Title": "a", "Description": "40 chains, σ² = 2"})
    assert texts_in(made) == {"Title": "a", "Description": "40 chains, σ² = 2"}
    with Image.open(io.BytesIO(made)) as picture:
        picture.load()  # compares the checksums of all parts
        assert picture.size == (3, 2) and picture.text == texts_in(made)  # type: ignore[attr-defined]
    assert texts_in(made[:60]) == {"Title": "a"} and texts_in(b"") == {}
    with pytest.raises(ValueError, match="no PNG"):
        with_texts(b"GIF89a", {})
