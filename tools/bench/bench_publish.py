"""Publishing a large project: against asv's own, after one more session, and in a browser.

``bench_publish.py [PART ...] [--commits N] [--workloads N] [--machines N] [--tags N]``; the parts
are ``ours``, ``asv`` (some minutes at full size), ``again`` and ``browser``, by default all. What
asv took is kept with its sizes, so that the other parts can be run alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bigsite import Sizes, add_results, commits, make_project
from rows import BUILD, Rows

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

SPEED, AGAIN, BYTES, PAINT = 5.0, 2.0, 500_000, 0.5
OURS = "of asv's pages"
PARTS = ("ours", "asv", "again", "browser")


def main() -> int:
    """Run the parts and print a row a bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    for name, value in asdict(Sizes()).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    sizes = Sizes(args.commits, args.workloads, args.machines, args.tags)
    parts = args.parts or PARTS
    rows = Rows("publish")
    rows.note("size", ", ".join(f"{value} {name}" for name, value in asdict(sizes).items()))
    root = BUILD / "publish" / "-".join(str(value) for value in asdict(sizes).values())
    conf = root / "asv.conf.json"
    if not conf.exists():
        make_project(root, sizes)
        add_session(root, "first")
    taken = Kept(root / "taken.json")
    if "ours" in parts:
        taken["ours"] = publish(conf, "bisectorch", "--all")
        taken[OURS] = engine_alone(conf)
        rows.note("everything, our pages among it", f"{taken['ours']:.1f} s")
    if "asv" in parts:
        taken["asv"] = publish_asvs(conf)
    if OURS in taken:
        rows.note("asv's pages by us", f"{taken[OURS]:.1f} s")
    if "asv" in taken:
        rows.note("asv's pages by asv", f"{taken['asv']:.1f} s")
        ratio = taken["asv"] / taken[OURS]
        rows.add("times faster than asv, of what both do", ratio, SPEED, at_least=True)
    if "again" in parts:
        rows.add("after one new session (s)", after_one_session(conf), AGAIN, at_least=False)
        rows.add("after nothing new (s)", publish(conf, "bisectorch"), AGAIN, at_least=False)
    if "browser" in parts:
        look_at(root / "html", rows)
    return rows.finish()


class Kept(dict[str, float]):
    """Figures that outlive one run."""

    def __init__(self, path: Path) -> None:
        super().__init__(json.loads(path.read_text()) if path.exists() else {})
        self._path = path

    def __setitem__(self, name: str, value: float) -> None:
        super().__setitem__(name, value)
        self._path.write_text(json.dumps(self))


def publish(conf: Path, tool: str, *options: str) -> float:
    """Seconds for one publish in a fresh process, its start included."""
    command = [sys.executable, "-m", tool, "publish", "--config", str(conf), *options]
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.perf_counter() - begun


def publish_asvs(conf: Path) -> float:
    """Seconds for asv's own publish, without our plugin."""
    plain = conf.with_name("plain.conf.json")
    content = {**json.loads(conf.read_text()), "plugins": [], "html_dir": "html-asv"}
    content["environment_type"] = "virtualenv"
    plain.write_text(json.dumps(content))
    return publish(plain, "asv")


def engine_alone(conf: Path) -> float:
    """Seconds for asv's pages alone by us, with nothing kept from before."""
    code = (
        "import sys; from pathlib import Path; from asv import config; from asv.repo import "
        "get_repo; from bisectorch.asv_plugin.publishing.engine import Publication; "
        "conf = config.Config.load('asv.conf.json'); conf.html_dir = 'html-ours'; "
        "p = Publication(conf, get_repo(conf), Path('cache-ours'), ''); p.make(); p.write(); "
        "p.write_index([]); p.folder.remove_others()"
    )
    for name in ("cache-ours", "html-ours"):
        shutil.rmtree(conf.parent / name, ignore_errors=True)
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=conf.parent, check=True, capture_output=True)
    return time.perf_counter() - begun


