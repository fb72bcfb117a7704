"""The publisher: our pages inside asv's site, whatever the logs hold."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import asv
import pytest
from asv import util
from asv.publishing import OutputPublisher
from bisectorch.asv_plugin import publisher
from bisectorch.asv_plugin.publisher import Culprits, graph_url
from bisectorch.asv_plugin.publishing import libraries, marks
from bisectorch.asv_plugin.publishing.marks import edit_pages
from bisectorch.errors import UsageError
from bisectorch.model import Findings, Session, Workload
from bisectorch.report.record import SessionLog, log_path
from factories import make_findings, make_session

BENCHMARKS = {
    "linear.Linear.time_backward": {"param_names": ["batch", "features"], "params": [["1"], ["10"]]}
}


@pytest.fixture
def conf(tmp_path: Path) -> SimpleNamespace:
    """asv's configuration, its site just written, and a folder of sessions."""
    html = tmp_path / "html"
    shutil.copytree(Path(asv.__file__).parent / "www", html)
    return SimpleNamespace(
        html_dir=str(html),
        project="pytorch",
        show_commit_url="https://example.org/commit/",
        env_dir=str(tmp_path / "env"),
        repo="repo",
        bisectorch={"sessions_dir": str(tmp_path / "logs")},
    )


@pytest.fixture(autouse=True)
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What asv's log warns of."""
    seen: list[str] = []
    for module in (publisher, marks, libraries):
        monkeypatch.setattr(module.log, "warning", seen.append)
    return seen


@pytest.fixture
def concluded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings without a search: those of the factory for the session's name."""

    def conclude(session: Session) -> Findings:
        if session.header.session == "odd":
            raise ZeroDivisionError("division by zero")
        return make_findings(session.header.session, session.header.created_seconds)

    monkeypatch.setattr(Culprits, "conclude", staticmethod(conclude))


def add_session(tmp_path: Path, name: str) -> Path:
    """A log in the sessions folder."""
    session = make_session(make_findings(name))
    path = log_path(tmp_path / "logs", name)
    with SessionLog.create(path, session.header) as log:
        for event in session.events[:5]:
            log.append(event)
    return path


def publish(conf: SimpleNamespace) -> str:
    """Publish and return the list of culprits."""
    Culprits.publish(conf, object(), BENCHMARKS, None, None)
    return (Path(conf.html_dir) / "culprits" / "index.html").read_text(encoding="utf-8")


def test_asv_finds_the_publisher() -> None:
    """Among the subclasses, after asv's own three."""
    classes = list(util.iter_subclasses(OutputPublisher))
    assert Culprits in classes
    assert Culprits.order == 4


@pytest.mark.usefixtures("concluded")
def test_sessions_become_pages(conf: SimpleNamespace, tmp_path: Path, warnings: list[str]) -> None:
    """Every culprit of every log, with a link to asv's graph of exactly this workload."""
    add_session(tmp_path, "one")
    add_session(tmp_path, "two")
    index = publish(conf)
    assert "3 changes" in index
    assert "in 2 sessions" in index
    assert warnings == []
    culprit = make_findings().workloads[0].culprits[0]
    for name in ("one", "two"):
        (page,) = Path(conf.html_dir).glob(f"culprits/{name}/*/{culprit.commit.sha}.html")
        assert culprit.command.replace("'", "&#39;") in page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("concluded")
def test_findings_are_kept(conf: SimpleNamespace, tmp_path: Path) -> None:
    """A log that did not change is not concluded again; what it says stays the same."""
    add_session(tmp_path, "one")
    before = publish(conf)

    def refuse(session: Session) -> Findings:
        raise AssertionError("concluded again")

    Culprits.conclude = staticmethod(refuse)  # the fixture takes it back
    assert publish(conf) == before


@pytest.mark.usefixtures("concluded")
def test_a_bad_log_costs_only_itself(
    conf: SimpleNamespace, tmp_path: Path, warnings: list[str]
) -> None:
    """Newer, corrupt, empty, or fit for no conclusion: named on the page and warned of."""
    add_session(tmp_path, "good")
    add_session(tmp_path, "odd")
    newer = add_session(tmp_path, "newer")
    newer.write_bytes(newer.read_bytes().replace(b'"bisectorch_log":2', b'"bisectorch_log":9'))
    corrupt = add_session(tmp_path, "corrupt")
    lines = corrupt.read_bytes().split(b"\n")
    corrupt.write_bytes(b"\n".join([lines[0], b"<script>", *lines[2:]]))
    (tmp_path / "logs" / "empty.jsonl").write_bytes(b"")
    index = publish(conf)
    assert "3 changes" in index
    assert "4 session logs left out" in index
    assert len(warnings) == 4
    for word in ("newer version", "line 2 is corrupt", "no complete header", "division by zero"):
        assert word in index
        assert any(word in warning for warning in warnings)


def test_no_sessions_is_no_fault(conf: SimpleNamespace, warnings: list[str]) -> None:
    """The page and the link exist before the first bisection."""
    assert "bisectorch bisect" in publish(conf)
    assert warnings == []


def test_a_wrong_setting_is_named(conf: SimpleNamespace) -> None:
    """asv.conf.json's own section is checked."""
    conf.bisectorch = {"session_dir": "x"}
    with pytest.raises(UsageError, match="session_dir"):
        publish(conf)


def test_asvs_navigation_gets_one_link(conf: SimpleNamespace, warnings: list[str]) -> None:
    """Once, after Regressions, and on the page that asv shows without a network."""
    html = Path(conf.html_dir)
    edit_pages(html)
    once = (html / "index.html").read_bytes(), (html / "error.html").read_bytes()
    assert all(page.count(b'href="culprits/index.html"') == 1 for page in once)
    edit_pages(html)
    assert ((html / "index.html").read_bytes(), (html / "error.html").read_bytes()) == once
    assert warnings == []


@pytest.mark.parametrize("markup", ["<html>another asv</html>", None, "\ud800"])
def test_markup_that_is_not_as_expected_is_left_alone(
    conf: SimpleNamespace, warnings: list[str], markup: str | None
) -> None:
    """A warning each, no crash, nothing changed."""
    html = Path(conf.html_dir)
    for name in ("index.html", "error.html"):
        (html / name).unlink()
        if markup is not None:
            (html / name).write_bytes(markup.encode("utf-8", "surrogatepass"))
    publish(conf)
    assert len(warnings) == 2
    for name in ("index.html", "error.html"):
        assert (html / name).exists() == (markup is not None)
        if markup is not None:
            assert (html / name).read_bytes() == markup.encode("utf-8", "surrogatepass")


def test_graphs_of_unknown_benchmarks_are_not_linked() -> None:
    """Only what asv publishes a graph of; parameters are spelt for asv's own parser."""
    assert graph_url(Workload("gone.time_x"), BENCHMARKS) is None
    assert graph_url(Workload("a.time_x"), {"a.time_x": {}}) == "index.html#a.time_x"
    odd = Workload("a.time_x", ("'é &=?#'",), 0)
    known = {"a.time_x": {"param_names": ["p q"]}}
    assert graph_url(odd, known) == "index.html#a.time_x?p-p+q=%27%C3%A9+%26%3D%3F%23%27"
