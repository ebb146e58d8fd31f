"""The page in a real browser: sorting, filtering, paging, keyboard, no errors.

Needs Selenium and Debian's chromium and chromium-driver; the check of accessibility also axe-core-python, or
AXE=<path of axe.min.js>.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.contents.run import content_of
from simsys.html.blocks import Figure, Figures, Items, Listing, Page, Picture, Section, Table
from simsys.html.charts import curves, stacked_bars
from simsys.html.page import write_page
from simsys.html.sources import page_of
from simsys.simulation import simulate
from tests.helpers.plot_toys import found, load_sweep

webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="chromium and chromedriver are not installed")
NASTY = "<script>alert(1)</script>"
RUNS: dict[str, dict[str, Any]] = {
    "serving": {
        "hardware": {"gpu": "H100-SXM"},
        "serving": {"engine": "vllm"},
        "workload": {"arrivals": {"kind": "poisson", "rate": "20 req/s"}, "prompt_tokens": 200, "output_tokens": 20,
                     "num_requests": 200},
        "slo": {"ttft": "100 ms"},
    },
    "training": {
        "hardware": {"profile": "dgx-a100", "gpus_per_node": 2},
        "parallelism": {"strategy": "DDP"},
        "training": {"batch_size_per_gpu": 2, "num_iterations": 3},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('browser')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_window_size(1100, 900)
    yield driver
    driver.quit()


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Any:
    rows = [[f"r{place}", place * 7919 % 1009, None if place == 3 else place / 8] for place in range(1000)]
    few = [[name, value] for name, value in (("b", 2.0), (NASTY, 10.0), ("a", None))]
    blocks = [
        Figures([Figure("TTFT", "1 ms", "expected error 5 %")]),
        Picture("Curve", curves("Curve", {"a": [(1.0, 2.0), (2.0, 3.0)], NASTY: [(1.0, 1.0)]}, "s", "ms")),
        Picture("Bars", stacked_bars("Bars", {NASTY: {"x": 1.0, "y": 2.0}}, "ms")),
        Table("many", ["name", "number", "share"], rows, data=True),
        Table("few", ["name", "value"], few),
        Items([NASTY], warning=True),
        Listing("Configuration", NASTY, folded=True),
    ]
    path = write_page(Page(NASTY, "An answer", [NASTY], [Section("All", blocks)], ["simsys"]), tmp_path / "p.html")
    browser.get_log("browser")
    browser.get(path.as_uri())
    return browser


def boxes(driver: Any) -> list[Any]:
    return list(driver.find_elements("css selector", "[data-table]"))


def column(box: Any, place: int) -> list[str]:
    return [cell.text for cell in box.find_elements("css selector", f"tbody td:nth-child({place})")]


def test_there_is_no_error_and_no_foreign_script(page: Any) -> None:
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert page.title == NASTY
    assert page.find_element("tag name", "h1").text == NASTY


def test_a_long_table_is_sorted_as_a_whole(page: Any) -> None:
    box = boxes(page)[0]
    button = box.find_elements("css selector", "th button")[1]
    button.click()
    assert column(box, 2)[:3] == ["0", "1", "2"]
    assert box.find_elements("css selector", "th")[1].get_attribute("aria-sort") == "ascending"
    button.click()
    assert column(box, 2)[0] == "1,008"
    share = box.find_elements("css selector", "th button")[2]
    share.click()
    share.click()
    assert column(box, 3)[0] == "124.9"  # a missing value is last in both orders


def test_filter_and_pages(page: Any) -> None:
    box = boxes(page)[0]
    assert len(column(box, 1)) == 25
    box.find_elements("css selector", ".pager button")[1].click()
    assert column(box, 1)[0] == "r25"
    field = box.find_element("css selector", "input")
    field.send_keys("R99")
    assert column(box, 1) == ["r99", *(f"r99{digit}" for digit in range(10))]
    assert "of 11" in box.find_element("css selector", ".pager").text


def test_a_short_table_keeps_its_texts(page: Any) -> None:
    box = boxes(page)[1]
    box.find_elements("css selector", "th button")[1].click()
    assert column(box, 1) == ["b", NASTY, "a"]
    assert column(box, 2) == ["2", "10", "–"]


def test_the_keyboard_reaches_all_controls(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    reached = set()
    page.find_element("tag name", "body").send_keys(Keys.TAB)
    for _ in range(40):
        element = page.switch_to.active_element
        reached.add((element.tag_name, element.get_attribute("type") or ""))
        element.send_keys(Keys.TAB)
    assert {("a", ""), ("button", "button"), ("input", "search"), ("summary", "")} <= reached
    box = boxes(page)[0]
    button = box.find_elements("css selector", "th button")[1]
    button.send_keys(Keys.ENTER)
    assert column(box, 2)[0] == "0"


@pytest.mark.parametrize("width", [390, 1100])
def test_the_page_is_no_wider_than_the_window(page: Any, width: int) -> None:
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False,
    })  # fmt: skip
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def axe_script() -> str:
    """The program of axe-core that checks a page."""
    if "AXE" in os.environ:
        return Path(os.environ["AXE"]).read_text(encoding="utf-8")
    package = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed, and AXE is not set")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def contents() -> dict[str, Any]:
    """What real pages are made of, with a model whose name is a program."""
    serving, training = (
        SimulationConfig.model_validate({"name": name, "model": {"name": "GPT2-Small"}, **given})
        for name, given in RUNS.items()
    )
    runs = [content_of(config, simulate(config), folder=Path("results")) for config in (serving, training)]
    named = [replace(run, result={**run.result, "name": NASTY, "warnings": [NASTY]}) for run in runs]
    return {"serving": named[:1], "training": named[1:], "runs": named, "sweep": load_sweep(), "search": found()}


@pytest.fixture(scope="module")
def real_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {name: write_page(page_of(content), folder / f"{name}.html") for name, content in contents().items()}


@pytest.mark.parametrize("name", ["serving", "training", "runs", "sweep", "search"])
def test_real_pages_work(browser: Any, real_pages: dict[str, Path], name: str) -> None:
    browser.get_log("browser")
    browser.get(real_pages[name].as_uri())
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    if name not in ("sweep", "search"):
        assert NASTY in browser.find_element("css selector", "header .warnings").text
    for box in boxes(browser):
        for button in box.find_elements("css selector", "th button")[:2]:
            browser.execute_script("arguments[0].click()", button)
            assert box.find_elements("css selector", "th[aria-sort]")
    focusable = "return document.querySelectorAll('a,button:not([disabled]),input,summary,[tabindex=\"0\"]').length"
    assert browser.execute_script(focusable) > 5
    assert serious(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_there_is_no_serious_problem_of_accessibility(page: Any, scheme: str) -> None:
    media = {"media": "screen", "features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    assert serious(page) == []
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def serious(page: Any) -> list[Any]:
    """Serious problems of accessibility that axe-core finds on a page."""
    page.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    page.refresh()
    page.execute_script(axe_script())
    found = page.execute_async_script("axe.run().then(arguments[0])")
    page.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})
    return [
        (each["id"], [node["html"] for node in each["nodes"]][:3])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
