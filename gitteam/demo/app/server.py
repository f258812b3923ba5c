"""The server: GET /books, /books/ID and /authors/ID answer with JSON."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from store import AUTHORS, BOOKS


def find(path: str) -> Any:
    """What is at a path, or None."""
    kind, _, key = path.strip("/").partition("/")
    if kind == "books":
        return BOOKS.get(key) if key else list(BOOKS.values())
    return AUTHORS.get(key) if kind == "authors" else None


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = find(self.path)
        self.answer(404 if found is None else 200, found)

    def answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 8000), Handler) as server:
        server.serve_forever()
