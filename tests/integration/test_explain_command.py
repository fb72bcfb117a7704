"""``bisectorch explain``, and the explanations that a bisect makes by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from bisectorch.model import Explanation, Trace
from bisectorch.report.record import load
from minihistory import MiniRepo, make_wheel, write_project

LINEAR = "from mini import ops\n\n\ndef value():\n    total = 0\n{}    return total\n"
PLAIN = "    for index in range(300):\n        total += index\n"
CHECKED = "    for index in range(300):\n        total += ops.checked(index)\n"
OPS = (
    "FACTOR = 1\n\n\ndef checked(value):\n    if not isinstance(value, int):\n"
    "        raise TypeError(value)\n    return value\n"
)
IDLE = "KIND = {!r}\n"
BENCHMARKS = """\
import mini


def time_value():
    mini.value()


def track_value():
    return mini.value()


time_value.warmup_time = 0.0
"""


@dataclass
class Project:
    """An asv project over a mini history."""

    config: Path
    home: Path
    shas: list[str]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error; never a traceback."""
        done = subprocess.run(
            [sys.executable, "-m", "bisectorch", "--config", str(self.config), *arguments],
            env={**os.environ, "HOME": str(self.home), "COLUMNS": "120"},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Slower at the third commit; the fourth cannot be imported; the others change what is idle."""
    root = tmp_path_factory.mktemp("explain")
    repo = MiniRepo(root / "repo")
    plain, checked = LINEAR.format(PLAIN), LINEAR.format(CHECKED)
    shas = [
        repo.commit("Begin", {"mini/nn/linear.py": plain, "mini/ops.py": OPS}),
        repo.commit("Another kind", {"mini/nn/conv.py": IDLE.format("a")}),
        repo.commit("Check values", {"mini/nn/linear.py": checked, "docs/x.md": "words\n"}),
        repo.commit("Break it", {"mini/nn/linear.py": "def value(:\n"}),
        repo.commit("Mend it", {"mini/nn/linear.py": checked}),
        repo.commit("Yet another kind", {"mini/nn/conv.py": IDLE.format("b")}),
    ]
    make_wheel(root / "wheels")
    config = write_project(
        root / "project", repo.path, root / "wheels", root / "store", env_dir=str(root / "env")
    )
    (config.parent / "benchmarks" / "tracked.py").write_text(BENCHMARKS)
    home = root / "home"
    home.mkdir()
    return Project(config, home, shas)


def test_two_commits_are_explained(project: Project) -> None:
    """As text for people, with the function, its place, its callees, and the diff."""
    before, after = project.shas[1:3]
    code, shown, _ = project.run("explain", before, after, "-b", "time_value")
    assert code == 0
    assert "value  mini/nn/linear.py:4" in shown
    assert "calls checked now" in shown
    assert "unexplained" in shown
    assert "changed and executed: value" in shown
    assert "docs/x.md" in shown


def test_the_json_is_for_programs(project: Project) -> None:
    """One explanation a workload; a metric that is not time has its reason."""
    before, after = project.shas[1:3]
    code, shown, _ = project.run("explain", before, after, "-b", "value", "--format", "json")
    assert code == 0
    found = {each["workload"]: each for each in json.loads(shown)["explanations"]}
    timed, tracked = found["tracked.time_value"], found["tracked.track_value"]
    assert timed["causes"][0]["name"] == "value"
    assert timed["explained"] > 0.7
    assert [file["path"] for file in timed["touched"]] == ["mini/nn/linear.py", "docs/x.md"]
    assert tracked["causes"] == []
    assert "not time" in tracked["reason"]


@pytest.mark.parametrize(
    ("old", "new", "bench", "code", "words"),
    [
        (1, 1, "time_value", 2, "the same commit"),
        (1, 2, "time_nothing", 2, "no benchmark matches"),
        (1, 2, "time_(", 2, "not a regular expression"),
        (1, None, None, 2, "-b REGEX"),
        ("nowhere", 2, "time_value", 2, "nowhere"),
    ],
)
def test_bad_requests_are_refused_in_one_line(
    project: Project, old: object, new: object, bench: str | None, code: int, words: str
) -> None:
    """Exit code 2 and what to do instead."""
    names = [project.shas[each] if isinstance(each, int) else str(each) for each in (old, new or 2)]
    patterns = ["-b", bench] if bench else []
    found, shown, said = project.run("explain", *names, *patterns)
    assert found == code
    assert shown == ""
    assert words in said.splitlines()[-1]


def test_a_side_that_cannot_be_imported_is_the_reason(project: Project) -> None:
    """Exit code 3; the commit and its own words."""
    before, broken = project.shas[2:4]
    code, shown, _ = project.run("explain", before, broken, "-b", "time_value")
    assert code == 3
    assert f"{broken[:10]} while importing: SyntaxError" in shown


def test_commits_that_run_the_same_have_nothing_to_explain(project: Project) -> None:
    """Exit code 1, and the reason; what changed was not executed."""
    first, second = project.shas[:2]
    code, shown, _ = project.run("explain", first, second, "-b", "track_value")
    assert code == 1
    assert "mini/nn/conv.py" in shown
    assert "not executed" in shown


def test_a_bisect_explains_its_culprits(project: Project) -> None:
    """Into its log, its report, and the resumed session's; with the files that ran at both ends."""
    spec = f"{project.shas[0]}..{project.shas[5]}"
    code, shown, said = project.run("bisect", spec, "-b", "time_value", "--smallest-step", "10%")
    assert code == 0, said
    assert " why " in shown
    assert "value (mini/nn/linear.py:4): changed: calls checked now" in shown
    (path,) = (project.config.parent / "sessions").glob("*.jsonl")
    events = load(path).events
    (explanation,) = (each for each in events if isinstance(each, Explanation))
    assert explanation.child == project.shas[2]
    assert explanation.parent in project.shas[:2]
    assert explanation.explained > 0.5
    traces = [each for each in events if isinstance(each, Trace)]
    assert {each.sha for each in traces} == {project.shas[0], project.shas[5]}
    assert all("mini/nn/linear.py" in each.executed for each in traces)
    assert all(each.present == ("mini/nn/conv.py",) for each in traces)
    code, again, _ = project.run("resume")
    assert code == 0
    assert "value (mini/nn/linear.py:4)" in again
    assert len(load(path).events) == len(events)


def test_a_bisect_can_leave_it_at_names(project: Project) -> None:
    """``--no-explain``: no look into any build; ``resume --explain`` makes up for it."""
    spec = f"{project.shas[1]}..{project.shas[2]}"
    sessions = project.config.parent / "sessions"
    known = set(sessions.glob("*.jsonl"))
    code, shown, said = project.run(
        "bisect", spec, "-b", "time_value", "--smallest-step", "10%", "--no-explain"
    )
    assert code == 0, said
    assert " why " not in shown
    (path,) = set(sessions.glob("*.jsonl")) - known
    assert not any(isinstance(each, (Explanation, Trace)) for each in load(path).events)
    code, shown, _ = project.run("resume", path.stem, "--explain")
    assert code == 0
    assert " why " in shown
    assert sum(isinstance(each, Explanation) for each in load(path).events) == 1
