"""``asv publish``: our Culprits pages beside asv's own, reachable from its navigation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from asv.console import log
from asv.publishing import OutputPublisher

from bisectorch.asv_plugin.settings import Settings
from bisectorch.errors import LogError
from bisectorch.model import Findings, Session, Workload
from bisectorch.report.record import load, logs

if TYPE_CHECKING:
    from bisectorch.report.pages import Problem

FOLDER = "culprits"

_NAV_ITEM = '<li id="nav-li-culprits"><a href="culprits/index.html">Culprits</a></li>'
_NAV_ANCHOR = '<li id="nav-li-regressions"><a href="#/regressions">Regressions</a></li>'
_OFFLINE_ITEM = (
    '<p id="culprits-link">'
    'The <a href="culprits/index.html">Culprits</a> pages need no network.</p>'
)
_OFFLINE_ANCHOR = "</body>"


class Culprits(OutputPublisher):  # type: ignore[misc]
    """Publishes every session's findings; asv finds publishers among the subclasses."""

    name = "culprits"
    button_label = "Show culprits"
    description = "Every commit that changed performance, with its effect and how sure it is"
    order = 4

    conclude: ClassVar[Callable[[Session], Findings]]
    """What turns a session into findings; the plugin sets it."""

    @classmethod
    def publish(
        cls, conf: Any, repo: Any, benchmarks: Mapping[str, Any], graphs: Any, revisions: Any
    ) -> None:
        """Write the pages into html_dir and link them from asv's.

        A log that cannot be read is left out and said so, on the page and here.
        """
        # asv loads this plugin with every command, and drawing takes long to load.
        from bisectorch.report.pages import Site, write_pages

        html = Path(conf.html_dir)
        sessions, problems = read_sessions(Settings.from_conf(conf).sessions_dir, cls.conclude)
        for problem in problems:
            log.warning(f"session left out: {problem.name}: {problem.reason}")
        site = Site(
            project=conf.project,
            show_commit_url=conf.show_commit_url or "",
            graph_url=lambda workload: graph_url(workload, benchmarks),
        )
        write_pages(html / FOLDER, sessions, site, problems)
        link_from_asv(html)


def read_sessions(
    sessions_dir: Path, conclude: Callable[[Session], Findings]
) -> tuple[tuple[Findings, ...], tuple[Problem, ...]]:
    """The findings of every session in the folder, and the logs that yield none."""
    from bisectorch.report.pages import Problem

    found: list[Findings] = []
    problems: list[Problem] = []
    for path in logs(sessions_dir):
        try:
            found.append(conclude(load(path, samples=False)))
        except LogError as error:
            problems.append(Problem(path.name, str(error)))
        except Exception as error:  # one odd session must not take the others' pages
            problems.append(Problem(path.name, f"no findings: {type(error).__name__}: {error}"))
    return tuple(found), tuple(problems)


def graph_url(workload: Workload, benchmarks: Mapping[str, Any]) -> str | None:
    """asv's graph of the workload, below the site's root; None where asv has none."""
    benchmark = benchmarks.get(workload.benchmark)
    if benchmark is None:
        return None
    names = benchmark.get("param_names", ())
    chosen = {f"p-{name}": value for name, value in zip(names, workload.params, strict=False)}
    return f"index.html#{workload.benchmark}" + (f"?{urlencode(chosen)}" if chosen else "")


def link_from_asv(html: Path) -> None:
    """Put Culprits into asv's navigation, and onto the page it shows without a network.

    asv has no place for foreign links, so its pages are edited; doing it twice changes nothing,
    and a page that looks different from asv 0.6's is left alone with a warning.
    """
    _insert(html / "index.html", _NAV_ITEM, after=_NAV_ANCHOR)
    _insert(html / "error.html", _OFFLINE_ITEM, before=_OFFLINE_ANCHOR)


def _insert(page: Path, item: str, *, after: str = "", before: str = "") -> None:
    anchor = after or before
    try:
        markup = page.read_text(encoding="utf-8")
        if item in markup:
            return
        if markup.count(anchor) != 1:
            log.warning(
                f"{page} is not as asv 0.6 writes it: it gets no link to {FOLDER}/index.html"
            )
            return
        replacement = f"{anchor}\n\t{item}" if after else f"{item}\n  {anchor}"
        page.write_text(markup.replace(anchor, replacement), encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        log.warning(f"{page} gets no link to {FOLDER}/index.html: {error}")
