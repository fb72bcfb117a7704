"""A real headless Chromium and a published site for it to read."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import asv
import pytest
from asv.graph import Graph
from bisectorch.asv_plugin.commands.preview import make_server
from bisectorch.asv_plugin.publishing import libraries, marks
from bisectorch.report.folder import Folder
from bisectorch.report.pages import Problem, entries
from bisectorch.report.site import Entry
from factories import CREATED, HOSTILE, make_findings, make_hostile_findings, make_range
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from sites import explained, write_site

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
BENCHMARK = "linear.Linear.time_backward"
"""The one that asv's pages show."""


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
    yield browser
    browser.quit()


@pytest.fixture(scope="session")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """asv's own site with our pages in it: usual, hostile and quiet sessions, and a bad log."""
    html = tmp_path_factory.mktemp("site") / "html"
    shutil.copytree(Path(asv.__file__).parent / "www", html)
    folder = Folder(html)
    for name, content in libraries.files().items():
        folder.write(name, content)
    usual = make_findings()
    quiet = replace(
        make_findings("20251101-120000-ab12", CREATED - 2e6),
        workloads=usual.workloads[1:],
        finished=False,
    )
    problems = [Problem("<img src=x onerror=alert(1)>.jsonl", "line 3 is corrupt")]
    hostile = explained(make_hostile_findings(), HOSTILE)
    sessions = [quiet, explained(usual), hostile]
    write_site(html / "culprits", sessions, problems=problems)
    marks.edit_pages(html)
    _make_graphs(folder, entries(sessions[1:]))
    return html


def _make_graphs(folder: Folder, listed: Sequence[Entry]) -> None:
    """What asv publishes of one benchmark with a regression, and our marks on it."""
    line = make_range().line
    values = [[place, 1e-5 * (1.62 if place >= 12 else 1.0)] for place in range(len(line))]
    params = {"machine": "bench-1", "branch": "main"}
    benchmark = {
        "name": BENCHMARK,
        "param_names": ["batch", "features"],
        "params": [["1"], ["10"]],
        "type": "time",
        "unit": "seconds",
        "version": "1",
        "code": "",
    }
    revisions = {commit.sha: place for place, commit in enumerate(line)}
    index = {
        "project": "pytorch",
        "project_url": "#",
        "show_commit_url": "https://example.org/commit/",
        "hash_length": 8,
        "revision_to_hash": {place: sha for sha, place in revisions.items()},
        "revision_to_date": {p: c.date_seconds * 1000 for p, c in enumerate(line)},
        "params": {key: [value] for key, value in params.items()},
        "graph_param_list": [params],
        "benchmarks": {BENCHMARK: benchmark},
        "machines": {"bench-1": {"machine": "bench-1"}},
        "tags": {},
        "pages": [["", "Grid view", ""], ["regressions", "Show regressions", ""]],
    }
    steps = [
        [f"{BENCHMARK}(1, 10)", "graphs/x.json", {}, 0, 1.62e-5, 1e-5, [[None, 12, 1e-5, 1.62e-5]]]
    ]
    graph = Graph.get_file_path(params, BENCHMARK)
    for name, content in {
        "info.json": {"asv-version": "0.6.6", "timestamp": 1},
        "index.json": index,
        "regressions.json": {"regressions": steps},
        f"{graph}.json": [[place, [value]] for place, value in values],
        f"graphs/summary/{BENCHMARK}.json": values,
    }.items():
        folder.write(name, json.dumps(content).encode())
    for name, content in marks.files(listed, {BENCHMARK: benchmark}, revisions).items():
        folder.write(name, content)


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
