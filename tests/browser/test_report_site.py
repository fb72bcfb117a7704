"""The published pages in a real browser: navigation, themes, small windows, hostile text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import axe_core_python
import pytest
from bisectorch.report import wording
from bisectorch.report.pages import entries
from bisectorch.report.site import workload_path
from factories import HOSTILE, make_findings, make_hostile_findings
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

pytestmark = pytest.mark.browser

WIDTHS = (400, 1200)
SUBJECT = "Use torch.matmul in nn.Linear (#1935)"

STAGED = "labeler.Stages.time_forward('total')"
CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _as_usual(driver: Chrome) -> Iterator[None]:
    """A wide light window with scripts on, and empty logs, for every test."""
    emulate(driver, 1200, "light")
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    driver.get_log("browser")
    driver.get_log("performance")
    yield
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def emulate(driver: Chrome, width: int, scheme: str, media: str = "screen") -> None:
    """A window of this width for a reader with this preference."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def pages(html: Path) -> list[str]:
    """Every page of ours, below the site."""
    return sorted(str(path.relative_to(html)) for path in html.glob("culprits/**/*.html"))


def one_of_each(html: Path) -> list[str]:
    """A page of every kind, hostile text in those that can hold it."""
    hostile = entries([make_hostile_findings()])[0].path
    explained = entries([make_findings()])[0].path
    (pair,) = {next(iter(sorted((html / "culprits" / "compare").glob("*-*.html"))))}
    return [
        "culprits/index.html",
        "culprits/sessions.html",
        f"culprits/{make_findings().session}/index.html",
        f"culprits/{make_hostile_findings().session}/index.html",
        f"culprits/{hostile}",
        f"culprits/{explained}",
        "culprits/workloads/index.html",
        f"culprits/{workload_path('linear.Linear.time_backward(1, 10)')}",
        f"culprits/{workload_path(STAGED)}",
        "culprits/compare/index.html",
        str(pair.relative_to(html)),
    ]


def visit(driver: Chrome, url: str) -> None:
    """Open a page and wait for its style sheet and figures; the driver alone may not."""
    driver.get(url)
    wait(driver, lambda: driver.execute_script("return document.readyState") == "complete")


def wait(driver: Chrome, condition: Callable[[], object]) -> None:
    """Wait until it holds; pages may be replaced while it is asked for."""
    waiting = WebDriverWait(driver, 60, 0.05, [StaleElementReferenceException])
    waiting.until(lambda _: condition())


def links(driver: Chrome, selector: str) -> dict[str, str]:
    """The addresses of the links found, by their texts, read at one instant.

    asv replaces its lists while they are read; an element of the list before is stale.
    """
    script = (
        "return Object.fromEntries([...document.querySelectorAll(arguments[0])]"
        ".map(link => [link.innerText, link.href]))"
    )
    found: dict[str, str] = driver.execute_script(script, selector)
    return found


def wait_for_heading(driver: Chrome, text: str) -> None:
    """Wait for the page with this main heading."""
    wait(driver, lambda: driver.find_element(By.TAG_NAME, "h1").text == text)


def test_from_the_list_to_a_culprit_and_back(driver: Chrome, base: str) -> None:
    """By its subject there; by the trail and by the browser's own button back."""
    visit(driver, f"{base}culprits/index.html")
    driver.find_element(By.LINK_TEXT, SUBJECT).click()
    wait_for_heading(driver, SUBJECT)
    assert "+31.0 %" in driver.find_element(By.CSS_SELECTOR, ".tile.regression").text
    driver.find_element(By.CSS_SELECTOR, ".crumbs a").click()
    wait_for_heading(driver, "Culprits")
    driver.back()
    wait_for_heading(driver, SUBJECT)
    driver.back()
    wait_for_heading(driver, "Culprits")


def test_every_culprit_is_reached_by_older(driver: Chrome, base: str) -> None:
    """From the newest culprit the links lead through all of them, and back."""
    visit(driver, f"{base}culprits/{entries([make_hostile_findings()])[0].path}")
    listed = entries([make_hostile_findings(), make_findings()])
    urls = [f"{base}culprits/{entry.path}" for entry in listed]
    for rel, way in (("next", urls[1:]), ("prev", urls[-2::-1])):
        for url in way:
            driver.find_element(By.CSS_SELECTOR, f"a[rel={rel}]").click()
            wait(driver, lambda url=url: driver.current_url == url)
        assert driver.find_elements(By.CSS_SELECTOR, f"a[rel={rel}]") == []


def test_from_asvs_index_to_culprits(driver: Chrome, base: str) -> None:
    """By asv's own navigation, which needs no script, and back."""
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    visit(driver, f"{base}index.html")
    driver.find_element(By.CSS_SELECTOR, "#nav").find_element(By.LINK_TEXT, "Culprits").click()
    wait_for_heading(driver, "Culprits")
    driver.find_element(By.LINK_TEXT, "Benchmark grid").click()
    wait(driver, lambda: driver.current_url == f"{base}index.html#/")


