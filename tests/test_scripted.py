"""The scripted model: the real SDK and raw HTTP against a real server on the loopback."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from asking import BASH, HEADERS, ask, client, post, streamed, text, user
from conftest import TIMEOUT

from gitteam.errors import BadInput
from gitteam.scripted import Fault, Reply, Request, Script, Server

PAGE = Path(__file__).parent.parent / "docs/scripted.md"

Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Servers for a script, a text in TOML or a function, closed when the test ends."""
    servers: list[Server] = []

    def start(script: Any, **options: Any) -> Server:
        servers.append(Server(Script.parse(script) if isinstance(script, str) else script, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


# -- answers --------------------------------------------------------------------------------------

TWO_CALLS = """
[[turn]]
says = "I look ☃ at both."
calls = [ { bash = { command = "echo '☃' \\"x\\"", deep = { list = [1, 2.5, true] } } }, { now = {} } ]
"""


@pytest.mark.parametrize("how", [ask, streamed])
def test_reply_has_its_text_and_calls_in_order(how: Any, serve: Serve) -> None:
    message = how(serve(TWO_CALLS))
    assert [block.type for block in message.content] == ["text", "tool_use", "tool_use"]
    assert text(message) == "I look ☃ at both."
    assert message.content[1].input == {"command": "echo '☃' \"x\"", "deep": {"list": [1, 2.5, True]}}
    assert (message.content[2].name, message.content[2].input) == ("now", {})
    assert (message.stop_reason, message.model, message.role) == ("tool_use", "m", "assistant")


@pytest.mark.parametrize("how", [ask, streamed])
def test_reply_without_calls_ends_the_turn(how: Any, serve: Serve) -> None:
    assert how(serve('[[turn]]\nsays = "hi"')).stop_reason == "end_turn"


@pytest.mark.parametrize("how", [ask, streamed])
def test_stop_reason_and_usage_can_be_given(how: Any, serve: Serve) -> None:
    message = how(serve('[[turn]]\nstop = "refusal"\nusage = { input_tokens = 190000, output_tokens = 7 }'))
    assert (message.content, message.stop_reason) == ([], "refusal")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (190000, 7)


def test_stream_has_the_events_of_the_api_in_order(serve: Serve) -> None:
    status, headers, body = post(serve(TWO_CALLS), user(stream=True))
    events = [dict(line.split(": ", 1) for line in event.split("\n")) for event in body.decode().strip().split("\n\n")]
    data = [json.loads(event["data"]) for event in events]
    assert [event["event"] for event in events] == [d["type"] for d in data]
    kinds = re.sub(r"(content_block_delta )+", "deltas ", " ".join(d["type"] for d in data) + " ").split()
    block = ["content_block_start", "deltas", "content_block_stop"]
    assert kinds == ["message_start", *block, "ping", *block, *block, "message_delta", "message_stop"]
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    begun = data[0]["message"]
    assert (begun["content"], begun["stop_reason"]) == ([], None)
    counts = {"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}
    assert set(begun["usage"]) == set(data[-2]["usage"]) == counts
    assert [d["content_block"].get("input") for d in data if d["type"] == "content_block_start"] == [None, {}, {}]
    assert sum(d.get("delta", {}).get("type") == "text_delta" for d in data) > 1
    assert sum(d.get("delta", {}).get("type") == "input_json_delta" and d["index"] == 1 for d in data) > 2


def test_ids_of_calls_never_repeat(serve: Serve) -> None:
    server = serve("[[turn]]\ncalls = [{ now = {} }, { now = {} }]\ntimes = 0")
    ids = [block.id for _ in range(10) for block in ask(server).content]
    assert len(set(ids)) == 20


def test_conversation_goes_on_with_what_the_sdk_gave_back(serve: Serve) -> None:
    server = serve(TWO_CALLS + '[[turn]]\nsees = "42 files"\nsays = "Done."')
    first = streamed(server, tools=[BASH])
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": [{"type": "text", "text": "42 files"}]}
        for block in first.content
        if block.type == "tool_use"
    ]
    history = [*user()["messages"], first.to_param(), {"role": "user", "content": results}]
    assert (text(streamed(server, messages=history, tools=[BASH])), server.rejected) == ("Done.", [])


# -- which turn answers ---------------------------------------------------------------------------


def test_first_turn_that_fits_and_is_not_used_up_answers(serve: Serve) -> None:
    server = serve("""
        [[turn]]
        sees = "never"
        says = "0"
        [[turn]]
        says = "1"
        times = 2
        [[turn]]
        says = "2"
        [[turn]]
        says = "3"
        times = 0
    """)
    assert [text(ask(server)) for _ in range(6)] == ["1", "1", "2", "3", "3", "3"]


def test_member_is_who_the_system_prompt_begins_with(serve: Serve) -> None:
    server = serve('[[turn]]\nmember = "ana"\nsays = "for ana"\ntimes = 0\n[[turn]]\nsays = "for all"\ntimes = 0')
    blocks = [{"type": "text", "text": "You are ana, the lead."}]
    prompts: list[Any] = ["You are ana, a member.", blocks, "You are anabel, a member.", "Not: You are ana,", ""]
    assert [text(ask(server, system=prompt)) for prompt in prompts] == ["for ana"] * 2 + ["for all"] * 3
    assert [r.member for r in server.requests] == ["ana", "ana", "anabel", "", ""]


def test_sees_looks_only_at_what_is_new(serve: Serve) -> None:
    server = serve('[[turn]]\nsees = "secret"\nsays = "seen"\ntimes = 0\n[[turn]]\nsays = "not seen"\ntimes = 0')
    old = [*user("secret")["messages"], {"role": "assistant", "content": "secret"}]
    assert text(ask(server, messages=[*old, *user("next")["messages"]])) == "not seen"
    assert text(ask(server, messages=[*old, *user("secret")["messages"], *user("next")["messages"]])) == "seen"
    assert server.requests[-1].new_text == "secret\nnext"


def test_named_groups_are_filled_in_and_other_braces_stay(serve: Serve) -> None:
    server = serve(r"""
        [[turn]]
        sees = 'request_id="(?P<id>\w+)"(?P<rest> .*)?'
        says = "{id}, {other}, {}, {rest}."
        calls = [ { write = { path = "{id}.py", lines = ["f'{x}' {id}", "{{id}}"], id = 1 } } ]
    """)
    message = ask(server, 'a request_id="r7"')
    assert text(message) == "r7, {other}, {}, ."
    assert message.content[1].input == {"path": "r7.py", "lines": ["f'{x}' r7", "{r7}"], "id": 1}


def test_request_without_a_turn_is_answered_and_remembered(serve: Serve) -> None:
    server = serve('[[turn]]\nsees = "x"\nsays = "y"')
    assert text(ask(server)) == "(the script has no answer to this)"
    assert [r.new_text for r in server.unmatched] == ["hello"]
    assert server._script.unused == [1]


def test_turn_answers_once_though_16_ask_at_once(serve: Serve) -> None:
    for _ in range(10):
        server = serve('[[turn]]\nsays = "only one"\n[[turn]]\nsays = "others"\ntimes = 0')
        barrier = threading.Barrier(16)

        def one(_: int, server: Server = server, barrier: threading.Barrier = barrier) -> str:
            barrier.wait(TIMEOUT)
            return json.loads(post(server, user())[2])["content"][0]["text"]

        with ThreadPoolExecutor(16) as pool:
            assert sorted(pool.map(one, range(16))) == ["only one"] + ["others"] * 15
        assert sorted(r.number for r in server.requests) == list(range(1, 17))


def test_turn_answers_once_though_another_asks_while_it_is_chosen() -> None:
    script = Script.parse('[[turn]]\nsees = "hello"\nsays = "1"\n[[turn]]\nsees = "hello"\nsays = "2"')
    answers: list[Any] = []

    class Slow(Request):
        @property
        def new_text(self) -> str:
            if not other.ident:
                other.start()
                other.join(0.1)  # it ends only where it is not made to wait
            return "hello"

    other = threading.Thread(target=lambda: answers.append(script(Request(2, user()))))
    first = script(Slow(1, user()))
    other.join(TIMEOUT)
    assert [answer.says for answer in (first, *answers) if answer] == ["1", "2"]


# -- bad scripts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("turn = [", "a.toml is no script: "),
        ("[turn]\nsays = 'x'", "a.toml is no script: turn must be given as [[turn]]"),
        ("models = 'm'", "a.toml is no script: models must be a list of strings"),
        ("title = 'x'", "a.toml is no script: there is no key 'title'"),
        ("[[turn]]\nsays = 'x'\n[[turn]]\nsay = 'x'", "a.toml, turn 2: there is no key 'say'"),
        ("[[turn]]\nsees = 'x'", "a.toml, turn 1: it answers nothing"),
        ("[[turn]]\nsays = 1", "a.toml, turn 1: says must be a string"),
        ("[[turn]]\nsays = 'x'\nmember = ['ana']", "a.toml, turn 1: member must be a string"),
        ("[[turn]]\nsays = 'x'\nsees = '('", "a.toml, turn 1: sees is no regular expression: missing ), "),
        ("[[turn]]\ncalls = { bash = {} }", "a.toml, turn 1: calls must be a list"),
        ("[[turn]]\ncalls = [{ bash = 'ls' }]", "a.toml, turn 1: calls must be a list"),
        ("[[turn]]\ncalls = [{ a = {}, b = {} }]", "a.toml, turn 1: calls must be a list"),
        ("[[turn]]\nsays = 'x'\ndelay = -1", "a.toml, turn 1: delay must be a number of seconds"),
        ("[[turn]]\nsays = 'x'\ndelay = inf", "a.toml, turn 1: delay must be a number of seconds"),
        ("[[turn]]\nsays = 'x'\ntimes = true", "a.toml, turn 1: times must be a whole number"),
        ("[[turn]]\nsays = 'x'\ntimes = 1.5", "a.toml, turn 1: times must be a whole number"),
        ("[[turn]]\nsays = 'x'\nusage = { tokens = 1 }", "a.toml, turn 1: usage must be a table"),
        ("[[turn]]\nfault = 529", "a.toml, turn 1: fault must be a string"),
        ("[[turn]]\nfault = '200'", "a.toml, turn 1: there is no fault '200': "),
        ("[[turn]]\nfault = 'cut:'", "a.toml, turn 1: there is no fault 'cut:': "),
        ("[[turn]]\nfault = 'bad-input'", "a.toml, turn 1: the fault bad-input needs calls"),
        ("[[turn]]\nfault = 'eof'\nretry_after = '1'", "a.toml, turn 1: retry_after goes with an HTTP status"),
        ("[[turn]]\nsays = 'x'\nretry_after = '1'", "a.toml, turn 1: retry_after goes with a fault"),
    ],
)
def test_bad_script_is_refused_with_file_turn_and_reason(script: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        Script.parse(script, "a.toml")
    assert str(caught.value).startswith(reason)
    assert "\n" not in str(caught.value)
    (tmp_path / "a.toml").write_text(script)
    with pytest.raises(BadInput, match=re.escape(f"{tmp_path}/a.toml")):
        Script.load(tmp_path / "a.toml")


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"# \xe9")
    for name, reason in [("missing", "No such file"), (".", "Is a directory"), ("latin", "not UTF-8")]:
        with pytest.raises(BadInput, match=reason):
            Script.load(tmp_path / name)


