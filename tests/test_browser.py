"""The dashboard and the site in a real browser: nothing fails, nothing is fetched, nothing is cut off on a phone."""

from __future__ import annotations

import functools
import io
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers_browser import CHROMIUM, DRIVER, MISSING, browser, complaints, cut_off, resize
from PIL import Image

from ebmlab.app.dashboard import dashboard

pytest.importorskip("selenium")
pytest.importorskip("plotly")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=MISSING)
ROOT = Path(__file__).parents[1]
WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as found:
        yield found


def wait(driver: Any, script: str) -> Any:
    """What the script returns, as soon as it is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, 60).until(lambda d: d.execute_script(f"return {script}"))


def run(folder: Path, number: int, pictures: int = 3) -> str:
    """Makes the folder of a run with four curves, a score and some pictures."""
    (folder / "images").mkdir(parents=True)
    model = {"class_path": "L", "init_args": {"energy": {"class_path": "ebmlab.energies.RBM"}, "rate": number}}
    (folder / "config.yaml").write_text(yaml.safe_dump({"model": model}))
    lines = ["step,train/loss,val/energy,sampler/acceptance,lr,ais/log_likelihood,ais/std_error,ais/trusted"]
    lines += [f"{step},{number / step},{-step},0.001,0.5,,," for step in range(1, 40)]
    (folder / "metrics.csv").write_text("\n".join([*lines, f"40,,,,,{-100 - number},0.5,1"]) + "\n")
    for step in range(pictures):
        Image.new("L", (300, 200), 80 * step).save(file := io.BytesIO(), "png")
        (folder / "images" / f"samples-grid_step{step:07}.png").write_bytes(file.getvalue())
    return str(folder)


@pytest.mark.parametrize("number", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_the_dashboard(number: int, driver: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    runs = [run(tmp_path / "digits" / f"run-{i}", i) for i in range(1, number + 1)]
    dashboard([*runs, "--output", str(tmp_path / "page.html")])
    driver.get((tmp_path / "page.html").as_uri())
    one = driver.find_element
    for width in WIDTHS:
        resize(driver, width)
        assert wait(driver, "document.querySelectorAll('.frames img[src]').length") == number
        assert "ais/log_likelihood" in one("css selector", "#Scores").text
        assert "ais/std_error" in one("css selector", ".tiles").text  # logged once, and no score
        slider = one("css selector", ".slider input")
        slider.send_keys(Keys.END)
        pictures, before = one("css selector", ".frames").text, one("css selector", ".frames img").get_attribute("src")
        slider.send_keys(Keys.ARROW_LEFT)
        assert one("css selector", ".slider output").text == "step 1"
        assert one("css selector", ".frames img").get_attribute("src") != before
        assert one("css selector", ".frames").text != pictures
        driver.execute_script("document.querySelector('[data-name=\"sampler/acceptance\"]').scrollIntoView()")
        low, high = wait(
            driver, "document.querySelector('[data-name=\"sampler/acceptance\"] .body')._fullLayout?.yaxis.range"
        )
        assert 0 < low < 0.001 < high < 0.002  # of a constant curve, too
        for axis in ("log", "linear"):
            one("css selector", f"[data-axis={axis}]").click()
            assert wait(
                driver,
                "[...document.querySelectorAll('.js-plotly-plot')]"
                f".some(p => p.parentNode.dataset.name === 'train/loss' && p._fullLayout.yaxis.type === '{axis}')",
            )
        assert cut_off(driver) == [] and complaints(driver) == []


@pytest.mark.slow
def test_the_dashboard_of_300_runs(driver: Any, tmp_path: Path) -> None:
    runs = [run(tmp_path / "digits" / f"run-{i:03}", i, pictures=2) for i in range(1, 301)]
    dashboard([*runs, "--output", str(tmp_path / "page.html")])
    resize(driver, 1280)
    driver.get((tmp_path / "page.html").as_uri())
    assert wait(driver, "document.querySelectorAll('tbody tr').length") >= 300
    assert driver.find_element("css selector", "tbody td").text == "run-001"  # the best first
    assert driver.execute_script("return document.querySelectorAll('.js-plotly-plot').length") < 5  # the rest waits
    driver.execute_script("document.querySelector('[data-name=\"train/loss\"]').scrollIntoView()")
    assert wait(driver, "document.querySelectorAll('[data-name=\"train/loss\"] .trace').length") == 300
    for width in WIDTHS:
        resize(driver, width)
        assert (
            driver.execute_script("return document.documentElement.scrollHeight") < 9000
        )  # lists scroll by themselves
        assert cut_off(driver) == [] and complaints(driver) == []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def site(built: Path) -> Iterator[str]:
    """The address of the site, which a server on this machine gives out."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_the_site(width: int, driver: Any, site: str) -> None:
    resize(driver, width)
    for page in (
        "index",
        "results",
        "performance",
        "tutorials/grbm",
        "samplers",
        "reference/samplers",
        "reference/index",
    ):
        driver.get(f"{site}/{page}.html")
        wait(driver, "document.readyState === 'complete'")
        assert (page, cut_off(driver)) == (page, [])
        assert (page, complaints(driver)) == (page, [])
    driver.get(f"{site}/tutorials/grbm.html")
    assert driver.execute_script("return document.querySelectorAll('math').length") > 0
    formula = "document.querySelector('math[display=block]')"
    assert driver.execute_script(f"return {formula}.getBoundingClientRect().height") > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("learning rate", "howto/tasks"),
        ("two moons", "howto/two_moons"),
        ("column", "own_data"),
        ("spin", "howto/tasks"),
        ("Ctrl-C", "howto/tasks"),
        ("inpainting", "howto/tasks"),
        ("Bayesian posterior", "howto/posterior"),
        ("GPU", "howto/one_gpu"),
        ("load a checkpoint", "howto/tasks"),
        ("choose a sampler", "samplers.html"),
        ("anomaly", "howto/tasks"),
    ],
)
def test_the_search_finds_a_how_to_first(words: str, found: str, driver: Any, site: str) -> None:
    resize(driver, 1280)
    driver.get(f"{site}/index.html?q={words.replace(' ', '+')}")
    first = wait(driver, "document.querySelector('.md-search-result__link')?.href")
    assert found in first, first


@pytest.mark.slow
def test_the_search_works_in_pages_opened_as_files(driver: Any, built: Path) -> None:
    driver.get((built / "index.html").as_uri() + "?q=two+moons")
    assert "howto/two_moons" in wait(driver, "document.querySelector('.md-search-result__link')?.href")
    assert complaints(driver) == []
