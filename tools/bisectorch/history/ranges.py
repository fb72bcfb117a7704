"""The forms in which a range can be written, as git and asv know them. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from bisectorch.errors import UsageError

FORMS = (
    "FROM..TO, with names, tags or NAME@{2017-05-01}; --since=DATE [--until=DATE] [NAME]; "
    "ALL; HASHFILE:FILE"
)
_DATED = re.compile(r"(.*)@\{(.+)\}", re.DOTALL)
_REFLOG = re.compile(r"-?\d+|u|upstream|push", re.IGNORECASE)
_OPTIONS = {"since": "since", "after": "since", "until": "until", "before": "until"}


@dataclass(frozen=True)
class Between:
    """``FROM..TO``; an empty side is HEAD."""

    left: str
    right: str


@dataclass(frozen=True)
class Dated:
    """What was committed to ``name`` between two dates; no ``until`` is now."""

    since: str
    until: str | None
    name: str | None


@dataclass(frozen=True)
class Everything:
    """``ALL``: every commit of the branch, its first one the baseline."""


@dataclass(frozen=True)
class Listed:
    """``HASHFILE:FILE``: the commits that a file names, one a line; ``-`` is standard input."""

    file: str


def parse(spec: str) -> Between | Dated | Everything | Listed:
    """Read a range; UsageError, one line that says what to write, for what is none."""
    if spec == "ALL":
        return Everything()
    if spec.startswith("HASHFILE:"):
        return Listed(spec.removeprefix("HASHFILE:"))
    if re.match(r"--(since|after|until|before)\b", spec):
        return _dated(spec)
    left, dots, right = spec.partition("..")
    if not dots:
        raise UsageError(f"{spec!r} names one commit: write a range, FROM..TO")
    if right.startswith("."):
        raise UsageError(f"{spec!r} has three dots: write FROM..TO with two")
    return Between(left, right)


def date_in(name: str) -> tuple[str, str] | None:
    """``NAME@{DATE}`` as its two parts, or None for what git's reflog or nothing is meant by."""
    match = _DATED.fullmatch(name)
    if not match or _REFLOG.fullmatch(match[2]):
        return None
    return match[1] or "HEAD", match[2]


def _dated(spec: str) -> Dated:
    found: dict[str, str] = {}
    try:
        words = shlex.split(spec)
    except ValueError as error:
        raise UsageError(f"{spec!r} is not a range ({error}); write {FORMS}") from error
    for word in words:
        option, equals, value = word.removeprefix("--").partition("=")
        kind = _OPTIONS.get(option, "") if word.startswith("--") else "name"
        if word.startswith("--") and not (kind and equals and value):
            raise UsageError(f"{word!r} is not understood in a range; write {FORMS}")
        if kind in found:
            raise UsageError(f"{spec!r} says {option!r} more than once")
        found[kind] = value if kind != "name" else word
    if "since" not in found:
        raise UsageError(f"{spec!r} has no beginning: add --since=DATE")
    return Dated(found["since"], found.get("until"), found.get("name"))
