"""The figures of the two published accounts, carried as data: account.json beside this file.

A: a wiki page of PyTorch (2017-08 to 2018-01) on a mini sequence labeler in PyTorch and in DyNet.
B: the issue thread "Can the TCN module be made faster?" on locuslab/TCN. Seconds throughout,
shares of the profile in percent.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any


@functools.cache
def figures() -> dict[str, Any]:
    """All of it; account.json says the rest."""
    text = resources.files("bisectorch.tables").joinpath("account.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def a(table: str) -> Any:
    """One table of the first account, A1 to A7."""
    return figures()["A"][table]


def b(part: str) -> Any:
    """One part of the second account: ``models`` or ``profile``."""
    return figures()["B"][part]


def source(account: str) -> str:
    """Where the figures of account A or B come from."""
    return str(figures()[account]["source"])