# -- functions as scripts -------------------------------------------------------------------------


def test_function_answers_with_what_the_request_gives(serve: Serve) -> None:
    def answer(r: Request) -> Reply | None:
        facts = (
            r.number,
            r.member,
            r.model,
            r.stream,
            r.tools,
            r.new_text,
            r.system,
            len(r.messages),
            r.body["max_tokens"],
        )
        return Reply(repr(facts)) if r.new_text == "hello" else None

    server = serve(answer)
    assert text(ask(server, tools=[BASH])) == repr((1, "", "m", False, ["bash"], "hello", "", 1, 100))
    assert text(streamed(server, system="You are bo, x")) == repr(
        (2, "bo", "m", True, [], "hello", "You are bo, x", 1, 100)
    )
    assert "no answer" in text(ask(server, "bye"))
    assert [r.number for r in server.unmatched] == [3]


def test_function_that_fails_is_a_500_and_is_remembered(serve: Serve, capfd: pytest.CaptureFixture[str]) -> None:
    server = serve(lambda request: {}["ana"])
    with pytest.raises(anthropic.InternalServerError, match="the script failed: KeyError: 'ana'"):
        ask(server)
    assert [type(e) for e in server.failures] == [KeyError]
    assert capfd.readouterr() == ("", "")


# -- the server -----------------------------------------------------------------------------------


