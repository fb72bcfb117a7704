"""What is proposed to projects of every usual kind, and which ones are refused."""

from __future__ import annotations

from collections.abc import Mapping

import json5
import pytest
from bisectorch.asv_plugin.init import Proposal, Tip, propose, with_proposal
from bisectorch.errors import UsageError

PURE = {
    "pyproject.toml": """
        [build-system]
        requires = ["hatchling>=1"]
        [project]
        name = "pkg"
        dependencies = ["attrs>=20"]
    """,
    "pkg/__init__.py": "",
    "pkg/work.py": "",
    "tests/__init__.py": "",
    "benchmarks/__init__.py": "",
}
NATIVE = {
    "setup.py": "",
    "setup.cfg": "[options]\ninstall_requires =\n    numpy>=1.20\n    six\n",
    "src/core/__init__.py": "",
    "src/core/loops.pyx": "",
    "asv/benchmarks/__init__.py": "",
}


def tip(files: Mapping[str, str], benchmarks: str = "benchmarks") -> Tip:
    """A project of these files."""
    return Tip(list(files), lambda path: files[path].encode(), benchmarks)


def test_a_pure_project_needs_little() -> None:
    """Its kind, what it runs with, and what builds it."""
    found = propose({"repo": ".", "environment_type": "virtualenv"}, tip(PURE))
    assert found == Proposal(
        {
            "environment_type": "bisectorch",
            "bisectorch": {
                "classes": {"preset": "python"},
                "requirements": ["attrs>=20"],
                "source": {"requirements": ["hatchling>=1"]},
            },
        },
        adds_plugin=True,
        notes=(),
    )


def test_a_native_project_vouches_for_its_packages_alone() -> None:
    """Everything else may go into what is compiled, but for the benchmarks."""
    found = propose({"repo": ".", "results_dir": ".asv/results"}, tip(NATIVE, "asv/benchmarks"))
    section = found.values["bisectorch"]
    assert section["classes"]["python_only"][0] == "src/core/**/*.py"
    assert "!**/setup*.py" in section["classes"]["python_only"]
    assert section["classes"]["irrelevant"][-1] == "asv/benchmarks/**"
    assert section["source"] == {"root": "src"}
    assert section["requirements"] == ["numpy>=1.20", "six"]
    assert section["sessions_dir"] == ".asv/sessions"
    assert "src/core/loops.pyx" in found.notes[0]


def test_what_is_not_used_any_more_is_said() -> None:
    """And that requirements could not be found."""
    said = {
        "repo": ".",
        "environment_type": "conda",
        "conda_channels": ["x"],
        "install_command": "",
    }
    first, second, third = propose(said, tip({"pkg/__init__.py": "", "setup.py": ""})).notes
    assert "PyPI" in first
    assert second == "not used any more: conda_channels"
    assert "requirements" in third


def test_our_own_section_is_left_alone() -> None:
    """It is the user's."""
    said = {"repo": ".", "bisectorch": {}, "environment_type": "bisectorch"}
    assert propose(said, tip(PURE)) == Proposal({}, adds_plugin=True, notes=())
    assert propose({**said, "plugins": [".bisectorch.asv_plugin"]}, tip(PURE)).is_empty


def test_the_branch_is_named_where_nothing_is_said() -> None:
    """asv takes it to be another one."""
    assert propose({"repo": "."}, tip(PURE), "main").values["branches"] == ["main"]
    assert "branches" not in propose({"branches": ["a"]}, tip(PURE), "main").values


@pytest.mark.parametrize("said", [{"dvcs": "hg"}, {"plugins": "x"}])
def test_what_cannot_be_served_is_refused(said: dict[str, str]) -> None:
    """In one line."""
    with pytest.raises(UsageError):
        propose(said, tip(PURE))


def test_the_file_says_what_was_proposed() -> None:
    """And what it said before, with its comments."""
    text = '{"repo": ".", // here\n "plugins": ["mine"]}'
    changed = with_proposal(text, propose(json5.loads(text), tip(PURE)))
    assert json5.loads(changed)["plugins"] == ["mine", ".bisectorch.asv_plugin"]
    assert json5.loads(changed)["bisectorch"]["requirements"] == ["attrs>=20"]
    assert "// here" in changed


def test_a_file_that_cannot_be_changed_safely_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came out is read again; the lines are shown where it does not say what it should."""
    text = '{"repo": "."}'
    proposal = propose(json5.loads(text), tip(PURE))
    monkeypatch.setattr("bisectorch.asv_plugin.init.edit.put", lambda text, *_: text)
    with pytest.raises(UsageError, match=r"add .*bisectorch.* yourself"):
        with_proposal(text, proposal)


def test_escaped_keys_are_known() -> None:
    """They are the same keys."""
    text = '{"repo": ".", "environment_\\u0074ype": "conda"}'
    changed = with_proposal(text, propose(json5.loads(text), tip(PURE)))
    assert "conda" not in changed
