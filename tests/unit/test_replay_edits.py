"""The edits that the replay's commits are made of."""

import pytest
from bisectorch.replay.edits import Append, Delete, Put, Replace, Undo
from bisectorch.replay.repository import nodes
from bisectorch.replay.story import Step


def test_edits_change_one_tree():
    """Each edit does what its name says."""
    tree = {"a": "one two\n", "gone": ""}
    for edit in (
        Replace("a", "two", "three"),
        Append("a", "four\n"),
        Append("new", "text"),
        Delete("gone"),
        Undo("back", "label"),
        Put("torch/x.py", "counting.py"),
    ):
        edit.apply(tree, {"label": {"back": "old"}})
    assert tree.pop("torch/x.py").startswith('"""')
    assert tree == {"a": "one three\nfour\n", "new": "text", "back": "old"}


@pytest.mark.parametrize("text", ["", "two two"])
def test_replace_wants_exactly_one_passage(text):
    """A story that drifted from its files stops at once."""
    with pytest.raises(ValueError, match="not exactly one"):
        Replace("a", "two", "three").apply({"a": text}, {})


def test_a_merge_holds_both_sides():
    """The side branch is written before its merge, which takes its files and keeps the line's."""
    line = (
        Step("root", "", (Append("both", "1"),)),
        Step("main", "", (Append("main", "2"),)),
        Step("merge", "", side=(Step("side", "", (Append("both", "3"),)),), fork="root"),
    )
    written = list(nodes(line))
    assert [node.step.label for node in written] == ["root", "main", "side", "merge"]
    assert written[2].parents == ("root",)
    assert written[3].parents == ("main", "side")
    assert written[3].tree == {"both": "13", "main": "2"}