def test_200_clients_at_once_are_all_answered(serve: Serve) -> None:
    everybody = threading.Barrier(200)

    def answer(request: Request) -> Reply:
        everybody.wait(TIMEOUT)  # so that all 200 are served at the same time
        return Reply(request.new_text)

    server = serve(answer)
    with ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(lambda n: json.loads(post(server, user(f"client {n}"))[2]), range(200)))
    assert [a["content"][0]["text"] for a in answers] == [f"client {n}" for n in range(200)]
    assert len(server.requests) == 200


def test_connection_is_kept_and_quick(serve: Serve) -> None:
    server, took = serve('[[turn]]\nsays = "hi"\ntimes = 0'), []
    with closing(http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=TIMEOUT)) as connection:
        for _ in range(20):
            began = time.perf_counter()
            connection.request("POST", "/v1/messages", json.dumps(user(stream=True)), HEADERS)
            assert connection.getresponse().read().endswith(b"}\n\n")
            took.append(time.perf_counter() - began)
            assert connection.sock is not None
    assert min(took[1:]) < 0.03  # a delayed acknowledgement would cost 40 ms every time


def test_wait_for_gives_what_came_and_what_comes(serve: Serve) -> None:
    server = serve('[[turn]]\nsays = "hi"\ntimes = 0')
    ask(server, "first")
    assert server.wait_for(lambda r: r.number == 1, 0).new_text == "first"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.wait_for, lambda r: r.new_text == "third", TIMEOUT)
        ask(server, "second")
        ask(server, "third")
        assert waiting.result(TIMEOUT).number == 3
    with pytest.raises(TimeoutError, match="no such request came in 0 s, only 3 others"):
        server.wait_for(lambda r: r.number == 4, 0)