def test_asvs_pages_need_no_network(driver: Chrome, base: str) -> None:
    """Grid, graph and regressions are there, asked of this site alone, without an error."""
    visit(driver, f"{base}index.html")
    wait(driver, lambda: driver.find_elements(By.CSS_SELECTOR, "#summarygrid-display canvas"))
    visit(driver, f"{base}index.html#linear.Linear.time_backward?p-batch=1&p-features=10")
    wait(driver, lambda: driver.find_elements(By.CSS_SELECTOR, "#main-graph canvas"))
    urls = asked(driver)
    assert len(urls) > 15
    assert {url for url in urls if not url.startswith((base, "data:"))} == set()
    assert driver.get_log("browser") == []


def test_culprits_are_marked_on_asvs_graph(driver: Chrome, base: str) -> None:
    """With effect and a way to the culprit's page, whatever the axis."""
    visit(driver, f"{base}index.html#linear.Linear.time_backward?p-batch=1&p-features=10")
    found = "#main-graph .culprit-mark"
    expected = {"▲ +62.0 %", "▲ +31.0 %", "▼ -42.0 %"}
    wait(driver, lambda: set(links(driver, found)) == expected)
    for setting in ("even-spacing", "date-scale", "log-scale"):
        driver.find_element(By.ID, setting).click()
        wait(driver, lambda: set(links(driver, found)) == expected)
    driver.get(links(driver, found)["▲ +62.0 %"])
    assert driver.find_elements(By.CSS_SELECTOR, ".tiles")


def test_culprits_are_marked_in_asvs_regressions(driver: Chrome, base: str) -> None:
    """Beside the commit that asv suspects, the culprit that was proven."""
    visit(driver, f"{base}index.html#/regressions")
    found = "#regressions-body .culprit-mark"
    wait(driver, lambda: links(driver, found))
    ((text, url),) = links(driver, found).items()
    assert text == "▲ +62.0 %"
    assert "/culprits/" in url


def asked(driver: Chrome) -> set[str]:
    """Every address asked for since the last look."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }


def test_no_console_message_and_no_foreign_request(driver: Chrome, base: str, html: Path) -> None:
    """Every page of ours is silent and asks this site alone."""
    for page in pages(html):
        visit(driver, f"{base}{page}")
    assert driver.get_log("browser") == []
    urls = asked(driver)
    assert len(urls) > len(pages(html))
    assert {url for url in urls if not url.startswith((base, "data:"))} == set()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(driver: Chrome, base: str, html: Path, scheme: str) -> None:
    """The rules of WCAG 2.1 A and AA, in either scheme."""
    emulate(driver, 1200, scheme)
    for page in one_of_each(html):
        visit(driver, f"{base}{page}")
        driver.execute_script(AXE)
        found = driver.execute_async_script(
            "axe.run(document, {resultTypes: ['violations']}).then(arguments[0])"
        )
        serious = [
            (each["id"], each["nodes"][0]["html"][:200])
            for each in found["violations"]
            if each["impact"] in {"serious", "critical"}
        ]
        assert serious == [], page


@pytest.mark.parametrize("width", [400, 1200])
def test_no_page_is_heavy(driver: Chrome, base: str, html: Path, width: int) -> None:
    """Less than 500 KB are transferred for any page, its style, scripts and data included."""
    emulate(driver, width, "light")
    driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
    try:
        for page in one_of_each(html):
            visit(driver, f"{base}{page}")
            size = driver.execute_script(
                "return performance.getEntries().reduce((s, e) => s + (e.transferSize || 0), 0)"
            )
            assert 1000 < size < 500_000, page
    finally:
        driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": False})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(driver: Chrome, base: str, html: Path, scheme: str) -> None:
    """4.5 to 1 for every piece of text, whatever the reader prefers."""
    grounds = set()
    for width in WIDTHS:
        emulate(driver, width, scheme)
        for page in one_of_each(html):
            visit(driver, f"{base}{page}")
            assert driver.execute_script(CONTRAST) == [], page
            grounds.add(
                driver.execute_script("return getComputedStyle(document.body).backgroundColor")
            )
    (ground,) = grounds
    assert (sum(map(int, ground[4:-1].split(","))) < 128) == (scheme == "dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_follow_the_scheme(driver: Chrome, base: str, scheme: str) -> None:
    """The pictures in the page are drawn for the reader's ground."""
    emulate(driver, 1200, scheme)
    visit(driver, f"{base}culprits/{entries([make_findings()])[0].path}")
    colours = driver.execute_script(
        "return [...document.querySelectorAll('figure svg text')]"
        ".map(text => getComputedStyle(text).fill)"
    )
    assert len(colours) > 15
    for colour in colours:
        bright = sum(map(int, colour[4:-1].split(","))) / 3
        assert (bright > 120) == (scheme == "dark"), colour


