"""Every command in the documentation is one that we have, and runs; what is shown was said."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from bisectorch.asv_plugin.cli import make_parser
from minihistory import MiniRepo
from pages import NETWORK, PAGES, ROOT, Block, blocks, calls, expected, outputs, script, shows
from plainproject import call, run

RUN = [page for page in PAGES if any(block.runs for block in blocks(page))]
LONG = {"versus.md", "noise.md", "howto-cluster.md", "explain.md", "howto-watch.md"}
"""Pages whose commands take minutes together."""

FILES = {
    ".gitignore": ".asv/\nenv/\nhtml/\nresults/\nsessions/\n__pycache__/\n",
    "asv.conf.json": '{"version": 1, "project": "wordy", "repo": ".", "branches": ["main"]}\n',
    "pyproject.toml": '[project]\nname = "wordy"\nversion = "1.0"\n'
    '[build-system]\nrequires = ["setuptools", "wheel"]\n',
    "wordy/__init__.py": "from wordy.level import LEVEL\n\n\n"
    "def count(text):\n    return len(text.split()) + 0 * sum(range(LEVEL))\n",
    "wordy/level.py": "LEVEL = 100\n",
    "wordy/aside.py": "ASIDE = 1\n",
    "bench.py": "from wordy.level import LEVEL\n\nsum(range(LEVEL * 20_000))\n",
    "benchmarks/__init__.py": "",
    "benchmarks/frame_methods.py": "import wordy.level\n\n\n"
    "class Apply:\n    def track_level(self):\n        return wordy.level.LEVEL\n",
    "benchmarks/linear.py": "import wordy\n\n\n"
    "class Linear:\n    def time_backward(self):\n        wordy.count('a b')\n",
    "benchmarks/load.py": "import wordy.level\n\n\ndef track_time_load():\n"
    "    return wordy.level.LEVEL\n",
}
WORDS = {"REGEX": "frame_methods", "notify-regression": "true"}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose tags and benchmarks have the names that the pages use, bisected once."""
    repo = MiniRepo(tmp_path_factory.mktemp("example") / "project")
    repo.commit("start", FILES)
    for tag in ("v1.0", "v1.2", "v2.1.0", "FROM"):
        repo.git("tag", tag)
    for line in range(3):
        repo.commit(f"write {line}", {"README.md": f"{line}\n"})
    repo.git("tag", "PARENT")
    repo.commit("slow down", {"wordy/level.py": "LEVEL = 150\n"})
    repo.git("tag", "CHILD")
    repo.commit("write more", {"README.md": "more\n"})
    for tag in ("v1.1", "TO"):
        repo.git("tag", tag)
    assert run(repo.path, "init", "--yes")[0] == 0
    repo.commit("use bisectorch")
    code, said, told = run(repo.path, "bisect", "v1.0..main", "-b", "frame_methods")
    assert code == 0, said + told
    (repo.path / "wordy" / "aside.py").write_text("ASIDE = 2\n")
    return repo.path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_one_that_we_have(page: Path) -> None:
    """With its options; and where it is run, or why not, is said behind the fence."""
    for block in blocks(page):
        for command in block.commands:
            if "bisectorch " not in command or (block.info and not is_shell(block)):
                continue
            assert block.info, f"give it a fence: {command}"
            for arguments in calls(command):
                if "..." not in arguments:
                    make_parser().parse_args(arguments)


def is_shell(block: Block) -> bool:
    """Whether a person would type it."""
    return block.info[0] in ("sh", "console")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_does_not_run_says_so(page: Path) -> None:
    """Nothing but a network is a reason."""
    for block in blocks(page):
        if block.info and is_shell(block) and not block.runs:
            assert block.info == ("sh", NETWORK)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.name in LONG else (), id=page.name)
        for page in RUN
    ],
)
def test_every_command_runs(page: Path, example: Path, tmp_path: Path) -> None:
    """From the top of the page to its end, in one shell; exit codes are 0 and 1."""
    folder = tmp_path / "here"
    if page.name == "tutorial.md":
        folder.mkdir()
    else:
        shutil.copytree(example, folder, symlinks=True)
    given = [each for each in blocks(page) if each.runs or each.info[:1] == ("python",)]
    for block in given:
        if len(block.info) == 2:
            (folder / block.info[1]).write_text(block.text)
    ran = [each for each in given if each.runs]
    text = "".join(script(block) for block in ran)
    for word, meant in WORDS.items():
        text = text.replace(word, meant)
    # It serves until it is stopped.
    text = text.replace(
        "bisectorch preview", "timeout --preserve-status -s INT 5 bisectorch preview"
    )
    code, said, told = call(["bash", "-c", text], folder, variables())
    assert code == 0, told
    results = outputs(said)
    commands = [(block, command) for block in ran for command in block.commands]
    assert len(results) == len(commands), said + told
    for (_, command), (output, status) in zip(commands, results, strict=True):
        assert status in (0, 1, 130), f"{command}: {status}\n{output}\n{told}"
    wanted = [
        shown if block.info == ("console",) else None
        for block in ran
        for shown in (expected(block) if block.info == ("console",) else block.commands)
    ]
    for shown, (output, _) in zip(wanted, results, strict=True):
        if shown is not None:
            assert shows(shown.rstrip().splitlines(), output.rstrip().splitlines()), (
                f"{page.name} shows\n{shown}\nbut this was said:\n{output}"
            )


def variables() -> dict[str, str]:
    """What a shell needs to find us, and git to know who commits."""
    folder = Path(sys.executable).parent
    names = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in WHO}
    return {"PATH": f"{folder}:{PATH}", **names}


WHO = (("NAME", "An Author"), ("EMAIL", "author@example.org"))
PATH = "/usr/local/bin:/usr/bin:/bin"


def test_a_shown_output_may_differ_in_figures_only() -> None:
    """The comparison that the others rest on."""
    said = ["one of 3", "at 12ab34cd56: +1.5 µs", "last"]
    assert shows(["one of 4", "at 00ab34cd57: +10 ms", "last"], said)
    assert shows(["...", "last"], said)
    assert not shows(["one of 4", "last"], said)
    assert not shows(["two of 3", "..."], said)
    assert not shows([], said)


def test_the_pages_are_found() -> None:
    """These tests would notice that there is nothing to test."""
    assert ROOT / "README.md" in RUN
    assert len(RUN) > 8