def after_one_session(conf: Path) -> float:
    """Seconds for a publish after a session on one workload measured 20 commits."""
    publish(conf, "bisectorch")
    names = json.loads((conf.parent / "results" / "benchmarks.json").read_text())
    benchmark = sorted(name for name in names if name != "version")[0]
    for sha in commits(conf)[::25]:
        add_results(conf, sha, benchmark, 1.001)
    add_session(conf.parent, f"session-{time.time_ns()}")
    return publish(conf, "bisectorch")


def add_session(root: Path, name: str) -> None:
    """A finished session on the project's own commits and first workload."""
    from bisectorch.report.record import SessionLog, log_path

    session = _session(root, name)
    with SessionLog.create(log_path(root / "sessions", name), session.header) as log:
        for event in session.events:
            log.append(event)


def _session(root: Path, name: str) -> Any:
    """What a bisection of sixty commits with two changes leaves behind."""
    from dataclasses import replace

    from bisectorch.model import CommitRange, End
    from factories import make_findings, make_session, make_workload_findings

    shas = commits(root / "asv.conf.json")[-61:]
    usual = make_findings(name, time.time())
    line = tuple(
        replace(commit, sha=sha, parents=(before,))
        for commit, sha, before in zip(usual.range.line, shas, [shas[0], *shas], strict=False)
    )
    names = json.loads((root / "results" / "benchmarks.json").read_text())
    benchmark = sorted(each for each in names if each != "version")[0]
    workload = replace(usual.workloads[0].workload, benchmark=benchmark, params=())
    found = make_workload_findings(line, replace(workload, param_index=None))
    findings = replace(
        usual, range=CommitRange(f"{shas[0]}..main", line[: len(shas)]), workloads=(found,)
    )
    session = make_session(findings)
    events = [event for event in session.events if not isinstance(event, End)]
    return replace(session, events=(*events, End(findings.cost.seconds)))


def look_at(html: Path, rows: Rows) -> None:
    """Bytes and first paint of a page of each kind, over loopback, in headless Chromium."""
    from bisectorch.asv_plugin.commands.preview import make_server
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    server = make_server(html)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    browser = webdriver.Chrome(
        options=options, service=Service(shutil.which("chromedriver") or "chromedriver")
    )
    try:
        browser.execute_cdp_cmd("Network.enable", {})
        browser.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
        heaviest, slowest = ("", 0.0), ("", 0.0)
        for page in _pages(html):
            browser.get(f"http://127.0.0.1:{server.server_port}/{page}")
            size, paint = browser.execute_async_script(_MEASURE)
            heaviest = max(heaviest, (page, size), key=lambda pair: pair[1])
            slowest = max(slowest, (page, paint / 1000), key=lambda pair: pair[1])
    finally:
        browser.quit()
        server.shutdown()
        server.server_close()
        thread.join()
    rows.note("heaviest page", heaviest[0])
    rows.add("bytes transferred for it", heaviest[1], BYTES, at_least=False)
    rows.note("page painted last", slowest[0])
    rows.add("its first paint (s)", slowest[1], PAINT, at_least=False)


_MEASURE = """
const done = arguments[0];
const look = () => {
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  if (!paint) return setTimeout(look, 20);
  const bytes = performance.getEntries().reduce((sum, e) => sum + (e.transferSize || 0), 0);
  done([bytes, paint.startTime]);
};
look();
"""


def _pages(html: Path) -> list[str]:
    """The largest page of every kind of ours."""
    kinds: dict[str, Path] = {}
    for path in (html / "culprits").rglob("*.html"):
        where = path.relative_to(html / "culprits")
        kind = f"{len(where.parts)} {where.parts[0] if len(where.parts) == 2 else ''}"
        kind += "index" if path.name == "index.html" else ""
        if kind not in kinds or path.stat().st_size > kinds[kind].stat().st_size:
            kinds[kind] = path
    return sorted(str(path.relative_to(html)) for path in kinds.values())


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
