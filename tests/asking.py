"""Asking a scripted model: with the real SDK, and in plain HTTP where the SDK would not send such a thing."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import Any

import anthropic
from conftest import TIMEOUT

from gitteam.scripted import Server

BASH = {"name": "bash", "input_schema": {"type": "object"}}


def client(server: Server, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0, **options)


def user(content: Any = "hello", **more: Any) -> dict[str, Any]:
    """The parameters of a request with one message."""
    return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": content}], **more}


def ask(server: Server, content: Any = "hello", **more: Any) -> anthropic.types.Message:
    with client(server) as c:
        return c.messages.create(**user(content, **more))


def streamed(server: Server, content: Any = "hello", **more: Any) -> anthropic.types.Message:
    with client(server) as c, c.messages.stream(**user(content, **more)) as stream:
        return stream.get_final_message()


def text(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


Raw = tuple[int, dict[str, str], bytes]
HEADERS = {"x-api-key": "any", "anthropic-version": "2026-10-21", "content-type": "application/json"}


def post(server: Server, body: Any, path: str = "/v1/messages", headers: dict[str, str] = HEADERS) -> Raw:
    with closing(http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=TIMEOUT)) as connection:
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
