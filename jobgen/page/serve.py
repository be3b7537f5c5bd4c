"""The page on this machine alone: the standard library's web server, on loopback."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jobgen.page.build import make_policy


class _Handler(SimpleHTTPRequestHandler):
    """Files with the types that browsers insist on, and the page's policy as a header."""

    extensions_map = {  # noqa: RUF012
        **SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }
    policy = ""

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", self.policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing for each request."""


def make_server(folder: str, *, pyodide: str = "pyodide/", port: int = 0) -> ThreadingHTTPServer:
    """Return a server of a built page on 127.0.0.1; port 0 is any free one.

    `pyodide` is the path or URL that the page was built with. Raises OSError for a port in use.
    """
    handler = type("_PageHandler", (_Handler,), {"policy": make_policy(pyodide)})
    return ThreadingHTTPServer(("127.0.0.1", port), partial(handler, directory=folder))
