"""The code in the pages of documentation: which of it runs, and what came out when it did."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if "_build" not in path.parts
)
NETWORK = "network"
"""Behind ``sh``: the block needs a network, a cluster or a PyTorch checkout, and is not run."""


@dataclass(frozen=True)
class Block:
    """One block of code: the words behind its fence (none where it has no fence), and its text."""

    info: tuple[str, ...]
    text: str

    @property
    def commands(self) -> list[str]:
        """What a person would type."""
        if self.info[:1] == ("console",):
            return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]
        return [line for line in self.text.splitlines() if line.strip()]

    @property
    def runs(self) -> bool:
        """Whether it is to be executed."""
        return self.info in (("sh",), ("console",))


def blocks(page: Path) -> Iterator[Block]:
    """Every block of a page, in order."""
    for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            yield Block(tuple(token.info.split()), token.content)


def calls(command: str) -> Iterator[list[str]]:
    """The arguments of each call of ours in one line for a shell."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words = list(lexer)
    while "bisectorch" in words:
        words = words[words.index("bisectorch") + 1 :]
        ends = [place for place, word in enumerate(words) if set(word) <= set("|&;<>")]
        end = min(ends, default=len(words))
        arguments = words[:end]
        # "2>/dev/null" comes as "2", ">", "/dev/null".
        if end < len(words) and words[end].startswith(">") and arguments[-1:] == ["2"]:
            arguments.pop()
        yield arguments


def script(block: Block) -> str:
    """The block for bash, each command's output and exit code marked off."""
    return "".join(f"{command}\necho; echo {END} $?\n" for command in block.commands)


END = "@@@ end of a command, exit code"


def outputs(said: str) -> list[tuple[str, int]]:
    """What each command said, and its exit code."""
    parts = re.split(rf"\n{END} (\d+)\n", said)
    return [(parts[at], int(parts[at + 1])) for at in range(0, len(parts) - 1, 2)]


def expected(block: Block) -> list[str]:
    """What a console shows under each command."""
    return [
        part.partition("\n")[2] for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    ]


_NAME = re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b|\b[0-9a-f]{7,40}\b")
_NUMBER = re.compile(r"[-+\u2212±]?\d+(?:[.,]\d+)*(?: ?[µnm]s\b)?")


def masked(line: str) -> str:
    """A line without what differs from one run to the next: names, numbers and how many, widths."""
    flowing = " ".join(_NUMBER.sub("0", _NAME.sub("0", line)).split())
    return re.sub(r"─+", "─", re.sub(r"\b0( 0)+\b", "0", flowing))


def shows(shown: Sequence[str], said: Sequence[str]) -> bool:
    """Whether a page's lines are what was said; ``...`` stands for any lines."""
    if not shown:
        return not said
    if shown[0] == "...":
        return any(shows(shown[1:], said[at:]) for at in range(len(said) + 1))
    return bool(said) and masked(shown[0]) == masked(said[0]) and shows(shown[1:], said[1:])