def test_delay_is_before_the_answer(serve: Serve) -> None:
    server, began = serve('[[turn]]\nsays = "hi"\ndelay = 0.2'), time.monotonic()
    ask(server)
    assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize("turn", ['says = "hi"\ndelay = 3600', 'fault = "stall"'])
def test_close_ends_those_who_wait_at_once(turn: str, serve: Serve) -> None:
    server = serve(f"[[turn]]\n{turn}\ntimes = 0")

    def doomed(_: int) -> type[BaseException]:
        with pytest.raises((http.client.HTTPException, ConnectionError)) as caught:
            post(server, user(stream=True))
        return caught.type

    with ThreadPoolExecutor(8) as pool:
        clients = pool.map(doomed, range(8))
        server.wait_for(lambda r: r.number == 8, TIMEOUT)
        began = time.monotonic()
        server.close()
        assert time.monotonic() - began < 1
        assert len(list(clients)) == 8
    assert [t for t in threading.enumerate() if t.name == "scripted"] == []


def test_close_ends_idle_connections_and_may_come_twice(serve: Serve) -> None:
    server = serve('[[turn]]\nsays = "hi"')
    with client(server) as c:
        c.messages.create(**user())
        assert [t for t in threading.enumerate() if t.name == "scripted"]
        server.close()
        server.close()
        assert [t for t in threading.enumerate() if t.name == "scripted"] == []
        with pytest.raises(anthropic.APIConnectionError):
            c.messages.create(**user())


