"""Filters, sorting and comparing in a real browser: what the scripts add to the pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bisectorch.report import comparing
from factories import make_range
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from sites import make_snapshots
from test_report_site import emulate, visit, wait

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def _quiet(driver: Chrome) -> Iterator[None]:
    """A wide window; whatever the test did, the console stayed silent."""
    emulate(driver, 1200, "light")
    driver.get_log("browser")
    yield
    assert driver.get_log("browser") == []


def field(driver: Chrome, name: str) -> object:
    """A field of the page's form."""
    return driver.find_element(By.NAME, name)


def choose(driver: Chrome, name: str, value: str) -> None:
    """Choose a value of a list."""
    Select(driver.find_element(By.NAME, name)).select_by_value(value)


def shown(driver: Chrome) -> list[str]:
    """The effects in the list, from the top."""
    return driver.execute_script(
        "return [...document.querySelectorAll('.effect-row .badge')]"
        ".filter(e => e.offsetParent).map(e => e.innerText.trim())"
    )


def fill(driver: Chrome, name: str, value: str) -> None:
    """Set a field as a user's typing would, dates included."""
    driver.execute_script(
        "const f = document.getElementsByName(arguments[0])[0]; f.value = arguments[1];"
        "f.dispatchEvent(new Event('input', {bubbles: true}))",
        name,
        value,
    )


def test_filters_by_sign_size_workload_date_and_probability(driver: Chrome, base: str) -> None:
    """Each alone; what is left is counted, and Reset brings everything back."""
    visit(driver, f"{base}culprits/index.html")
    everything = shown(driver)
    assert len(everything) == 6
    choose(driver, "kind", "improvement")
    assert shown(driver) == ["▼ -42.0 %"] * 2
    assert driver.find_element(By.CSS_SELECTOR, "[data-count]").text == "2 changes"
    driver.find_element(By.CSS_SELECTOR, "button[type=reset]").click()
    wait(driver, lambda: shown(driver) == everything)
    driver.find_element(By.NAME, "size").send_keys("40")
    assert set(shown(driver)) == {"▲ +62.0 %", "▼ -42.0 %"}
    fill(driver, "size", "")
    choose(driver, "workload", "linear.Linear.time_backward(1, 10)")
    assert len(shown(driver)) == 3
    choose(driver, "workload", "")
    fill(driver, "since", "2017-06-01")
    assert "▲ +62.0 %" not in shown(driver)
    fill(driver, "since", "")
    fill(driver, "until", "2017-05-20")
    assert set(shown(driver)) == {"▲ +62.0 %"}
    fill(driver, "until", "")
    fill(driver, "probability", "99")
    assert set(shown(driver)) == {"▲ +62.0 %"}
    fill(driver, "size", "90")
    assert shown(driver) == []
    assert driver.find_element(By.CSS_SELECTOR, "[data-none]").is_displayed()


def test_filters_make_a_link_that_can_be_sent(driver: Chrome, base: str) -> None:
    """The address holds them, and opening it filters again."""
    visit(driver, f"{base}culprits/index.html")
    choose(driver, "kind", "regression")
    driver.find_element(By.NAME, "size").send_keys("50")
    address = driver.current_url
    assert address.endswith("?kind=regression&size=50")
    visit(driver, f"{base}culprits/workloads/index.html")
    visit(driver, address)
    assert set(shown(driver)) == {"▲ +62.0 %"}
    assert driver.find_element(By.NAME, "size").get_attribute("value") == "50"


def test_sorting_by_heads_and_by_keyboard(driver: Chrome, base: str) -> None:
    """A head sorts, says so to every reader, and a second time takes it back."""
    visit(driver, f"{base}culprits/index.html")
    by_date = shown(driver)
    head = driver.find_element(By.CSS_SELECTOR, "th[data-sort=size]")
    head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    sizes = [float(text.split()[1].lstrip("+-")) for text in shown(driver)]
    assert sizes == sorted(sizes, reverse=True)
    assert Select(driver.find_element(By.NAME, "sort")).first_selected_option.text == (
        "largest effect"
    )
    head.find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    assert head.get_attribute("aria-sort") is None
    assert shown(driver) == by_date
    choose(driver, "sort", "-date")
    assert shown(driver)[0] == "▲ +62.0 %"


