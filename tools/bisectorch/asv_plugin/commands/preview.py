"""``bisectorch preview``: the published site on this machine alone."""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from asv.commands import Command
from asv.console import log

from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.errors import UsageError

HOST = "127.0.0.1"
PORTS = (8080, 8081, 8082, 8083, 8084, 0)
"""Tried in this order where no port is asked for; 0 lets the system choose."""


class Preview(TeachingErrors, Command):  # type: ignore[misc]
    """Replaces asv's command of this name, which listens on every interface."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """The options that asv's command has."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "preview",
            help="Show the published site in a browser, from this machine only",
            description="Serves the published site on 127.0.0.1 until Ctrl-C.",
        )
        parser.add_argument(
            "--port",
            "-p",
            type=int,
            default=0,
            help="The port to serve on. Default: 8080, or the next that is free.",
        )
        parser.add_argument("--browser", "-b", action="store_true", help="Open in a web browser.")
        parser.add_argument(
            "--html-dir", "-o", help="The site's folder. Default: html_dir of asv.conf.json."
        )
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Serve until Ctrl-C."""
        server = make_server(Path(args.html_dir or conf.html_dir), args.port)
        url = f"http://{HOST}:{server.server_port}/"
        with server, contextlib.suppress(KeyboardInterrupt):
            log.info(f"Serving at {url}")
            log.info(f"Culprits at {url}culprits/index.html")
            log.info("Press ^C to stop\n")
            log.flush()
            if args.browser:
                webbrowser.open(url)
            server.serve_forever()
        return 0


def make_server(directory: Path, port: int = 0) -> http.server.ThreadingHTTPServer:
    """A server of this folder on the loopback interface, not yet serving.

    Raises UsageError when there is no site, or the port asked for is not to be had.
    """
    if not (directory / "index.html").is_file():
        raise UsageError(f"there is no site in {directory}; run `bisectorch publish` first")
    if not 0 <= port < 65536:
        raise UsageError(f"{port} is not a port; choose one from 1 to 65535")
    handler = functools.partial(_Handler, directory=str(directory.resolve()))
    for candidate in (port,) if port else PORTS:
        try:
            return http.server.ThreadingHTTPServer((HOST, candidate), handler)
        except OSError as error:
            reason = error.strerror
    raise UsageError(f"port {port} cannot be served on ({reason}); choose another with --port")


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files of the folder and nothing else: no listings, no links that lead out of it."""

    def send_head(self) -> Any:
        """The file asked for, or 404."""
        if not self._is_inside(Path(self.translate_path(self.path))):
            self.send_error(404)
            return None
        return super().send_head()

    def _is_inside(self, path: Path) -> bool:
        """The path exists, and no link on the way leads out of the folder."""
        try:
            if path.is_dir() and urlsplit(self.path).path.endswith("/"):
                path /= "index.html"
            return path.resolve(strict=True).is_relative_to(self.directory)
        except (OSError, ValueError):  # no such file, or no name a file can have
            return False

    def list_directory(self, path: Any) -> None:
        """Folders are not listed."""
        self.send_error(404)

    def end_headers(self) -> None:
        """A new publish shows at once."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are of no interest."""