def test_client_that_goes_away_ends_its_thread(serve: Serve, capfd: pytest.CaptureFixture[str]) -> None:
    server = serve('[[turn]]\nfault = "stall"')
    with client(server, timeout=0.1) as c, pytest.raises(httpx2.ReadTimeout), c.messages.stream(**user()) as stream:
        stream.get_final_message()
    for thread in [t for t in threading.enumerate() if t.name == "scripted"][1:]:
        thread.join(TIMEOUT)
    assert len([t for t in threading.enumerate() if t.name == "scripted"]) == 1
    assert capfd.readouterr() == ("", "")


# -- faults ---------------------------------------------------------------------------------------

ERRORS = {
    "400": "invalid_request_error",
    "401": "authentication_error",
    "402": "billing_error",
    "403": "permission_error",
    "404": "not_found_error",
    "413": "request_too_large",
    "429": "rate_limit_error",
    "500": "api_error",
    "503": "api_error",
    "504": "timeout_error",
    "529": "overloaded_error",
}
LONG = "A sentence of some length, which will not arrive whole."


@pytest.mark.parametrize("how", [ask, streamed])
@pytest.mark.parametrize(("status", "kind"), ERRORS.items())
def test_status_comes_with_the_error_body_of_the_api(status: str, kind: str, how: Any, serve: Serve) -> None:
    server = serve(f'[[turn]]\nfault = "{status}"\nsays = "as it is"\nretry_after = "2"')
    with pytest.raises(anthropic.APIStatusError) as caught:
        how(server)
    error = caught.value
    assert (error.status_code, error.response.headers["retry-after"]) == (int(status), "2")
    assert error.body["error"] == {"type": kind, "message": "as it is"}  # type: ignore[index]
    assert error.request_id == error.body["request_id"]  # type: ignore[index]


def test_same_connection_is_used_after_an_error(serve: Serve) -> None:
    server = serve('[[turn]]\nfault = "529"\n[[turn]]\nsays = "hi"')
    with client(server) as c:
        with pytest.raises(anthropic.APIStatusError):
            c.messages.create(**user())
        before = [t for t in threading.enumerate() if t.name == "scripted"]
        assert text(c.messages.create(**user())) == "hi"
        assert [t for t in threading.enumerate() if t.name == "scripted"] == before


@pytest.mark.parametrize("size", [0, 1, 400, 10**6])
def test_cut_stream_ends_abruptly_after_so_many_bytes(size: int, serve: Serve) -> None:
    server = serve(f'[[turn]]\nfault = "cut:{size}"\nsays = "{LONG}"\ntimes = 0')
    with pytest.raises(httpx2.RemoteProtocolError):
        streamed(server)
    with pytest.raises(http.client.IncompleteRead) as caught:
        post(server, user(stream=True))
    whole = post(serve(f'[[turn]]\nsays = "{LONG}"'), user(stream=True))[2]
    assert len(caught.value.partial) == min(size, len(whole))


@pytest.mark.parametrize("fault", ["cut:50", "stall"])
def test_answer_without_streaming_is_broken_off_too(fault: str, serve: Serve) -> None:
    server = serve(f'[[turn]]\nfault = "{fault}"')
    with client(server, timeout=0.5) as c, pytest.raises(anthropic.APIConnectionError):
        c.messages.create(**user())


