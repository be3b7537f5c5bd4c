"""A server of completions, as small as can be: it answers a prompt with its words reversed."""

import http.server
import json
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET /health, and POST of {"prompt": ...} to any path."""

    def do_GET(self) -> None:
        """Say that all is well."""
        self.answer({"status": "ok"})

    def do_POST(self) -> None:
        """Complete a prompt."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer({"text": " ".join(reversed(asked["prompt"].split()))})

    def answer(self, content: dict[str, str]) -> None:
        """Send JSON."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())


http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Handler).serve_forever()
