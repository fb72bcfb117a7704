"""Changes members of a JSON object with comments, and leaves every other character alone.

Libraries read such text or write it, but lose its comments and layout on the way; the one that
keeps them takes the module name of the one that asv reads with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import json5

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<mark>[{}\[\],:])
    |(?P<word>[^\s{}\[\],:"'/]+)""",
    re.VERBOSE | re.DOTALL,
)
WIDTH = 80


class NotEditable(Exception):
    """The text is not one object, as far as this module reads it."""


@dataclass(frozen=True)
class _Token:
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class _Member:
    """One ``key: value`` of the outermost object; ``comma_end`` is None where none follows."""

    key: str
    start: int
    value_start: int
    value_end: int
    comma_end: int | None


def put(text: str, key: str, value: object, after: str | None = None) -> str:
    """The text in which ``key`` has ``value``: replaced, or new behind ``after`` or the last.

    Raises:
        NotEditable: the text cannot be read, or the object is empty.
    """
    members = _members(text)
    # Of a key that is there twice the last one counts.
    for member in reversed(members):
        if member.key == key:
            written = _written(value, _indent(text, member.start))
            return text[: member.value_start] + written + text[member.value_end :]
    if not members:
        raise NotEditable("it is empty")
    before = next((each for each in members if each.key == after), members[-1])
    return _insert(text, before, key, value)


def append(text: str, key: str, item: object) -> str:
    """The text in which the list under ``key`` has one more item, behind the others."""
    members = [each for each in _members(text) if each.key == key]
    if not members:
        return put(text, key, [item])
    tokens = [
        each
        for each in _tokens(text)
        if members[-1].value_start <= each.start < members[-1].value_end
    ]
    if tokens[0].text != "[" or tokens[-1].text != "]":
        raise NotEditable(f"{key} is no list")
    last, written = tokens[-2], json.dumps(item)
    new = {"[": written, ",": f" {written},"}.get(last.text, f", {written}")
    return text[: last.end] + new + text[last.end :]


def _insert(text: str, before: _Member, key: str, value: object) -> str:
    indent = _indent(text, before.start)
    written = f"{json.dumps(key)}: {_written(value, indent)}"
    comma, position = ",", before.comma_end
    if position is None:
        comma, position = "", before.value_end + 1
        text = f"{text[: before.value_end]},{text[before.value_end :]}"
    # A comment behind the member is about that member: the new one goes to the next line.
    rest = re.match(r"[ \t]*(?://[^\n]*|/\*[^\n]*\*/[ \t]*)?(?=\r?\n)", text[position:])
    if rest is None:
        return f"{text[:position]} {written}{comma}{text[position:]}"
    position += rest.end()
    newline = "\r\n" if text.startswith("\r\n", position) else "\n"
    lines = f"\n{indent}{written}{comma}".replace("\n", newline)
    return text[:position] + lines + text[position:]


def _indent(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return re.match(r"\s*", line)[0]  # type: ignore[index]  # matches any text


def _written(value: object, indent: str, *, is_inner: bool = False) -> str:
    """A value as JSON: short ones in one line, others and whole sections a member a line."""
    compact = json.dumps(value)
    fits = len(indent) + len(compact) <= WIDTH
    if not value or (fits and (is_inner or not isinstance(value, dict))):
        return compact
    inner = f"{indent}    "
    if isinstance(value, dict):
        lines = [
            f"{json.dumps(key)}: {_written(each, inner, is_inner=True)}"
            for key, each in value.items()
        ]
        opened, closed = "{}"
    elif isinstance(value, list):
        lines = [_written(each, inner, is_inner=True) for each in value]
        opened, closed = "[]"
    else:
        return compact
    body = f",\n{inner}".join(lines)
    return f"{opened}\n{inner}{body}\n{indent}{closed}"


def _tokens(text: str) -> Iterator[_Token]:
    """All but white space and comments."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            line = text.count("\n", 0, position) + 1
            raise NotEditable(f"line {line} is not JSON with comments")
        if match.lastgroup != "space":
            yield _Token(match[0], match.start(), match.end())
        position = match.end()


def _members(text: str) -> list[_Member]:
    """The members of the one object that the text holds."""
    tokens = list(_tokens(text))
    if not tokens or tokens[0].text != "{" or tokens[-1].text != "}":
        raise NotEditable("it is not an object")
    members: list[_Member] = []
    inside, position = tokens[1:-1], 0
    while position < len(inside):
        key = inside[position]
        if position + 2 >= len(inside) or inside[position + 1].text != ":":
            raise NotEditable(f"there is no value behind {key.text}")
        last = _last_of_value(inside, position + 2)
        has_comma = last + 1 < len(inside)
        if has_comma and inside[last + 1].text != ",":
            raise NotEditable(f"there is no comma behind {key.text}")
        members.append(
            _Member(
                _name(key.text),
                key.start,
                inside[position + 2].start,
                inside[last].end,
                inside[last + 1].end if has_comma else None,
            )
        )
        position = last + 2
    return members


def _name(text: str) -> str:
    return str(json5.loads(text)) if text[0] in "\"'" else text


def _last_of_value(tokens: list[_Token], first: int) -> int:
    depth = 0
    for position in range(first, len(tokens)):
        depth += tokens[position].text in ("{", "[")
        depth -= tokens[position].text in ("}", "]")
        if depth == 0:
            return position
    raise NotEditable("a bracket is not closed")
