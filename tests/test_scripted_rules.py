"""What the scripted model rejects, as the real API does: one request for each rule."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import anthropic
import pytest
from asking import BASH, HEADERS, ask, client, post, streamed, user
from conftest import TIMEOUT
from hypothesis import given
from hypothesis import strategies as st

from gitteam.scripted import Reply, Server, rules
from gitteam.scripted.caching import PromptCache
from gitteam.scripted.exchange import Request
from gitteam.scripted.forms import Rejected

GONE = object()
MARK = {"cache_control": {"type": "ephemeral"}}
CALL = {"type": "tool_use", "id": "t1", "name": "bash", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
TEXT = {"type": "text", "text": "x"}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(lambda request: Reply("hi")) as server:
        yield server


def without(key: str) -> dict[str, Any]:
    return {k: v for k, v in user().items() if k != key}


def talk(*contents: Any, **more: Any) -> dict[str, Any]:
    """A conversation in which user and assistant take turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": content} for at, content in enumerate(contents)]
    return {"model": "m", "max_tokens": 100, "messages": messages, "tools": [BASH], **more}


def tool(**changes: Any) -> dict[str, Any]:
    return user(tools=[{k: v for k, v in {**BASH, **changes}.items() if v is not GONE}])


REJECTED: dict[str, tuple[Any, str]] = {
    "not JSON": (b"{", "the request body is not valid JSON: "),
    "NaN": (b'{"max_tokens": NaN}', "the request body is not valid JSON: NaN is no JSON"),
    "half a surrogate pair": (b'{"model": "\\ud83d"}', "the request body is not valid JSON: "),
    "too deep": (b"[" * 200_000, "the request body is not valid JSON: "),
    "no object": (b"[]", "the request body must be an object"),
    "no model": (without("model"), "model: field required"),
    "model of wrong type": (user(model=1), "model: must be a string"),
    "empty model": (user(model=""), "model: must not be empty"),
    "no messages": (without("messages"), "messages: field required"),
    "messages of wrong type": (user(messages={}), "messages: must be a list"),
    "no max_tokens": (without("max_tokens"), "max_tokens: field required"),
    "max_tokens of wrong type": (user(max_tokens="100"), "max_tokens: must be a whole number"),
    "max_tokens true": (user(max_tokens=True), "max_tokens: must be a whole number"),
    "max_tokens 0": (user(max_tokens=0), "max_tokens: must be greater than or equal to 1"),
    "stream of wrong type": (user(stream="yes"), "stream: must be a boolean"),
    "unknown parameter": (user(colour="red"), "colour: extra inputs are not permitted"),
    "temperature": (user(temperature=1), "temperature: extra inputs are not permitted"),
    "top_p": (user(top_p=1), "top_p: extra inputs are not permitted"),
    "top_k": (user(top_k=1), "top_k: extra inputs are not permitted"),
    "empty messages": (user(messages=[]), "messages: at least one message is required"),
    "message of wrong type": (user(messages=["hello"]), "messages.0: must be an object"),
    "message without role": (user(messages=[{"content": "x"}]), "messages.0.role: field required"),
    "message without content": (user(messages=[{"role": "user"}]), "messages.0.content: field required"),
    "message with more": (user(messages=[{"role": "user", "content": "x", "id": "1"}]), "messages.0.id: extra inputs"),
    "first not user": (
        user(messages=[{"role": "assistant", "content": "x"}, {"role": "user", "content": "x"}]),
        "messages: the first message must have the role user",
    ),
    "unknown role": (user(messages=[{"role": "tool", "content": "x"}]), "messages.0.role: must be one of"),
    "prefill": (talk("x", "The answer is ("), "this model does not support assistant message prefill"),
    "empty string": (user(""), "messages.0: all messages must have non-empty content"),
    "empty list": (talk("x", [], "x"), "messages.1: all messages must have non-empty content"),
    "content of wrong type": (user(1), "messages.0.content: must be a list"),
    "white space": (user(" \n"), "messages.0.content: text must not be only white space"),
    "empty text block": (user([{"type": "text", "text": ""}]), "messages.0.content.0.text: text must not be empty"),
    "text of wrong type": (user([{"type": "text", "text": 1}]), "messages.0.content.0.text: must be a string"),
    "block of wrong type": (user(["x"]), "messages.0.content.0: must be an object"),
    "block without type": (user([{"text": "x"}]), "messages.0.content.0.type: field required"),
    "unknown block": (user([{"type": "song"}]), "messages.0.content.0.type: there is no content block 'song'"),
    "block with more": (user([{**TEXT, "parsed_output": None}]), "messages.0.content.0.parsed_output: extra inputs"),
    "thinking without signature": (
        talk("x", [{"type": "thinking", "thinking": ""}], "x"),
        "messages.1.content.0.signature: field required",
    ),
    "thinking of the user": (
        user([{"type": "thinking", "thinking": "", "signature": ""}]),
        "messages.0.content.0: thinking blocks can only be in assistant messages",
    ),
    "empty system block": (user(system=[{"type": "text", "text": ""}]), "system.0.text: text must not be empty"),
    "image as system": (user(system=[{"type": "image"}]), "system.0: must be a block of type text"),
    "system block of wrong type": (user(system=["x"]), "system.0: must be a block of type text"),
    "system of wrong type": (user(system=1), "system: must be a list"),
    "call without result": (talk("x", [CALL], "x"), "messages: tool_use without a tool_result in the next message: t1"),
    "one of two without result": (
        talk("x", [CALL, {**CALL, "id": "t2"}], [RESULT]),
        "messages: tool_use without a tool_result in the next message: t2",
    ),
    "result too late": (talk("x", [CALL], "x", "y", [RESULT]), "messages: tool_use without a tool_result"),
    "two results": (talk("x", [CALL], [RESULT, RESULT]), "messages: each tool_use must have a single result"),
    "two results in two messages": (
        talk("x", [CALL], messages=[
            {"role": "user", "content": "x"}, {"role": "assistant", "content": [CALL]},
            {"role": "user", "content": [RESULT]}, {"role": "user", "content": [RESULT]},
        ]),
        "messages: each tool_use must have a single result",
    ),
    "result without call": (talk([RESULT]), "messages: the tool_result of t1 has no tool_use in the message before"),
    "result of an older call": (
        talk("x", [CALL], [RESULT], "x", [RESULT]),
        "messages: the tool_result of t1 has no tool_use in the message before",
    ),
    "result after text": (talk("x", [CALL], [TEXT, RESULT]), "messages: tool_result blocks must come before other"),
    "result of the assistant": (talk("x", [RESULT], "x"), "messages.1.content.0: tool_result blocks can only"),
    "call of the user": (talk([CALL]), "messages.0.content.0: tool_use blocks can only be in assistant messages"),
    "id twice in a message": (talk("x", [CALL, CALL], [RESULT]), "messages: tool_use ids must be unique"),
    "id twice": (talk("x", [CALL], [RESULT], [CALL], [RESULT]), "messages: tool_use ids must be unique"),
    "odd id": (talk("x", [{**CALL, "id": "t 1"}], "x"), "messages.1.content.0.id: must match ^[a-zA-Z0-9_-]+$"),
    "id with a line end": (talk("x", [{**CALL, "id": "t1\n"}], "x"), "messages.1.content.0.id: must match"),
    "input of wrong type": (talk("x", [{**CALL, "input": "{}"}], "x"), "messages.1.content.0.input: must be an object"),
    "result of wrong type": (talk("x", [CALL], [{**RESULT, "content": 1}]), "messages.2.content.0.content: must be a"),
    "empty text in a result": (
        talk("x", [CALL], [{**RESULT, "content": [{"type": "text", "text": ""}]}]),
        "messages.2.content.0.content.0.text: text must not be empty",
    ),
    "odd block in a result": (talk("x", [CALL], [{**RESULT, "content": [CALL]}]), "messages.2.content.0.content.0: mu"),
    "error without content": (
        talk("x", [CALL], [{**RESULT, "content": "", "is_error": True}]),
        "messages.2.content.0.content: must not be empty when is_error is true",
    ),
    "calls without tools": (
        {k: v for k, v in talk("x", [CALL], [RESULT]).items() if k != "tools"},
        "tools: there must be tools when messages have tool_use",
    ),
    "tools of wrong type": (user(tools={}), "tools: must be a list"),
    "tool of wrong type": (user(tools=["bash"]), "tools.0: must be an object"),
    "tool without name": (tool(name=GONE), "tools.0.name: field required"),
    "odd tool name": (tool(name="my tool"), "tools.0.name: must match ^[a-zA-Z0-9_-]{1,128}$"),
    "long tool name": (tool(name="x" * 129), "tools.0.name: must match"),
    "tool name twice": (user(tools=[BASH, BASH]), "tools: names must be unique, and there are two bash"),
    "no schema": (tool(input_schema=GONE), "tools.0.input_schema: field required"),
    "schema of another type": (tool(input_schema={"type": "array"}), "tools.0.input_schema.type: must be 'object'"),
    "tool with more": (tool(parameters={}), "tools.0.parameters: extra inputs are not permitted"),
    "any tool": (user(tools=[BASH], tool_choice={"type": "any"}), "tool_choice: the type 'any' forces a tool"),
    "one tool": (
        user(tools=[BASH], tool_choice={"type": "tool", "name": "bash"}),
        "tool_choice: the type 'tool' forces a tool",
    ),
    "odd choice": (user(tools=[BASH], tool_choice={"type": "some"}), "tool_choice.type: must be 'auto' or 'none'"),
    "choice without tools": (user(tool_choice={"type": "auto"}), "tool_choice: may only be given together with tools"),
    "odd thinking": (user(thinking={"type": "hard"}), "thinking.type: must be"),
    "thinking beyond the limit": (
        user(thinking={"type": "enabled", "budget_tokens": 2000}),
        "thinking.budget_tokens: must be at least 1024 and less than max_tokens",
    ),
    "five marks": (
        user([{**TEXT, **MARK}, {**TEXT, **MARK}], system=[{**TEXT, **MARK}], tools=[{**BASH, **MARK}], **MARK),
        "at most 4 blocks may have cache_control, and there are 5",
    ),
    "odd mark": (user(cache_control={"type": "eternal"}), "cache_control.type: must be 'ephemeral'"),
    "odd life of a mark": (user(cache_control={"type": "ephemeral", "ttl": "1d"}), "cache_control.ttl: must be"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "reason"), REJECTED.values(), ids=REJECTED)
