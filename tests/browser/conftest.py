"""A real headless Chromium and a published site for it to read."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import asv
import pytest
from bisectorch.asv_plugin.commands.preview import make_server
from bisectorch.asv_plugin.publisher import link_from_asv
from bisectorch.report.pages import Problem, Site, write_pages
from factories import CREATED, make_findings, make_hostile_findings
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHROMEDRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)
CDNS = ("*://code.jquery.com/*", "*://cdnjs.cloudflare.com/*", "*://cdn.jsdelivr.net/*")
"""Where asv's own pages fetch their libraries; out of reach here, on every machine alike."""


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """The browser; without one, a skip here and a failure in CI."""
    if CHROMIUM is None or CHROMEDRIVER is None:
        reason = "chromium and chromedriver are not installed (apt: chromium, chromium-driver)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": list(CDNS)})
    yield browser
    browser.quit()


@pytest.fixture(scope="session")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """asv's own site with our pages in it: usual, hostile and quiet sessions, and a bad log."""
    html = tmp_path_factory.mktemp("site") / "html"
    shutil.copytree(Path(asv.__file__).parent / "www", html)
    usual = make_findings()
    quiet = replace(
        make_findings("20251101-120000-ab12", CREATED - 2e6),
        workloads=usual.workloads[1:],
        finished=False,
    )
    site = Site("pytorch", "https://example.org/commit/", lambda w: f"index.html#{w.benchmark}")
    problems = [Problem("<img src=x onerror=alert(1)>.jsonl", "line 3 is corrupt")]
    write_pages(html / "culprits", [quiet, usual, make_hostile_findings()], site, problems)
    link_from_asv(html)
    return html


@pytest.fixture(scope="session")
def base(html: Path) -> Iterator[str]:
    """The address of the site, as preview serves it."""
    server = make_server(html)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()
