"""The command line's parser with texts that are one paragraph each, for the page of commands."""

from __future__ import annotations

import argparse
import re

from bisectorch.asv_plugin import cli

REFERENCE = re.compile(r"(?<=\w)_(?!\w)")


def make_parser() -> argparse.ArgumentParser:
    """The real parser; asv lays lists out in its texts, which would be read as markup."""
    parser = cli.make_parser()
    (commands,) = (each for each in parser._actions if isinstance(each.choices, dict))
    for each in (parser, *commands.choices.values()):
        each.description = flowing(each.description).replace("`", "")
        for action in each._actions:
            if action.help is not argparse.SUPPRESS:
                action.help = REFERENCE.sub(r"\_", flowing(action.help))
    return parser


def flowing(text: str | None) -> str:
    """One paragraph."""
    return " ".join((text or "").split())
