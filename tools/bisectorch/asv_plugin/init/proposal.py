"""What an asv.conf.json needs for us: pure, from its values and the newest commit's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import json5

from bisectorch.asv_plugin.init import edit
from bisectorch.asv_plugin.init.tip import Tip
from bisectorch.errors import UsageError

TYPE = "bisectorch"
PLUGIN = ".bisectorch.asv_plugin"
GENERATORS = ("!**/setup*.py", "!**/gen_*.py", "!**/generate_*.py", "!**/code_generators/**")
"""Python files inside packages that usually write what is compiled."""


@dataclass(frozen=True)
class Proposal:
    """Members of asv.conf.json to be set, the plugin to be added, and what the user should know."""

    values: Mapping[str, Any]
    adds_plugin: bool
    notes: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the project uses us already."""
        return not self.values and not self.adds_plugin


def propose(said: Mapping[str, Any], tip: Tip, branch: str | None = None) -> Proposal:
    """What to change in a configuration that says this, for a project of these files.

    ``branch`` is the one to track where asv's own default does not exist.

    Raises:
        UsageError: we cannot serve this project; the line says why.
    """
    if said.get("dvcs") in ("hg", "mercurial"):
        raise UsageError("this is a Mercurial project: Bisectorch reads git histories only")
    plugins = said.get("plugins", [])
    if not isinstance(plugins, list):
        raise UsageError(f"plugins in asv.conf.json must be a list, not {plugins!r}")
    values: dict[str, Any] = {}
    if said.get("environment_type") != TYPE:
        values["environment_type"] = TYPE
    if branch is not None and "branches" not in said:
        values["branches"] = [branch]
    if TYPE not in said:
        values[TYPE] = _section(said, tip)
    return Proposal(values, PLUGIN not in plugins, tuple(_notes(said, tip)))


def with_proposal(text: str, proposal: Proposal) -> str:
    """The text of asv.conf.json with the proposal in it, and nothing else changed.

    Raises:
        UsageError: the text cannot be changed without doing harm.
    """
    wanted = {**json5.loads(text), **proposal.values}
    try:
        changed, after = text, None
        for key, value in proposal.values.items():
            changed = edit.put(changed, key, value, after or _neighbour(wanted, key))
            after = key
        if proposal.adds_plugin:
            wanted["plugins"] = [*wanted.get("plugins", []), PLUGIN]
            if "plugins" in json5.loads(text):
                changed = edit.append(changed, "plugins", PLUGIN)
            else:
                changed = edit.put(changed, "plugins", [PLUGIN], "environment_type")
        if json5.loads(changed) == wanted:
            return changed
        reason = "it reads differently than it looks"
    except (edit.NotEditable, ValueError) as error:
        reason = str(error)
    lines = json5.dumps({**proposal.values, "plugins": [PLUGIN]}, quote_keys=True)
    raise UsageError(f"asv.conf.json cannot be changed safely ({reason}): add {lines} yourself")


def _neighbour(said: Mapping[str, Any], key: str) -> str | None:
    return "environment_type" if key == TYPE and "environment_type" in said else None


def _section(said: Mapping[str, Any], tip: Tip) -> dict[str, Any]:
    classes: dict[str, Any] = {"preset": "python"}
    if tip.compiled and tip.packages:
        globs = [f"{each}/**/*.py" for each in tip.packages]
        classes["python_only"] = [*globs, *GENERATORS]
    if f"{tip.benchmarks}/**" == tip.irrelevant[-1]:
        classes["irrelevant"] = list(tip.irrelevant)
    section: dict[str, Any] = {"classes": classes}
    results = PurePosixPath(said.get("results_dir", "results"))
    if results.parent != PurePosixPath("."):
        section["sessions_dir"] = str(results.parent / "sessions")
    if tip.requirements:
        section["requirements"] = tip.requirements
    source: dict[str, Any] = {}
    if tip.source_root:
        source["root"] = tip.source_root
    if tip.build_requirements:
        source["requirements"] = tip.build_requirements
    if source:
        section["source"] = source
    return section


def _notes(said: Mapping[str, Any], tip: Tip) -> list[str]:
    kind = said.get("environment_type")
    notes = []
    if kind in ("conda", "mamba", "rattler"):
        notes.append(
            f"the matrix was written for {kind}: its packages will be looked for on PyPI, under "
            "the same names"
        )
    ignored = [
        key
        for key in (
            "conda_environment_file",
            "conda_channels",
            "install_command",
            "uninstall_command",
            "build_cache_size",
        )
        if said.get(key)
    ]
    if ignored:
        notes.append(f"not used any more: {', '.join(ignored)}")
    if TYPE in said:
        return notes
    if tip.compiled:
        notes.append(
            f"{len(tip.compiled)} files are compiled, such as {tip.compiled[0]}: if a Python file "
            'inside a package writes or chooses code to compile, add "!ITS/PATH" to python_only'
        )
    if tip.requirements is None:
        notes.append(
            "what the project needs when it runs is not said in a file of data: list it in "
            '"requirements" of the section "bisectorch", unless the matrix has it'
        )
    return notes