def test_clean_end_in_mid_message_leaves_no_stop_reason(serve: Serve) -> None:
    server = serve(f'[[turn]]\nfault = "eof"\nsays = "{LONG}"\ntimes = 0')
    message = streamed(server)
    assert message.stop_reason is None
    assert LONG.startswith(text(message))
    assert 0 < len(text(message)) < len(LONG)
    with pytest.raises(json.JSONDecodeError):
        json.loads(post(server, user())[2])


def test_stalled_stream_begins_and_then_times_out(serve: Serve) -> None:
    server, got = serve(f'[[turn]]\nfault = "stall"\nsays = "{LONG}"'), []
    with client(server, timeout=0.2) as c, c.messages.stream(**user()) as stream, pytest.raises(httpx2.ReadTimeout):
        got.extend(stream.text_stream)
    assert got
    assert LONG.startswith("".join(got))


def test_error_event_comes_after_status_200(serve: Serve) -> None:
    server = serve(f'[[turn]]\nfault = "error-event"\nsays = "{LONG}"\ntimes = 0')
    with pytest.raises(anthropic.APIStatusError, match="overloaded_error") as caught:
        streamed(server)
    assert caught.value.status_code == 200
    with pytest.raises(anthropic.APIStatusError, match="overloaded_error") as caught:
        ask(server)
    assert caught.value.status_code == 529
    body = post(server, user(stream=True))[2]
    assert body.startswith(b"event: message_start\n")
    assert b'"text_delta"' in body


def test_html_comes_with_status_200(serve: Serve) -> None:
    status, headers, body = post(serve('[[turn]]\nfault = "html"'), user(stream=True))
    assert (status, headers["content-type"], b"<html>" in body) == (200, "text/html; charset=utf-8", True)


@pytest.mark.parametrize("how", [ask, streamed])
def test_refused_request_gets_no_answer(how: Any, serve: Serve) -> None:
    server = serve('[[turn]]\nfault = "refused"\n[[turn]]\nsays = "hi"')
    with pytest.raises(anthropic.APIConnectionError, match=r"Connection error|disconnected"):
        how(server)
    assert text(how(server)) == "hi"


