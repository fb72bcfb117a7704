"""What is written into a JSON object with comments, and that nothing else in it changes."""

from __future__ import annotations

import json5
import pytest
from bisectorch.asv_plugin.init import edit
from hypothesis import given
from hypothesis import strategies as st

USUAL = """\
{
    // What it is.
    "project": "x", // "environment_type": "conda",
    /* "plugins": ["a"], */
    "repo": ".", // http://example.org/a,b
    'pythons': ["3.11"] // the last one
    // "plugins": []
}
"""


def test_a_new_member_goes_to_the_line_behind_another() -> None:
    """With the comma that it needs, and behind the comment of the other."""
    changed = edit.put(USUAL, "environment_type", "bisectorch", "repo")
    assert changed == USUAL.replace("a,b\n", 'a,b\n    "environment_type": "bisectorch",\n')


def test_behind_the_last_member_the_comma_comes_first() -> None:
    """Which had none."""
    changed = edit.put(USUAL, "environment_type", "bisectorch")
    assert changed == USUAL.replace(
        '["3.11"] // the last one',
        '["3.11"], // the last one\n    "environment_type": "bisectorch"',
    )


def test_a_value_is_replaced_where_it_stands() -> None:
    """Of two with one key, the one that counts."""
    text = '{"a": {"b": 1}, "b": [1, {"c": "}"}], "b": 2 /* two */}'
    assert edit.put(text, "b", 3) == text.replace("2 /*", "3 /*")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[]", '["new"]'),
        ('["a"]', '["a", "new"]'),
        ('["a", ]', '["a", "new", ]'),
        ('[\n  "a", // one\n]', '[\n  "a", "new", // one\n]'),
        ('[\n  "a" /* one */\n]', '[\n  "a", "new" /* one */\n]'),
    ],
)
def test_a_list_gets_one_more_item(before: str, after: str) -> None:
    """Behind the others, whatever the commas are like."""
    text = '{{"p": {}, "q": ["r"]}}'
    assert edit.append(text.format(before), "p", "new") == text.format(after)


def test_sections_are_laid_out_a_member_a_line() -> None:
    """At the indent of their neighbours, with the line ends of the file."""
    text = '{\r\n  "a": 1\r\n}\r\n'
    value = {"short": {"b": ["c"]}, "long": ["x" * 40, "y" * 40]}
    x, y = "x" * 40, "y" * 40
    lines = [
        "{",
        '  "a": 1,',
        '  "s": {',
        '      "short": {"b": ["c"]},',
        '      "long": [',
        f'          "{x}",',
        f'          "{y}"',
        "      ]",
        "  }",
        "}",
        "",
    ]
    assert edit.put(text, "s", value) == "\r\n".join(lines)


@pytest.mark.parametrize(
    "text", ["", "[1]", "{}", '{"a" 1}', '{"a": [1}', '{"a": 1 "b": 2}', '{"a": "no end}']
)
def test_what_cannot_be_read_is_not_changed(text: str) -> None:
    """A fault, not a guess."""
    with pytest.raises(edit.NotEditable):
        edit.put(text, "new", 1)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("a/*\"'\\,:{}[] ", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)
SPACES = st.sampled_from([" ", "\n  ", " // c, }\n", " /* ], */ "])


@given(st.data(), st.dictionaries(st.sampled_from("abcd"), VALUES, min_size=1), VALUES)
def test_any_object_keeps_the_rest(
    data: st.DataObject, said: dict[str, object], value: object
) -> None:
    """Read again, it says what it said, and the new value; and no character was lost."""
    space = lambda: data.draw(SPACES)  # noqa: E731
    inside = ",".join(
        f"{space()}{json5.dumps(key, quote_keys=True)}{space()}:{space()}"
        f"{json5.dumps(each, quote_keys=True)}{space()}"
        for key, each in said.items()
    )
    text = "{" + inside + data.draw(st.sampled_from(["", ",", ",\n"])) + "}"
    key = data.draw(st.sampled_from("abcdxy"))
    changed = edit.put(text, key, value)
    assert json5.loads(changed) == {**said, key: value}
    if key not in said:
        rest = iter(changed)
        assert all(character in rest for character in text)
