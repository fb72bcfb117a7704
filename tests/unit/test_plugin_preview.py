"""Preview: this machine alone, this folder alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from bisectorch.asv_plugin.commands.preview import make_server
from bisectorch.errors import UsageError


@pytest.fixture
def html(tmp_path: Path) -> Path:
    """A small site, with a secret beside it and a link that leads to it."""
    html = tmp_path / "html"
    (html / "culprits").mkdir(parents=True)
    (html / "graphs").mkdir()
    (html / "index.html").write_text("asv")
    (html / "culprits" / "index.html").write_text("culprits")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "html-evil").mkdir()
    (tmp_path / "html-evil" / "secret.txt").write_text("secret")
    (html / "leak.txt").symlink_to(tmp_path / "secret.txt")
    (html / "up").symlink_to(tmp_path)
    return html


@pytest.fixture
def port(html: Path) -> Iterator[int]:
    """The port of a server that serves it."""
    server = make_server(html)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def get(port: int, path: str) -> tuple[int, str]:
    """Status and body of a path sent exactly as it is."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("GET", path, skip_host=False)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read().decode("utf-8", "replace")
    connection.close()
    return answer.status, body


def test_files_of_the_site_are_served(port: int) -> None:
    """Files, and the index of a folder."""
    assert get(port, "/") == (200, "asv")
    assert get(port, "/culprits/") == (200, "culprits")
    assert get(port, "/culprits/index.html?x=1") == (200, "culprits")
    assert get(port, "/culprits")[0] == 301


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/culprits/../../secret.txt",
        "/leak.txt",
        "/up/secret.txt",
        "/../html-evil/secret.txt",
        "//etc/passwd",
        "/%00",
        "/graphs/",
        "/none",
    ],
)
def test_nothing_else_is_served(port: int, path: str) -> None:
    """No way up, no link out, no listing."""
    status, body = get(port, path)
    assert status in {400, 404}
    assert "secret" not in body
    assert "root:" not in body


def test_only_this_machine_can_reach_it(html: Path) -> None:
    """The socket listens on the loopback interface."""
    server = make_server(html)
    assert server.server_address[0] == "127.0.0.1"
    server.server_close()


def test_a_missing_site_says_what_to_do(tmp_path: Path) -> None:
    """One line, naming the command that makes it."""
    with pytest.raises(UsageError, match="bisectorch publish"):
        make_server(tmp_path / "html")


def test_a_port_in_use_is_told(html: Path) -> None:
    """The port asked for is taken, or is none."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="choose another with --port"):
            make_server(html, taken.getsockname()[1])
    with pytest.raises(UsageError, match="not a port"):
        make_server(html, 70_000)


def test_ctrl_c_ends_it_well(html: Path, tmp_path: Path) -> None:
    """The command prints its address, and Ctrl-C is its ordinary end: exit code 0."""
    (tmp_path / "asv.conf.json").write_text(
        '{"version": 1, "project": "p", "repo": ".", "html_dir": "html"}'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "bisectorch", "preview"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if "Press ^C" in line:
            break
    assert "http://127.0.0.1:" in seen, seen
    port = int(seen.split("http://127.0.0.1:")[1].split("/")[0])
    assert get(port, "/culprits/index.html") == (200, "culprits")
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[0]
    assert process.returncode == 0, seen + rest
    assert "Traceback" not in rest