def test_workloads_are_searched(driver: Chrome, base: str) -> None:
    """By any part of the name."""
    visit(driver, f"{base}culprits/workloads/index.html")
    driver.find_element(By.NAME, "text").send_keys("STAGES")
    rows = driver.find_elements(By.CSS_SELECTOR, "[data-rows] tbody tr")
    assert sum(row.is_displayed() for row in rows) == 3
    driver.find_element(By.NAME, "text").send_keys("zzz")
    assert driver.find_element(By.CSS_SELECTOR, "[data-none]").is_displayed()


def rows_of(driver: Chrome, within: str = "") -> list[list[str]]:
    """The cells of the table of a comparison."""
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0] + ' table.compared tbody tr')]"
        ".map(r => [...r.cells].map(c => c.innerText.trim()))",
        within,
    )


def compare(driver: Chrome, before: str, after: str) -> None:
    """Ask for two commits or tags."""
    for name, text in (("before", before), ("after", after)):
        box = driver.find_element(By.NAME, name)
        box.clear()
        box.send_keys(text)
    box.send_keys(Keys.ENTER)


def test_comparing_any_two_says_what_the_pages_made_beforehand_say(
    driver: Chrome, base: str, html: Path
) -> None:
    """Row for row, number for number; by tag, by object name, and by a link that was sent."""
    line = make_range().line
    (page,) = (html / "culprits" / "compare").glob(f"{line[11].sha[:12]}-{line[12].sha[:12]}.html")
    visit(driver, page.as_uri().replace(html.as_uri() + "/", base))
    expected = rows_of(driver)
    assert len(expected) == 8
    visit(driver, f"{base}culprits/compare/index.html")
    wait(driver, lambda: driver.find_element(By.NAME, "before").is_displayed())
    compare(driver, line[11].sha[:9], line[12].sha)
    wait(driver, lambda: rows_of(driver, "[data-result]") == expected)
    address = driver.current_url
    visit(driver, address)
    wait(driver, lambda: rows_of(driver, "[data-result]") == expected)


def test_comparing_by_tag_agrees_with_python_on_every_verdict(driver: Chrome, base: str) -> None:
    """All the ways in which a workload cannot be compared among them, and the mean."""
    by_place = {(s.machine, s.place): s.load() for s in make_snapshots()}
    expected = comparing.compare(by_place["bench-1", 10], by_place["bench-1", 60])
    visit(driver, f"{base}culprits/compare/index.html")
    wait(driver, lambda: driver.find_element(By.NAME, "before").is_displayed())
    compare(driver, "v0.1.11", "v0.2.0")
    wait(driver, lambda: len(rows_of(driver, "[data-result]")) == len(expected.rows))
    rows = rows_of(driver, "[data-result]")
    assert [row[0] for row in rows] == [row.workload for row in expected.rows]
    told = [row[1].lstrip("▲▼ ") for row in rows]
    assert told == [row.reason or row.change.value for row in expected.rows]
    summary = driver.find_element(By.CSS_SELECTOR, "[data-result] .summary").text
    assert f"×{expected.mean:.3f}" in summary
    assert "3 not comparable" in summary
    choose(driver, "show", "incomparable")
    wait(driver, lambda: len(rows_of(driver, "[data-result]")) == 3)
    choose(driver, "show", "relevant")
    fill_relevant = driver.find_element(By.NAME, "relevant")
    fill_relevant.clear()
    fill_relevant.send_keys("50", Keys.ENTER)
    wait(driver, lambda: rows_of(driver, "[data-result]") == [])


def test_what_was_not_measured_is_said(driver: Chrome, base: str) -> None:
    """An unknown commit, and two that no machine has in common."""
    line = make_range().line
    visit(driver, f"{base}culprits/compare/index.html")
    wait(driver, lambda: driver.find_element(By.NAME, "before").is_displayed())
    compare(driver, "nothing-like-it", line[60].sha)
    result = driver.find_element(By.CSS_SELECTOR, "[data-result]")
    wait(driver, lambda: "Not measured" in result.text)


def test_a_choice_of_machine_is_offered(driver: Chrome, base: str) -> None:
    """Each machine that measured both commits."""
    visit(driver, f"{base}culprits/compare/index.html")
    wait(driver, lambda: driver.find_element(By.NAME, "before").is_displayed())
    compare(driver, "v0.1.12", "v0.2.0")
    options = Select(driver.find_element(By.NAME, "place"))
    wait(driver, lambda: len(options.options) == 2)
    options.select_by_value("bench-2, py3.11")
    wait(driver, lambda: "bench-2" in driver.current_url)