def test_rejected(body: Any, reason: str, server: Server) -> None:
    status, _, raw = post(server, body)
    error = json.loads(raw)
    assert (status, error["type"], error["error"]["type"]) == (400, "error", "invalid_request_error")
    assert error["error"]["message"].startswith(reason)
    assert (server.rejected, server.requests) == ([error["error"]["message"]], [])


ACCEPTED: dict[str, dict[str, Any]] = {
    "all parameters": user(
        thinking={"type": "adaptive", "display": "summarized"}, metadata={"user_id": "u"}, stop_sequences=["x"],
        output_config={"effort": "low"}, service_tier="auto", tools=[BASH], tool_choice={"type": "auto"}, stream=False,
        system="", **MARK,
    ),
    "four marks": user([{**TEXT, **MARK}], system=[{**TEXT, **MARK}], tools=[{**BASH, **MARK}], **MARK),
    "users in a row": user(messages=user()["messages"] * 3),
    "results in two messages": talk(messages=[
        {"role": "user", "content": "x"}, {"role": "assistant", "content": [CALL, {**CALL, "id": "t2"}]},
        {"role": "user", "content": [RESULT]}, {"role": "user", "content": [{**RESULT, "tool_use_id": "t2"}, TEXT]},
    ]),
    "calls in two messages": talk(messages=[
        {"role": "user", "content": "x"}, {"role": "assistant", "content": "x"},
        {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]},
    ]),
    "results, then text": talk("x", [TEXT, CALL], [RESULT, TEXT]),
    "result without content": talk("x", [CALL], [{"type": "tool_result", "tool_use_id": "t1"}]),
    "empty result": talk("x", [CALL], [{**RESULT, "content": ""}]),
    "thinking sent back": talk("x", [{"type": "thinking", "thinking": "", "signature": "s"}, CALL], [RESULT]),
    "a tool of the server": user(tools=[{"type": "bash_20250124", "name": "bash"}]),
    "an image": user([{"type": "image", "source": {"type": "url", "url": "x"}}]),
    "a word of the system in between": user(messages=[*user()["messages"], {"role": "system", "content": "x"}]),
    "nested deeply": talk("x", [{**CALL, "input": json.loads('{"a":' * 300 + "1" + "}" * 300)}], [RESULT]),
}  # fmt: skip


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(body: dict[str, Any], server: Server) -> None:
    status, _, raw = post(server, body)
    assert (status, server.rejected) == (200, []), raw


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x-api-key": ""}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": "Basic abc"}, 401),
        ({"x-api-key": "any"}, 200),
        ({"authorization": "Bearer any"}, 200),
    ],
)
def test_a_credential_is_needed(headers: dict[str, str], status: int, server: Server) -> None:
    found, _, raw = post(server, user(), headers={"anthropic-version": "2026-10-21", **headers})
    assert found == status
    assert status == 200 or json.loads(raw)["error"]["type"] == "authentication_error"


