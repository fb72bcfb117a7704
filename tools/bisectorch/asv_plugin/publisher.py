"""Our pages beside asv's own: for ``bisectorch publish``, and for plain ``asv publish`` too."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from asv.console import log
from asv.publishing import OutputPublisher

import bisectorch
from bisectorch.asv_plugin.settings import Settings
from bisectorch.errors import LogError
from bisectorch.model import Findings, Observation, Session, Workload

if TYPE_CHECKING:
    from bisectorch.asv_plugin.publishing.engine import Publication
    from bisectorch.report.folder import Folder
    from bisectorch.report.pages import Edition
    from bisectorch.report.site import Problem
    from bisectorch.report.told import Told

FOLDER = "culprits"


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
        """Write the pages into html_dir, which plain asv has just filled, and link them.

        A log that cannot be read is left out and said so, on the page and here.
        """
        # asv loads this plugin with every command, and drawing takes long to load.
        from asv.plugins.git import Git

        from bisectorch.asv_plugin.publishing import libraries, marks
        from bisectorch.asv_plugin.publishing.engine import Publication
        from bisectorch.report.folder import Folder

        html = Path(conf.html_dir)
        if isinstance(repo, Git):
            publication = Publication(conf, repo, cache_dir(conf), stamp())
            publication.make()
            cls.publish_into(publication)
        else:
            publish_sessions(conf, Folder(html), cls.conclude)
        folder = Folder(html)
        for name, content in libraries.files().items():
            folder.write(name, content)
        marks.edit_pages(html)

    @classmethod
    def publish_into(cls, publication: Publication) -> None:
        """Write the pages into the publication's folder."""
        from bisectorch.asv_plugin.publishing import marks
        from bisectorch.asv_plugin.publishing.sources import Sources
        from bisectorch.report.pages import Edition, entries

        conf, context = publication.conf, publication.context
        sources = Sources(publication)
        sessions, problems = read_sessions(conf, cls.conclude)
        edition = Edition(
            make_site(conf, publication.benchmarks, publication.tags, context.revisions),
            sessions,
            problems,
            tuple(sources.workloads()),
            tuple(sources.snapshots()),
            stamp(),
        )
        _write(conf, edition, publication.folder)
        listed = entries([each.findings for each in sessions])
        drawn = marks.files(listed, publication.benchmarks, context.revisions)
        for name, content in drawn.items():
            publication.folder.write(name, content)


def publish_sessions(
    conf: Any,
    folder: Folder,
    conclude: Callable[[Session], Findings],
    extra: tuple[Problem, ...] = (),
) -> None:
    """Write the pages that need session logs alone: there is no repository, or none of git's."""
    from bisectorch.report.pages import Edition

    sessions, problems = read_sessions(conf, conclude)
    site = make_site(conf, {}, {}, {})
    _write(conf, Edition(site, sessions, (*extra, *problems), stamp=stamp()), folder)


def make_site(
    conf: Any, benchmarks: Mapping[str, Any], tags: Mapping[str, str], places: Mapping[str, int]
) -> Any:
    """What the pages are about: asv's configuration, the repository's tags and its order."""
    from bisectorch.report.site import Site

    by_commit: dict[str, list[str]] = {}
    for tag, sha in tags.items():
        by_commit.setdefault(sha, []).append(tag)
    return Site(
        project=conf.project,
        show_commit_url=conf.show_commit_url or "",
        graph_url=lambda workload: graph_url(workload, benchmarks),
        address=Settings.from_conf(conf).site_address,
        tags=by_commit,
        places=places,
    )


def _write(conf: Any, edition: Edition, folder: Folder) -> None:
    import msgspec

    from bisectorch.report.pages import write_pages

    kept = cache_dir(conf) / "pages.bin"
    try:
        known = msgspec.msgpack.decode(kept.read_bytes(), type=dict[str, tuple[str, list[str]]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        known = {}
    made = write_pages(edition, folder, f"{FOLDER}/", known)
    if made != known:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(msgspec.msgpack.encode(made))


def read_sessions(
    conf: Any, conclude: Callable[[Session], Findings]
) -> tuple[tuple[Told, ...], tuple[Problem, ...]]:
    """Every session in the folder with what it amounts to, and the logs that yield nothing."""
    from bisectorch.asv_plugin.publishing.concluded import KeptFindings
    from bisectorch.report.record import load, logs
    from bisectorch.report.site import Problem
    from bisectorch.report.told import Told

    found: list[Told] = []
    problems: list[Problem] = []
    kept = KeptFindings(cache_dir(conf) / "findings.bin", stamp())
    for path in logs(Path(Settings.from_conf(conf).sessions_dir)):
        try:
            mark = hashlib.sha256(path.read_bytes()).hexdigest()
            session = load(path)
            known = kept.get(mark)
            if known is None:
                known = (conclude(session), tuple(_course(session, conclude)))
                kept.put(mark, *known)
            found.append(Told(session, *known, mark))
        except LogError as error:
            problems.append(Problem(path.name, str(error)))
        except Exception as error:  # one odd session must not take the others' pages
            problems.append(Problem(path.name, f"no findings: {type(error).__name__}: {error}"))
    kept.save()
    for problem in problems:
        log.warning(f"session left out: {problem.name}: {problem.reason}")
    return tuple(found), tuple(problems)


def _course(session: Session, conclude: Callable[[Session], Findings]) -> Iterator[Any]:
    from bisectorch.report.told import MOMENTS, Moment

    events = session.events
    runs = [i for i, event in enumerate(events, 1) if isinstance(event, Observation) and event.runs]
    if not runs:
        return
    ends = sorted({runs[round(k * (len(runs) - 1) / MOMENTS)] for k in range(1, MOMENTS + 1)})
    for end in ends:
        findings = conclude(replace(session, events=events[:end]))
        beliefs = {
            found.workload.name: found.posterior.change
            for found in findings.workloads
            if found.posterior is not None
        }
        yield Moment(findings.cost.runs, findings.cost.builds, beliefs)


def cache_dir(conf: Any) -> Path:
    """Where one publish leaves what the next one need not make again."""
    return Path(conf.env_dir) / "published"


@cache
def stamp() -> str:
    """Of this program: whatever was made by another one is made anew."""
    root = Path(bisectorch.__file__).parent
    facts = []
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if not name.endswith(".pyc"):
                status = (Path(folder) / name).stat()
                facts.append((name, status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def graph_url(workload: Workload, benchmarks: Mapping[str, Any]) -> str | None:
    """asv's graph of the workload, below the site's root; None where asv has none."""
    benchmark = benchmarks.get(workload.benchmark)
    if benchmark is None:
        return None
    names = benchmark.get("param_names", ())
    chosen = {f"p-{name}": value for name, value in zip(names, workload.params, strict=False)}
    return f"index.html#{workload.benchmark}" + (f"?{urlencode(chosen)}" if chosen else "")
