"""The app from outside: a real server, a real client."""

from __future__ import annotations

import json
import threading
import unittest
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from typing import Any

from client import Client
from server import Handler


class ServerCase(unittest.TestCase):
    """A test with a server of its own."""

    def setUp(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        self.addCleanup(connection.close)
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


class RestTest(ServerCase):
    def test_books_are_listed(self) -> None:
        status, books = self.ask("GET", "/books")
        self.assertEqual((status, len(books)), (200, 3))

    def test_one_author_is_found(self) -> None:
        self.assertEqual(self.ask("GET", "/authors/2"), (200, {"id": "2", "name": "Italo Calvino"}))

    def test_what_is_not_there_is_not_found(self) -> None:
        self.assertEqual(self.ask("GET", "/books/9"), (404, None))


class ClientTest(ServerCase):
    def test_catalogue_has_every_book_with_its_author(self) -> None:
        client = Client("127.0.0.1", self.port)
        self.assertEqual(client.catalogue()[2], "Invisible Cities by Italo Calvino")
        self.assertEqual(client.requests, 4)


if __name__ == "__main__":
    unittest.main()
