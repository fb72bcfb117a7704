"""The libraries of asv's pages, served from the site itself.

asv's pages load jQuery, flot and Bootstrap from other people's servers and are blank without
them. The files lie in ``asv_plugin/libraries`` with their licences.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from asv.console import log

SOURCE = Path(__file__).resolve().parents[1] / "libraries"
FOLDER = "libraries"

_ELSEWHERE = re.compile(
    r'(?P<tag><(?:script|link)\b[^>]*?\s(?:src|href)=)"https://[^"]*/(?P<name>[^"/]+\.(?:js|css))"'
    r"(?P<rest>[^>]*)>"
)
_GUARDS = re.compile(r'\s(?:integrity|crossorigin|referrerpolicy)="[^"]*"')
_RENAMED = {"jquery-3.3.1.min.js": "jquery.min.js"}


@cache
def files() -> dict[str, bytes]:
    """Every file of the libraries, licences included, by its name on the site."""
    return {
        f"{FOLDER}/{path.name}": path.read_bytes()
        for path in sorted(SOURCE.iterdir())
        if path.suffix in {".js", ".css", ".txt"}
    }


def localize(markup: str) -> str:
    """asv's page with its libraries taken from this site; what we do not have is left alone."""

    def local(found: re.Match[str]) -> str:
        name = _name_of(found["name"])
        content = files().get(f"{FOLDER}/{name}")
        if content is None:
            log.warning(f"asv's page needs a network: it loads {found['name']}")
            return found[0]
        rest = _GUARDS.sub("", found["rest"])
        return f'{found["tag"]}"{FOLDER}/{name}"{rest}>'

    return _ELSEWHERE.sub(local, markup)


def _name_of(name: str) -> str:
    name = _RENAMED.get(name, name)
    if f"{FOLDER}/{name}" in files():
        return name
    return f"{name.removesuffix('.js')}.min.js"
