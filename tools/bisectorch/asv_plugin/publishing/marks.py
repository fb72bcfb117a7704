"""Our culprits on asv's own pages: on graphs, in the list of regressions, in the navigation.

asv has no place for foreign links, so its pages are edited, once; a page that looks different
from asv 0.6's is left as it is, with a warning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asv.console import log

from bisectorch.asv_plugin.publishing import libraries
from bisectorch.report import account, wording
from bisectorch.report.site import Entry, latest

FOLDER = "culprits"
SCRIPT = f"{FOLDER}/asv-marks.js"
DATA = f"{FOLDER}/asv-marks-data.js"

_NAV_ITEM = f'<li id="nav-li-culprits"><a href="{FOLDER}/index.html">Culprits</a></li>'
_NAV_ANCHOR = '<li id="nav-li-regressions"><a href="#/regressions">Regressions</a></li>'
_SCRIPTS = f'<script src="{DATA}"></script>\n    <script src="{SCRIPT}"></script>'
_SCRIPTS_ANCHOR = '<link href="asv.css" rel="stylesheet" type="text/css"/>'
_OFFLINE_ITEM = (
    f'<p id="culprits-link">'
    f'The <a href="{FOLDER}/index.html">Culprits</a> pages need no network.</p>'
)
_OFFLINE_ANCHOR = "</body>"
_ADDITIONS = {
    "index.html": ((_NAV_ANCHOR, _NAV_ITEM, True), (_SCRIPTS_ANCHOR, _SCRIPTS, False)),
    "error.html": ((_OFFLINE_ANCHOR, _OFFLINE_ITEM, False),),
}
"""To each page: beside which anchor what goes, and whether after it."""


def edited(name: str, content: bytes) -> bytes:
    """One of asv's files as the site has it; twice edited is once edited."""
    additions = _ADDITIONS.get(name)
    if additions is None:
        return content
    try:
        markup = content.decode("utf-8")
    except UnicodeDecodeError:
        markup = ""
    if not all(markup.count(anchor) == 1 for anchor, _, _ in additions):
        log.warning(f"{name} is not as asv 0.6 writes it: it gets no link to {FOLDER}/index.html")
        return content
    if name == "index.html":
        markup = libraries.localize(markup)
    for anchor, item, is_after in additions:
        if item not in markup:
            added = f"{anchor}\n\t{item}" if is_after else f"{item}\n  {anchor}"
            markup = markup.replace(anchor, added)
    return markup.encode("utf-8")


def files(
    listed: Sequence[Entry],
    benchmarks: Mapping[str, Mapping[str, Any]],
    revisions: Mapping[str, int],
) -> dict[str, bytes]:
    """The script that marks, and what it marks."""
    marks = [
        mark
        for entry in latest(listed)
        if (mark := _mark(entry, benchmarks, revisions)) is not None
    ]
    data = json.dumps(marks).replace("<", "\\u003c")
    return {
        SCRIPT: Path(__file__).with_name("asv_marks.js").read_bytes(),
        DATA: f"window.bisectorchMarks = {data};\n".encode("ascii"),
    }


def _mark(
    entry: Entry, benchmarks: Mapping[str, Mapping[str, Any]], revisions: Mapping[str, int]
) -> dict[str, Any] | None:
    """One culprit as asv's pages need it; None where asv knows neither benchmark nor commit."""
    culprit, workload = entry.culprit, entry.found.workload
    benchmark = benchmarks.get(workload.benchmark)
    shas = ((culprit.merge or culprit.commit).sha, culprit.child.sha)
    known = [revisions[sha] for sha in shas if sha in revisions]
    if benchmark is None or not known:
        return None
    arrow = "▲" if culprit.is_regression else "▼"
    return {
        "benchmark": workload.benchmark,
        "workload": workload.name,
        "params": dict(zip(benchmark["param_names"], workload.params, strict=False)),
        "commit": shas[0],
        "revision": known[0],
        "kind": account.kind(culprit),
        "label": f"{arrow} {wording.percent(culprit.ratio)}",
        "title": f"{wording.short(culprit.commit.sha)} "
        f"{wording.one_line(culprit.commit.subject, 120)}",
        "url": f"{FOLDER}/{entry.path}",
    }


def edit_pages(html: Path) -> None:
    """Edit asv's pages where asv's own publish wrote them."""
    for name in ("index.html", "error.html"):
        path = html / name
        try:
            content = path.read_bytes()
            wanted = edited(name, content)
            if wanted != content:
                path.write_bytes(wanted)
        except OSError as error:
            log.warning(f"{path} gets no link to {FOLDER}/index.html: {error}")