def test_the_version_header_is_needed(server: Server) -> None:
    status, _, raw = post(server, user(), headers={"x-api-key": "any"})
    assert (status, json.loads(raw)["error"]["message"]) == (400, "anthropic-version: header is required")


@pytest.mark.parametrize("how", [ask, streamed])
def test_model_that_is_not_listed_is_not_found(how: Any) -> None:
    with Server(lambda request: Reply("hi"), models=["opus"]) as server:
        how(server, model="opus")
        with pytest.raises(anthropic.NotFoundError, match="'model: sonnet'"):
            how(server, model="sonnet")


def test_models_may_be_listed_in_the_script() -> None:
    from gitteam.scripted import Script

    script = Script.parse('models = ["opus"]\n[[turn]]\nsays = "hi"')
    with Server(script) as server, pytest.raises(anthropic.NotFoundError, match="'model: m'"):
        ask(server)


def test_request_over_32_mb_is_too_large_and_the_connection_goes_on(server: Server) -> None:
    with client(server) as c:
        with pytest.raises(anthropic.APIStatusError) as caught:
            c.messages.create(**user("x" * (32 << 20)))
        assert (caught.value.status_code, caught.value.body["error"]["type"]) == (413, "request_too_large")  # type: ignore[index]
        c.messages.create(**user("x" * (31 << 20)))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/complete"),
        ("POST", "/"),
        ("GET", "/v1/messages"),
        ("GET", "/v1/models"),
        ("DELETE", "/v1/messages"),
    ],
)
def test_any_other_path_is_not_found(method: str, path: str, server: Server) -> None:
    with closing(http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=TIMEOUT)) as connection:
        connection.request(method, path, "{}", HEADERS)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]["type"]) == (404, "not_found_error")