def test_points_lead_to_their_commits(driver: Chrome, base: str) -> None:
    """Every run of the figure is a link to its commit's page, and none stops the keyboard."""
    visit(driver, f"{base}culprits/{entries([make_findings()])[0].path}")
    links = driver.execute_script(
        "return [...document.querySelectorAll('figure svg a')]"
        ".map(a => [a.href.baseVal, a.tabIndex])"
    )
    assert len(links) > 91
    assert all(url.startswith("https://example.org/commit/") for url, _ in links)
    assert {index for _, index in links} == {-1}


@pytest.mark.parametrize("width", [320, 400])
def test_a_small_window_is_not_wider_than_itself(
    driver: Chrome, base: str, html: Path, width: int
) -> None:
    """Only tables and figures scroll sideways, each in its own box."""
    emulate(driver, width, "light")
    for page in pages(html):
        visit(driver, f"{base}{page}")
        script = "return [document.documentElement.scrollWidth, innerWidth]"
        wide, window = driver.execute_script(script)
        assert wide <= window == width, page


def test_hostile_text_is_only_text(driver: Chrome, base: str) -> None:
    """Shown whole on its page, and nothing in it comes to life."""
    (entry,) = (
        entry
        for entry in entries([make_hostile_findings()])
        if entry.culprit.commit.subject == HOSTILE
    )
    for page in (f"culprits/{entry.path}", "culprits/index.html"):
        visit(driver, f"{base}{page}")
        assert driver.execute_script("return window.pwned") is None
        scripts = driver.execute_script("return [...document.scripts].map(s => s.src)")
        assert all(source.startswith(base) for source in scripts)
        assert driver.find_elements(By.CSS_SELECTOR, "img, bdi *:not(wbr)") == []
    visit(driver, f"{base}culprits/{entry.path}")
    driver.find_element(By.CSS_SELECTOR, "details.whole summary").click()
    shown = driver.find_element(By.CSS_SELECTOR, "details.whole p").text
    assert shown == " ".join(wording.one_line(HOSTILE).split())
    assert driver.title.startswith("<script>window.pwned = 1")
    assert driver.get_log("browser") == []


def test_the_keyboard_is_enough(driver: Chrome, base: str) -> None:
    """Tab shows where it is, skips to the content, and Enter opens a culprit."""
    visit(driver, f"{base}culprits/index.html")
    body = driver.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    skip = driver.switch_to.active_element
    assert skip.text == "Skip to the content"
    assert skip.location["x"] >= 0
    assert skip.value_of_css_property("outline-style") == "solid"
    skip.send_keys(Keys.ENTER)
    wait(driver, lambda: driver.current_url.endswith("#main"))
    for _ in range(20):
        driver.switch_to.active_element.send_keys(Keys.TAB)
        active = driver.switch_to.active_element
        assert active.value_of_css_property("outline-style") == "solid", active.text
        if "subject" in (active.get_attribute("class") or ""):
            break
    active.send_keys(Keys.ENTER)
    wait(driver, lambda: driver.find_element(By.TAG_NAME, "h1").text != "Culprits")


def test_without_scripts_nothing_is_missing(driver: Chrome, base: str) -> None:
    """The list is whole, nothing that needs a script is offered, details open, links lead on."""
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    for page in ("compare/index.html", "workloads/index.html", "index.html"):
        visit(driver, f"{base}culprits/{page}")
        fields = driver.find_elements(By.CSS_SELECTOR, "form, input, select, button")
        assert not [field for field in fields if field.is_displayed()]
    assert len(driver.find_elements(By.CSS_SELECTOR, ".effect-row")) == 6
    driver.find_element(By.LINK_TEXT, SUBJECT).click()
    driver.find_element(By.CSS_SELECTOR, "details.broken summary").click()
    assert "cannot import name" in driver.find_element(By.CSS_SELECTOR, "details.broken td+td").text


def test_print_is_dark_on_light(driver: Chrome, base: str) -> None:
    """Whoever prefers dark still prints on white paper, without the navigation."""
    emulate(driver, 800, "dark", media="print")
    visit(driver, f"{base}culprits/{entries([make_findings()])[0].path}")
    ink = driver.execute_script("return getComputedStyle(document.body).color")
    assert sum(map(int, ink[4:-1].split(","))) < 200
    assert not driver.find_element(By.CSS_SELECTOR, "header nav").is_displayed()
    assert driver.find_element(By.TAG_NAME, "h1").is_displayed()


def test_pages_open_from_the_disk(driver: Chrome, html: Path) -> None:
    """Without a server, styled all the same."""
    visit(driver, (html / "culprits" / "index.html").as_uri())
    driver.find_element(By.LINK_TEXT, SUBJECT).click()
    wait_for_heading(driver, SUBJECT)
    tiles = driver.find_element(By.CSS_SELECTOR, ".tiles")
    assert tiles.value_of_css_property("display") == "grid"
    assert driver.get_log("browser") == []