@pytest.mark.parametrize("put", ["", 'command = "ls -l"'])
def test_bad_input_cannot_be_parsed(put: str, serve: Serve) -> None:
    server = serve('[[turn]]\nfault = "bad-input"\ncalls = [{ bash = { INPUT } }]\ntimes = 0'.replace("INPUT", put))
    with pytest.raises(ValueError, match="Unable to parse tool parameter JSON"):
        streamed(server)
    spoiled = json.loads(post(server, user())[2])["content"][0]["input"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(spoiled)


def test_partial_input_is_taken_for_whole_by_the_sdk(serve: Serve) -> None:
    server = serve(
        '[[turn]]\nfault = "partial-input"\nstop = "max_tokens"\ncalls = [{ w = { path = "a", text = "abc" } }]'
    )
    message = streamed(server)
    assert (message.stop_reason, message.content[0].input) == ("max_tokens", {"path": "a"})


def test_fault_is_also_for_functions(serve: Serve) -> None:
    server = serve(lambda request: Fault("429", Reply("slowly", delay=0.05), retry_after="3"))
    with pytest.raises(anthropic.RateLimitError, match="slowly") as caught:
        ask(server)
    assert caught.value.response.headers["retry-after"] == "3"
    with pytest.raises(BadInput, match="there is no fault 'nonsense'"):
        Fault("nonsense")


# -- tokens ---------------------------------------------------------------------------------------


def usage(message: anthropic.types.Message) -> tuple[int, int | None, int | None]:
    return message.usage.input_tokens, message.usage.cache_read_input_tokens, message.usage.cache_creation_input_tokens


def test_tokens_are_a_quarter_of_the_bytes(serve: Serve) -> None:
    server = serve('[[turn]]\nsays = "hi"\ntimes = 0')
    short, long = usage(ask(server, "x")), usage(ask(server, "x" * 4001, system="y" * 4000))
    assert 1990 <= long[0] - short[0] <= 2010
    assert (short[1:], long[1:]) == ((0, 0), (0, 0))
    with client(server) as c:
        request = {key: value for key, value in user("x" * 4001, system="y" * 4000).items() if key != "max_tokens"}
        assert c.messages.count_tokens(**request).input_tokens == long[0]
    assert len(server.requests) == 2


@pytest.mark.parametrize("how", [ask, streamed])
def test_what_an_earlier_request_began_with_is_read_from_the_cache(how: Any, serve: Serve) -> None:
    server = serve('[[turn]]\nsays = "hi"\ntimes = 0')
    mark = {"cache_control": {"type": "ephemeral"}}
    begun = [{"role": "user", "content": [{"type": "text", "text": "q" * 4000, **mark}]}]
    # the mark moves on, and a string is the same as one block
    later = [
        {"role": "user", "content": "q" * 4000},
        {"role": "assistant", "content": "a"},
        *user("z" * 400)["messages"],
    ]
    first = usage(how(server, messages=begun, system="s"))
    assert (first[0], first[1]) == (0, 0)
    second = usage(how(server, messages=later, system="s", **mark))
    assert (second[0], second[1]) == (0, first[2])
    assert 100 <= (second[2] or 0) <= 150
    assert usage(how(server, messages=later, system="s", **mark)) == (0, (second[1] or 0) + (second[2] or 0), 0)


@pytest.mark.parametrize("change", [{"model": "other"}, {"system": "t"}, {"tools": [BASH]}, {"cache_control": None}])
def test_another_beginning_reads_nothing_from_the_cache(change: dict[str, Any], serve: Serve) -> None:
    server = serve('[[turn]]\nsays = "hi"\ntimes = 0')
    same = {"system": "s", "cache_control": {"type": "ephemeral"}}
    ask(server, **same)
    assert usage(ask(server, **same))[1]
    assert usage(ask(server, **{**same, **change}))[1] == 0


def test_what_was_refused_is_not_cached(serve: Serve) -> None:
    server = serve('[[turn]]\nfault = "529"\n[[turn]]\nsays = "hi"')
    with pytest.raises(anthropic.APIStatusError):
        ask(server, cache_control={"type": "ephemeral"})
    assert usage(ask(server, cache_control={"type": "ephemeral"}))[1] == 0


# -- the page -------------------------------------------------------------------------------------


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", examples("toml"))
def test_every_script_on_the_page_is_one(example: str) -> None:
    assert Script.parse(example).turns


@pytest.mark.parametrize("example", examples("python"))
def test_every_program_on_the_page_runs(example: str) -> None:
    exec(compile(example, str(PAGE), "exec"), {})


def test_first_script_on_the_page_plays_as_it_says(serve: Serve) -> None:
    server = serve(examples("toml")[0])
    system = "You are ana, a member."
    assert text(ask(server, "Task #3: routes", system=system)) == "I look at task 3 first."
    second = ask(server, "4: @route('/login')", system=system)
    assert [b.input for b in second.content if b.type == "tool_use"][1] == {"command": "echo ${HOME}"}
    assert [text(ask(server, "ok", system=s)) for s in (system, system, "")] == ["Done."] + ["I wait for ana."] * 2


def test_every_key_and_fault_is_on_the_page() -> None:
    from gitteam.scripted.exchange import NAMED_FAULTS
    from gitteam.scripted.script import _TURN

    page = PAGE.read_text()
    assert [key for key in _TURN if f"| `{key}` |" not in page] == []
    assert [fault for fault in NAMED_FAULTS if f'| `"{fault}"` |' not in page] == []
