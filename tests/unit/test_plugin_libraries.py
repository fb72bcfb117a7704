"""asv's pages without a network: every library is ours to serve, and is what asv trusts."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import asv
import pytest
from bisectorch.asv_plugin.publishing import libraries

INDEX = (Path(asv.__file__).parent / "www" / "index.html").read_text(encoding="utf-8")


def test_nothing_is_loaded_from_elsewhere() -> None:
    """No script and no style sheet of another server is left; what is loaded is there."""
    page = libraries.localize(INDEX)
    assert re.findall(r'<(?:script|link)[^>]*(?:src|href)="https?:', page) == []
    loaded = re.findall(r'(?:src|href)="(libraries/[^"]+)"', page)
    assert len(loaded) == 10
    assert set(loaded) <= set(libraries.files())
    assert "integrity" not in page


@pytest.mark.parametrize("name", ["jquery", "bootstrap", "md5"])
def test_files_are_those_that_asv_trusts(name: str) -> None:
    """Byte for byte, by the digest that asv's own page asks for."""
    pattern = rf'"https://[^"]*/{name}(?:-[\d.]+)?\.min\.(js|css)" integrity="(sha\d+)-([^"]+)"'
    found = re.findall(pattern, INDEX)
    assert found
    for ending, kind, digest in found:
        content = libraries.files()[f"libraries/{name}.min.{ending}"]
        algorithm = hashlib.new(kind, content)
        assert base64.b64encode(algorithm.digest()).decode() == digest


def test_licences_are_published_with_them() -> None:
    """Each file is named in the licences, which go wherever the files go."""
    licences = libraries.files()["libraries/LICENSES.txt"].decode()
    for name in libraries.files():
        if not name.endswith(".txt"):
            assert Path(name).name in licences


def test_an_unknown_library_is_left_to_the_network() -> None:
    """A page of another asv keeps what we do not have."""
    tag = '<script src="https://cdn.example.org/other.js" integrity="sha256-x"></script>'
    assert libraries.localize(tag) == tag