def test_query_of_a_path_does_not_matter(server: Server) -> None:
    assert post(server, user(), "/v1/messages?beta=true")[0] == 200


def test_body_may_come_in_chunks(server: Server) -> None:
    raw = json.dumps(user("x" * 3000)).encode()
    with closing(http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=TIMEOUT)) as connection:
        for _ in range(2):
            connection.request("POST", "/v1/messages", iter([raw[:20], raw[20:]]), HEADERS)
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["type"]) == (200, "message")


@pytest.mark.parametrize(
    ("request_line", "header", "status"),
    [
        ("POST /v1/messages HTTP/1.1", "content-length: many", 400),
        ("POST /v1/messages HTTP/1.1", "content-length: -1", 400),
        ("POST /v1/messages HTTP/1.1", "transfer-encoding: chunked\r\n\r\nzz", 400),
        ("BREW /v1/messages HTTP/1.1", "content-length: 0", 501),
        ("nonsense", "content-length: 0", 400),
    ],
)
def test_what_is_no_http_gets_an_error_in_the_form_of_the_api(
    request_line: str, header: str, status: int, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), TIMEOUT) as connection:
        connection.sendall(f"{request_line}\r\n{header}\r\n\r\n".encode())
        answer = connection.makefile("rb").read()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (head.split()[:2], json.loads(body)["type"]) == ([b"HTTP/1.1", str(status).encode()], "error")
    assert capfd.readouterr() == ("", "")


def test_counting_has_the_same_rules_but_for_the_limits(server: Server) -> None:
    path = "/v1/messages/count_tokens"
    assert post(server, without("max_tokens"), path)[0] == 200
    assert post(server, user(), path)[0] == 400
    assert post(server, {**without("max_tokens"), "messages": []}, path)[0] == 400


# -- anything at all ------------------------------------------------------------------------------

KEYS = st.sampled_from(
    [
        "type",
        "role",
        "content",
        "text",
        "id",
        "name",
        "input",
        "tool_use_id",
        "cache_control",
        "is_error",
        "input_schema",
    ]
)
WORDS = st.sampled_from(
    ["", "x", "user", "assistant", "system", "text", "tool_use", "tool_result", "t1", "object", "image"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
SOUND = st.sampled_from([TEXT, CALL, RESULT])
BLOCK = SOUND | st.builds(lambda block, odd: {**block, **odd}, SOUND, st.dictionaries(KEYS, JSON, max_size=2))
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "content": st.lists(BLOCK, max_size=3) | JSON}
)
PLACES = st.sampled_from(
    ["model", "max_tokens", "system", "tools", "tool_choice", "thinking", "cache_control", "stream"]
)


@given(st.lists(MESSAGE | JSON, max_size=4), st.dictionaries(PLACES, JSON, max_size=2))
def test_whatever_is_sent_is_accepted_or_rejected(messages: list[Any], changes: dict[str, Any]) -> None:
    raw = json.dumps({"model": "m", "max_tokens": 10, "messages": messages, "tools": [BASH], **changes}).encode()
    with suppress(Rejected):
        body = rules.accepted(raw)
        request = Request(1, body)
        assert isinstance(request.new_text + request.system + request.member, str)
        assert sum(PromptCache().usage(body).values()) > 0
