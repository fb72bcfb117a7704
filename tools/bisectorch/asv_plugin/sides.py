"""The two sides of a comparison: commits by any name, or the working tree; and their builds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bisectorch.asv_plugin.workshop import Workshop
from bisectorch.errors import Unbuildable, UsageError
from bisectorch.history import WorkingTree, capture
from bisectorch.model import Build, Commit, PathClass
from bisectorch.report.progress import ConsoleReporter

WORKING_TREE = "."
"""How a side says that it is the working tree."""


@dataclass(frozen=True)
class Side:
    """One side: how it was named, the commit that it is, and the working tree behind it."""

    name: str
    commit: Commit
    working_tree: WorkingTree | None = None


def find_sides(
    workshop: Workshop, old: str | None, new: str | None, reporter: ConsoleReporter
) -> tuple[Side, Side]:
    """Both sides; a NEW left out is the working tree.

    Raises UsageError when one names nothing, or both are the same.
    """
    if not old:
        raise UsageError("say what to compare: OLD NEW, or OLD alone against the working tree")
    first = _side(workshop, old, reporter)
    second = _side(workshop, WORKING_TREE if new is None else new, reporter)
    if first.commit.sha == second.commit.sha:
        tree = first.working_tree or second.working_tree
        if tree is not None:
            raise UsageError(f"nothing is changed in the working tree since {tree.head[:10]}")
        raise UsageError(
            f"{old!r} and {new!r} are the same commit, {first.commit.sha[:10]}: name two"
        )
    return first, second


def _side(workshop: Workshop, name: str, reporter: ConsoleReporter) -> Side:
    if name != WORKING_TREE:
        return Side(name, workshop.history.commit(name))
    repository = Path(workshop.repo._path)
    if not Path(workshop.conf.repo).is_dir():
        raise UsageError(
            f"repo {workshop.conf.repo!r} in asv.conf.json is no directory of this machine, so "
            "there is no working tree to compare: name two commits"
        )
    tree = capture(repository, workshop.settings.classes)
    if tree.left_out:
        reporter.progress(
            f"{len(tree.left_out)} files that git does not track are left out "
            f"({tree.left_out[0]}, ...): `git add` those that matter"
        )
    return Side("working tree", workshop.history.commit(tree.sha), tree)


def provide(workshop: Workshop, side: Side, reporter: ConsoleReporter) -> Build:
    """The side's build.

    Raises UsageError, naming the files, for a working tree whose compiled files changed and that
    nothing can build; Unbuildable for any other side that has no build.
    """
    quote = workshop.ladder.quote(side.commit)
    reporter.progress(
        f"obtaining {side.commit.sha[:10]} by {quote.route.value} (about {quote.seconds:.0f} s)"
    )
    try:
        return workshop.ladder.provide(side.commit)
    except Unbuildable as error:
        native = [
            path
            for path in (side.working_tree.changed if side.working_tree else ())
            if workshop.settings.classes.classify(path) is PathClass.NATIVE
        ]
        if not native:
            raise Unbuildable(
                f"{side.name} ({side.commit.sha[:10]}) cannot be built: {error.reason}"
            ) from error
        listed = ", ".join(native[:3]) + (", ..." if len(native) > 3 else "")
        raise UsageError(
            f"the working tree changes files that are compiled ({listed}), and it cannot be "
            f"built: {error.reason}"
        ) from error
