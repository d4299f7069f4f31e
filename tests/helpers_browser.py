"""A real browser without a window, which reports what a page loads and what its console says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
MISSING = "needs Chromium and its driver, such as Debian's chromium-driver"
LOCAL = ("file:", "data:", "blob:", "about:", "chrome", "http://127.0.0.1:")


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium's driver; no host but this machine can be reached."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    rules = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", rules):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def resize(driver: Any, width: int, height: int = 900) -> None:
    """Gives the page this width, which a window of a phone's size cannot have."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def complaints(driver: Any) -> list[str]:
    """Errors of the console since the last call, and addresses on other hosts that the page asked for."""
    found = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            address = message["params"]["request"]["url"]
            found += [] if address.startswith(LOCAL) else [address]
    return found


def cut_off(driver: Any) -> list[str]:
    """What is wider than the window and cannot be scrolled to: its tags and classes."""
    return list(
        driver.execute_script(
            """
            const width = document.documentElement.clientWidth, found = [];
            for (const node of document.body.querySelectorAll("*")) {
              const box = node.getBoundingClientRect();
              if (!box.width || box.right <= width + 1 || getComputedStyle(node).position === "fixed") continue;
              const scrolls = (holder) => /auto|scroll|hidden|clip/.test(getComputedStyle(holder).overflowX);
              let holder = node.parentElement;
              while (holder && !scrolls(holder)) holder = holder.parentElement;
              if (!holder || holder === document.body || holder === document.documentElement)
                found.push(node.tagName + "." + node.className);
            }
            return found;
            """
        )
    )
