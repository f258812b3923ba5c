"""The HTTP side: connections that stay open between requests, and that all end at once when the server closes."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

from gitteam.scripted.wire import After, Outgoing, error

MAX_BODY = 32 << 20
Respond = Callable[[str, Any, bytes | None], Outgoing]  # path, headers, body; None: more than MAX_BODY


class Listener(socketserver.TCPServer):
    """One thread that accepts, one per connection."""

    allow_reuse_address = True
    request_queue_size = 1024

    def __init__(self, port: int, respond: Respond):
        super().__init__(("127.0.0.1", port), Connection)
        self.respond = respond
        self.closing = threading.Event()
        self._open: dict[threading.Thread, socket.socket] = {}
        self._lock = threading.Lock()
        self._acceptor = threading.Thread(target=self.serve_forever, args=(0.1,), name="scripted", daemon=True)
        self._acceptor.start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(target=self._serve, args=(request, client_address), name="scripted", daemon=True)
        with self._lock:
            self._open[thread] = request
        thread.start()

    def _serve(self, request: socket.socket, address: Any) -> None:
        try:
            # A client may go away at any moment; that is nothing to report.
            with contextlib.suppress(ConnectionError):
                self.finish_request(request, address)
        finally:
            self.shutdown_request(request)
            with self._lock:
                del self._open[threading.current_thread()]

    def close(self) -> None:
        self.closing.set()
        _hang_up(self.socket)  # wakes the acceptor, which would look up only at its next interval
        self.shutdown()
        self._acceptor.join()
        self.server_close()
        with self._lock:
            still_open = dict(self._open)
        for connection in still_open.values():
            _hang_up(connection)
        for thread in still_open:
            thread.join()


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was first
        connection.shutdown(socket.SHUT_RDWR)


class Connection(BaseHTTPRequestHandler):
    """Reads requests, sends what the server responds. Every response is one write: two would wait for each other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Listener

    def do_POST(self) -> None:
        try:
            body = self._body()
        except ValueError as e:
            self.close_connection = True  # nobody knows where the next request begins
            return self._send(error(400, f"the request body cannot be read: {e}"))
        if self.command != "POST":
            return self._send(error(404, f"there is no {self.command} {self.path}"))
        return self._send(self.server.respond(self.path, self.headers, body))

    do_GET = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_POST

    def _body(self) -> bytes | None:
        """The body, read to its end in any case: what is left unread would take the answer with it."""
        body, size = bytearray(), 0
        for piece in self._pieces():
            size += len(piece)
            if size <= MAX_BODY:
                body += piece
        return bytes(body) if size <= MAX_BODY else None

    def _pieces(self) -> Iterator[bytes]:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            yield from self._read(int(self.headers.get("content-length", "0")))
            return
        while size := int(self.rfile.readline(100).partition(b";")[0], 16):
            yield from self._read(size)
            self.rfile.readline(100)
        while self.rfile.readline(1 << 16).strip():  # trailers
            pass

    def _read(self, size: int) -> Iterator[bytes]:
        if size < 0:
            raise ValueError(f"{size} bytes")
        while size:
            piece = self.rfile.read(min(size, 1 << 20))
            if not piece:
                raise ConnectionAbortedError("the client went away")
            size -= len(piece)
            yield piece

    def _send(self, out: Outgoing) -> None:
        if out.delay and self.server.closing.wait(out.delay):
            self.close_connection = True
            return
        self.wfile.write(out.data)
        if out.after is After.STALL:
            self._await_end()
        if out.after is not After.KEEP:
            self.close_connection = True

    def _await_end(self) -> None:
        """Until the client goes away, or the server hangs up."""
        while self.connection.recv(4096):
            pass

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.close_connection = True
        self._send(error(int(code), message or ""))

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: what came in is in the server's lists."""
