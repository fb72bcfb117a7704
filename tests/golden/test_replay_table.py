"""docs/replay.md, expected.json and the repository tell one story, under pinned object names."""

import json
import re
import statistics
import subprocess
from pathlib import Path

import pytest
from bisectorch.replay import story, write_replay
from bisectorch.replay.repository import nodes

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "replay.md").read_text(encoding="utf-8")

FIRST = "d4021532990b17e3537aba481d52d7964fcc25a2"
LAST = "7c051f38d330a9963b157c0ecfdbff0cc9f04d4a"


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    """One replay, written once."""
    directory = tmp_path_factory.mktemp("replay")
    write_replay(directory)
    return directory


@pytest.fixture(scope="module")
def expected(replay):
    """The truth beside the repository."""
    return json.loads((replay / "expected.json").read_text())


@pytest.fixture(scope="module")
def rows(replay, expected):
    """What git tells of every commit, in the order of the page's first table."""
    told = subprocess.run(
        ["git", "log", "--name-only", "--format=%x00%H%n%s", "main"],
        cwd=replay / "repo",
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    kinds = {t["commit"]: t["kind"] for ts in expected["workloads"].values() for t in ts}
    found = {}
    for record in told.split("\0")[1:]:
        sha, subject, *paths = record.strip().split("\n")
        found[subject] = (sha, kinds.get(sha) or kind_by({path for path in paths if path}))
    labels = {node.step.subject: node.step.label for node in nodes(story.LINE)}
    assert labels.keys() == found.keys()
    return [
        (label, found[subject][0], subject, kind_of(label, found[subject][1]))
        for subject, label in labels.items()
    ]


def kind_by(paths):
    """What a commit without an effect is, by the files it changes."""
    if not paths:
        return "merge"
    if any(path.startswith("torch/") for path in paths):
        return "Python, no effect"
    return "test" if any(path.startswith("test/") for path in paths) else "documentation"


def kind_of(label, kind):
    """That a commit cannot be imported is told by its label; test_replay_numerics imports it."""
    return "cannot be imported" if label in story.BROKEN else kind


def table(heading):
    """The cells of the first table below a heading of the page."""
    below = PAGE.split(f"## {heading}\n", 1)[1]
    lines = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE).group().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_object_names_are_pinned(rows):
    """The same on every machine and in every release: results can be compared."""
    assert (rows[0][1], rows[-1][1]) == (FIRST, LAST)


def test_the_page_lists_every_commit(rows):
    """One row a commit: label, object name, subject, what it is."""
    wanted = [[f"`{label}`", f"`{sha[:10]}`", *rest] for label, sha, *rest in rows]
    listed = table("Every commit")[2:]
    assert listed == wanted, "\n" + "\n".join(f"| {' | '.join(row)} |" for row in wanted)


def test_the_measured_effects_agree_with_the_truth(rows, expected):
    """A truth moved its workloads in its direction, everything else hardly."""
    shas = {label: sha for label, sha, *_ in rows}
    head, _, *body = table("What each does")
    columns = [cell.strip("`") for cell in head[2:]]
    assert [row[0].strip("`") for row in body] == list(expected["workloads"])
    for name, _, *ratios in body:
        truths = expected["workloads"][name.strip("`")]
        doubtful = {t["commit"] for t in expected["doubtful"].get(name.strip("`"), [])}
        shown = {t[key]: t["kind"] for t in truths for key in ("commit", "merge") if t[key]}
        assert {shas[column] for column in columns} >= {t["merge"] or t["commit"] for t in truths}
        for column, ratio in zip(columns, map(float, ratios), strict=True):
            kind = shown.get(shas[column])
            if shas[column] in doubtful:
                assert kind is None, (name, column)
            elif kind is None:
                assert abs(ratio - 1) <= 0.02, (name, column)
            else:
                assert (ratio >= 1.025) if kind == "regression" else (ratio <= 0.975), (
                    name,
                    column,
                )


def test_the_two_regressions_of_the_account_are_large():
    """15 % or more on every Linear workload."""
    head, _, *body = table("What each does")
    for column in ("`twice`", "`matmul`"):
        position = head.index(column)
        linear = [float(row[position]) for row in body if row[0].startswith("`linear.")]
        assert min(linear) >= 1.15


def test_the_small_step_is_small():
    """5 % in the middle, each figure within what the page says its noise is."""
    head, _, *body = table("What each does")
    position = head.index("`checks`")
    ratios = [float(row[position]) for row in body if row[0].startswith("`linear.")]
    assert 1.045 <= statistics.median(ratios) <= 1.06
    assert min(ratios) >= 1.02
    assert max(ratios) <= 1.09


def test_the_sequence_labelers_truths_are_clear_of_the_smallest_step(rows, expected):
    """Each moves it by more than twice the default 3 %; the other is doubtful, with a reason."""
    shas = {label: sha for label, sha, *_ in rows}
    head, _, *body = table("What each does")
    [labeler] = [row for row in body if row[0] == f"`{story.LABELER}`"]
    ratios = dict(zip((cell.strip("`") for cell in head[2:]), map(float, labeler[2:]), strict=True))
    moved = {shas[label] for label, ratio in ratios.items() if abs(ratio - 1) > 0.06}
    truths = expected["workloads"][story.LABELER]
    assert {truth["merge"] or truth["commit"] for truth in truths} == moved
    assert len(truths) >= 2
    [doubtful] = expected["doubtful"][story.LABELER]
    assert doubtful["commit"] == shas["checks"]
    assert doubtful["kind"] == "regression"
    assert "3 %" in doubtful["reason"]
    assert list(expected["doubtful"]) == [story.LABELER]
