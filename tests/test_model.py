"""The door to the model: every failure of the service ends in one of a few kinds, with one clear line."""

from __future__ import annotations

import email.utils
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents import call, check, completes, crew, diligent, in_turn, lead_mail, program, team_of
from asking import post, user
from conftest import TIMEOUT, git, until

from gitteam import Team, prices, usage
from gitteam.agents.account import Account, Limits
from gitteam.agents.credentials import Secrets, without_userinfo
from gitteam.agents.gate import Gate, Stopped
from gitteam.agents.model import Ask, Garbled, Hopeless, Model, Rejected, Reply, TooLong
from gitteam.errors import BadInput, GitteamError
from gitteam.layout import Layout
from gitteam.scripted import Fault, Request, Server
from gitteam.scripted import Reply as Says

BASH = {"name": "bash", "input_schema": {"type": "object"}}
ASK = Ask("m", "You are ana,", [BASH], [{"role": "user", "content": [{"type": "text", "text": "hello"}]}], 100)
WORDS = Says("I look.", [("bash", {"command": "echo 1 > done"})])
OUTAGES = ["429", "529", "500", "503", "504", "408", "409", "refused", "eof", "error-event", "html", "stall", "cut:300"]


class Asking:
    """A model door to a server, and what it says while it waits."""

    def __init__(self, script: Callable[[Request], Any], stall_timeout: float = 30, give_up_after: float = 20):
        self.server = Server(script)
        self.model = Model({"ANTHROPIC_API_KEY": "any"}, self.server.url, stall_timeout, give_up_after)
        self.said: list[str] = []

    def __call__(self) -> Reply:
        return self.model.ask(ASK, self.said.append)

    def close(self) -> None:
        self.model.close()
        self.server.close()


Door = Callable[..., Asking]


@pytest.fixture
def door() -> Iterator[Door]:
    opened: list[Asking] = []

    def start(script: Any, **options: Any) -> Asking:
        script = script if callable(script) else in_order(*script) if isinstance(script, list) else in_order(script)
        opened.append(Asking(script, **options))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def in_order(*answers: Any) -> Callable[[Request], Any]:
    """These answers, the last of them for ever."""
    left = list(answers)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


# -- what helps to wait for -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", OUTAGES)
def test_an_outage_is_waited_for_and_said_once(kind: str, door: Door) -> None:
    ask = door([Fault(kind, WORDS), WORDS], stall_timeout=0.2)
    assert [call["input"] for call in ask().calls] == [{"command": "echo 1 > done"}]
    assert len(ask.server.requests) == 2
    assert len(ask.said) == 1
    assert ": trying again in " in ask.said[0]
    assert "\n" not in ask.said[0]


@pytest.mark.parametrize("kind", OUTAGES)
def test_an_outage_that_does_not_end_is_given_up_with_one_line(kind: str, door: Door) -> None:
    ask = door(Fault(kind, WORDS), stall_timeout=0.2, give_up_after=0)
    with pytest.raises(Hopeless, match=r"^[^\n]+; gave up after \d s$"):
        ask()
    assert (len(ask.server.requests), ask.said) == (1, [])


def test_a_connection_that_is_refused_is_waited_for(door: Door) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        model = Model({"ANTHROPIC_API_KEY": "any"}, f"http://127.0.0.1:{unused.getsockname()[1]}", 30, 0)
        with pytest.raises(Hopeless, match=r"cannot reach the API \(.*refused\)"):
            model.ask(ASK, print)
        model.close()


def test_the_wanted_pause_is_kept(door: Door) -> None:
    times: list[float] = []

    def script(request: Request) -> Any:
        times.append(time.monotonic())
        return Fault("429", retry_after="0.3") if len(times) == 1 else WORDS

    ask = door(script)
    ask()
    assert 0.3 <= times[1] - times[0] < 5
    assert ask.said == [f"the API answers 429, Rate limit error: trying again in {float(ask.said[0][-5:-2])} s"]


@pytest.mark.parametrize(
    "wanted", ["90", "86400", email.utils.formatdate(time.time() + 7200, usegmt=True)], ids=["90", "86400", "a date"]
)
def test_a_pause_longer_than_one_can_wait_is_given_up_at_once(wanted: str, door: Door) -> None:
    ask, began = door(Fault("429", retry_after=wanted), give_up_after=60), time.monotonic()
    with pytest.raises(Hopeless, match=r"gave up after \d s, it asks to wait \d+ min more$"):
        ask()
    assert time.monotonic() - began < 10
    assert ask.said == []


@pytest.mark.parametrize(
    "wanted",
    [
        "garbage",
        "-5",
        "nan",
        "1e400",
        "99999999999",
        "Mon, 01 Jan 0001 00:00:00 +2359",
        "Mon, 18 Nov 2019 00:00:00 GMT",
    ],
)
def test_a_pause_that_makes_no_sense_is_one_of_our_own(wanted: str, door: Door) -> None:
    ask = door([Fault("429", retry_after=wanted), WORDS])
    assert ask().stop_reason == "tool_use"
    assert 0.5 <= float(ask.said[0][-5:-2]) <= 1


def test_others_learn_at_once_that_the_gate_stays_closed_too_long(door: Door) -> None:
    both = threading.Barrier(2)

    def script(request: Request) -> Any:
        both.wait(TIMEOUT)
        return Fault("429", retry_after="86400")

    ask = door(script, give_up_after=900)
    with ThreadPoolExecutor(4) as pool:
        errors = [each.exception(TIMEOUT) for each in [pool.submit(ask) for _ in range(2)]]
        errors += [pool.submit(ask).exception(TIMEOUT) for _ in range(2)]
    assert [type(e) for e in errors] == [Hopeless] * 4
    assert len(ask.server.requests) == 2


def test_stopping_ends_a_wait_at_once(door: Door) -> None:
    ask = door(Fault("429", retry_after="600"), give_up_after=900)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(ask)
        until(lambda: ask.said, "the wait")
        ask.model.gate.stop()
        assert isinstance(result.exception(TIMEOUT), Stopped)


# -- what does not help to wait for ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "says", "line"),
    [
        ("401", "invalid x-api-key", "the API refuses the key (invalid x-api-key): check ANTHROPIC_API_KEY"),
        ("403", "not allowed", "the API refuses the key (not allowed): check ANTHROPIC_API_KEY"),
        ("402", "pay first", "the API's spend limit is reached (pay first)"),
        ("400", "Your credit balance is too low", "the API's spend limit is reached (Your credit balance is too low)"),
        ("404", "model: m", "the API knows no model 'm': set another with `model` in .team/config.json"),
    ],
)
def test_what_a_person_has_to_see_to_is_one_clear_line(status: str, says: str, line: str, door: Door) -> None:
    ask = door(Fault(status, Says(says)))
    with pytest.raises(Hopeless) as error:
        ask()
    assert str(error.value) == line
    assert (len(ask.server.requests), ask.said) == (1, [])


@pytest.mark.parametrize(("status", "says"), [("413", ""), ("400", "prompt is too long: 210000 tokens > 200000")])
def test_a_conversation_that_does_not_fit_is_told_apart(status: str, says: str, door: Door) -> None:
    ask = door(Fault(status, Says(says)))
    with pytest.raises(TooLong):
        ask()
    assert len(ask.server.requests) == 1


def test_a_request_that_is_not_taken_is_not_sent_again(door: Door) -> None:
    ask = door(Fault("400", Says("messages: what\nis this \x1b[31m?")))
    with pytest.raises(Rejected, match=r"^the API does not take the request \(messages: what is this \\x1b\[31m\?\)$"):
        ask()
    assert len(ask.server.requests) == 1


def test_an_address_that_is_no_api_is_said(door: Door) -> None:
    ask = door(WORDS)
    model = Model({"ANTHROPIC_API_KEY": "any"}, f"{ask.server.url}/nowhere", 30)
    with pytest.raises(Hopeless, match=r"knows no model|no Messages API"):
        model.ask(ASK, print)
    model.close()


@pytest.mark.parametrize(
    ("keys", "url", "line"),
    [
        ({}, None, "no API key: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL"),
        ({"ANTHROPIC_API_KEY": " \n"}, None, "no API key: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL"),
        ({"ANTHROPIC_API_KEY": "sk-ü"}, None, "ANTHROPIC_API_KEY is no key"),
        ({"ANTHROPIC_AUTH_TOKEN": "a\x00b"}, None, "ANTHROPIC_AUTH_TOKEN is no key"),
        ({}, "localhost:80", "ANTHROPIC_BASE_URL is no address"),
        ({}, "http://[::1", "ANTHROPIC_BASE_URL is no address"),
    ],
)
def test_a_bad_key_or_address_is_said_before_anything_is_sent(keys: dict[str, str], url: str | None, line: str) -> None:
    with pytest.raises(BadInput) as error:
        Model(keys, url, 30)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_a_server_of_ones_own_needs_no_key(door: Door) -> None:
    server = door(WORDS).server
    model = Model({}, server.url, 30)
    assert model.ask(ASK, print).text == "I look."
    model.close()


# -- what stays secret ------------------------------------------------------------------------------

KEY, TOKEN = "sk-SECRET-123", "bearer-SECRET-456"


@pytest.mark.parametrize("status", ["400", "401", "402", "413", "429", "500"])
@pytest.mark.parametrize("secret", [KEY, TOKEN])
def test_no_reason_has_a_key_in_it(status: str, secret: str, door: Door) -> None:
    server = door(Fault(status, Says(f"bad\\n{secret}, and {'so ' * 54}Bearer {secret}"))).server
    model = Model({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_AUTH_TOKEN": TOKEN}, server.url, 30, 0)
    with pytest.raises((GitteamError, Rejected, TooLong)) as error:
        model.ask(ASK, print)
    model.close()
    assert "[secret], and so" in str(error.value)
    assert not re.search("SEC|bear", str(error.value))


@pytest.mark.parametrize("quoted", ["user:p%2Fss", "p%2Fss", "p/ss", "Basic dXNlcjpwL3Nz"])
def test_what_an_address_says_about_who_asks_is_hidden_in_all_its_forms(quoted: str) -> None:
    secrets = Secrets([None, KEY], "http://user:p%2Fss@localhost:80/v1")
    assert not re.search("p.*ss|dXN", secrets.hide(f"cannot take {quoted}: no"))
    assert secrets.hide("the user has no pass") == "the user has no pass"


def test_a_secret_that_begins_like_another_one_is_hidden_whole() -> None:
    assert Secrets([KEY, f"{KEY}-and-more"], None).hide(f"no {KEY}-and-more") == "no [secret]"


def test_a_word_that_stands_in_for_a_key_is_hidden_only_where_it_stands_alone(door: Door) -> None:
    server = door(Fault("401", Says("no key like x, examine it"))).server
    model = Model({"ANTHROPIC_API_KEY": "x"}, server.url, 30)
    with pytest.raises(Hopeless, match=r"\(no key like \[secret\], examine it\)"):
        model.ask(ASK, print)
    model.close()


def test_an_address_is_shown_without_who_asks(door: Door) -> None:
    url = door(WORDS).server.url
    model = Model({}, url.replace("//", "//me:hunter2@") + "/nowhere", 30)
    with pytest.raises(Hopeless) as error:
        model.ask(ASK, print)
    model.close()
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("wrong", ["http://me:hunter2@[::1", "me:hunter2@localhost:80", "ftp://me:hun@ter2@host"])
def test_a_mistyped_address_is_shown_without_who_asks(wrong: str) -> None:
    with pytest.raises(BadInput, match="ANTHROPIC_BASE_URL is no address") as error:
        Model({}, wrong, 30)
    assert not re.search("me:|hun|ter2", str(error.value))


def test_an_address_to_be_shown_stays_an_address() -> None:
    assert without_userinfo("http://me:p@ss@host:80/v1") == "http://host:80/v1"
    assert without_userinfo("http://host/v1") == "http://host/v1"


def test_of_a_key_and_a_token_the_key_is_used(door: Door) -> None:
    model = Model({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_AUTH_TOKEN": TOKEN}, door(WORDS).server.url, 30)
    assert model.ask(ASK, print).text == "I look."
    model.close()


def test_a_key_that_a_proxy_quotes_is_not_in_the_history(repo: Path) -> None:
    refused = Fault("401", Says(f"Invalid proxy server token passed: {KEY}"))
    with team_of(repo, "alice") as team:
        team.add("One")
        with Server(lambda request: refused) as server, program(repo, server, "up", ANTHROPIC_API_KEY=KEY) as up:
            ended = up.end()
    assert "token passed: [secret]" in ended.err
    assert KEY not in ended.err + ended.out + git(repo, "log", "-p", "gitteam")


# -- what is paid for -------------------------------------------------------------------------------


def paid(door: Door, place: Layout, *answers: Any, on_text: Callable[[str], None] | None = None) -> Any:
    """Ask with an account; what came of it, and the figures of all calls that are in the log then."""
    ask = door(list(answers), stall_timeout=0.3)
    ask.model.account = Account(place, prices.load({}), Limits())
    try:
        found: Any = ask.model.ask(replace(ASK, member="ana", on_text=on_text), ask.said.append).text
    except (Rejected, ZeroDivisionError) as e:
        found = type(e)
    return found, [(call.prompt, call.output) for call in usage.read(place)]


COUNTED = Says("I look.", [("bash", {"command": "ls"})], usage={"input_tokens": 70, "output_tokens": 30})


@pytest.mark.parametrize("kind", ["cut:900", "stall", "error-event", "eof"])
def test_an_answer_that_broke_off_counts_as_far_as_it_is_known(kind: str, team: Team, door: Door) -> None:
    found, calls = paid(door, team.place, Fault(kind, COUNTED), COUNTED)
    prompt, output = calls[0]
    assert (found, calls[1][1], len(calls)) == ("I look.", 30, 2)
    assert (prompt > 0, output < 30) == (True, True)


def test_every_answer_that_cannot_be_read_counts(team: Team, door: Door) -> None:
    found, calls = paid(door, team.place, Fault("partial-input", COUNTED))
    assert (found, len(calls), calls[0][1]) == (Garbled, 3, 30)


def test_an_answer_that_somebody_stopped_counts(team: Team, door: Door) -> None:
    found, calls = paid(door, team.place, COUNTED, on_text=lambda text: print(1 / 0))
    assert (found, len(calls), calls[0][0] > 0) == (ZeroDivisionError, 1, True)


@pytest.mark.parametrize("kind", ["429", "500", "refused", "html"])
def test_what_never_began_to_answer_costs_nothing(kind: str, team: Team, door: Door) -> None:
    found, calls = paid(door, team.place, Fault(kind, COUNTED), COUNTED)
    assert (found, len(calls)) == ("I look.", 1)


# -- answers that are not whole -------------------------------------------------------------------


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.long)])
def test_an_answer_cut_at_any_byte_is_never_taken(step: int, door: Door) -> None:
    size = len(post(door(WORDS).server, user(stream=True))[2])
    cuts, lines = list(range(0, size, step)), set()
    ask = door([Fault(f"cut:{cut}", WORDS) for cut in cuts], give_up_after=0)
    for _ in cuts:
        ask.model.gate = Gate()  # as if the outage before had never been
        with pytest.raises(Hopeless) as error:
            ask()
        lines.add(str(error.value).partition(";")[0])
    assert (len(ask.server.requests), size > 1000) == (len(cuts), True)
    assert lines == {"the answer broke off (RemoteProtocolError)"}


@pytest.mark.parametrize("kind", ["bad-input", "partial-input"])
def test_a_call_with_an_input_that_is_not_whole_is_not_taken(kind: str, door: Door) -> None:
    ask = door([Fault(kind, WORDS), WORDS])
    assert [c["input"] for c in ask().calls] == [{"command": "echo 1 > done"}]
    ask = door(Fault(kind, WORDS))
    with pytest.raises(Rejected, match=r"^the answer cannot be read \([^\n]+\)$"):
        ask()
    assert len(ask.server.requests) == 3


def test_a_reply_has_its_blocks_reason_and_size(door: Door) -> None:
    usage = {
        "input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 5,
    }  # fmt: skip
    reply = door(Says("Hm.", [("bash", {"command": "ls"}), ("bash", {})], usage=usage))()
    assert (reply.text, [c["input"] for c in reply.calls]) == ("Hm.", [{"command": "ls"}, {}])
    assert (reply.stop_reason, reply.size) == ("tool_use", 218)


# -- a member in the midst of it ------------------------------------------------------------------


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    with team_of(repo, "alice") as team:
        team.add("One")
        yield team


RUNS = ("tool_use", "end_turn")


@pytest.mark.parametrize(
    "reason",
    [*RUNS, "max_tokens", "stop_sequence", "pause_turn", "refusal", "model_context_window_exceeded", "something_new"],
)
def test_only_the_calls_of_a_finished_reply_are_run(reason: str, team: Team, repo: Path) -> None:
    script = in_turn(alice=[Says("I begin.", WORDS.calls, stop=reason), Says("Summary."), completes(1)])
    with Server(script) as server, crew(team, server, until_done=True) as running:
        running.wait()
        check(server)
    assert (repo / "done").exists() == (reason in RUNS)
    assert "crashed" not in str(running.said)
    assert team.task(1).status == "completed"


def test_a_reply_that_is_cut_off_is_gone_on_with(team: Team) -> None:
    script = in_turn(alice=[Says("I begin", stop="max_tokens"), completes(1)])
    with Server(script) as server, crew(team, server, until_done=True) as running:
        running.wait()
        check(server)
    assert "Your reply was cut off." in server.requests[1].new_text


@pytest.mark.parametrize("kind", ["cut:900", "stall", "eof", "error-event", "partial-input"])
def test_no_tool_of_an_unfinished_message_runs(kind: str, team: Team, repo: Path) -> None:
    twice = Says("I look.", [("bash", {"command": "echo 1 >> done"}), ("bash", {"command": "echo 2 >> done"})])
    script = in_turn(alice=[Fault(kind, twice), twice, completes(1)])
    with Server(script) as server, crew(team, server, until_done=True, stall_timeout=0.3) as running:
        running.wait()
        check(server)
    assert (repo / "done").read_text() == "1\n2\n"
    assert (team.task(1).status, team.task(1).attempts) == ("completed", 0)


@pytest.mark.parametrize("fault", [Fault("503"), Fault("429", retry_after="3600"), Fault("401"), Fault("402")])
def test_an_outage_releases_the_task_without_an_attempt_and_says_so(fault: Fault, team: Team, repo: Path) -> None:
    with Server(lambda request: fault) as server, crew(team, server, until_done=True, give_up_after=0.1) as running:
        running.wait()
    task = team.task(1)
    assert (task.status, task.owner, task.attempts) == ("pending", "", 0)
    reason = running.crew.failures["alice"]
    assert task.notes.endswith(f"alice: alice stopped: {reason}")
    assert [m.content for m in lead_mail(team, "error")] == [f"alice ends: {reason}"]
    last = git(repo, "log", "-1", "--format=%B", "gitteam")
    assert last.startswith("alice releases #1: One\n")
    assert f"alice fails, {reason}" in last
    assert (team.config().members["alice"].status, team.config().members["alice"].reason) == ("failed", reason)


def test_after_an_outage_the_member_goes_on_where_it_was(team: Team) -> None:
    with Server(in_turn(alice=[call("bash", command="true"), Fault("401")])) as server:
        with crew(team, server, until_done=True) as running:
            running.wait()
        with crew(team, server, until_done=True) as running:
            running.wait()
        check(server)
    assert (team.task(1).status, team.task(1).claim) == ("completed", 2)


def test_a_request_the_service_never_takes_is_an_attempt_and_no_loop(team: Team) -> None:
    with Server(lambda request: Fault("400", Says("no"))) as server, crew(team, server, until_done=True) as running:
        running.wait()
    assert (team.task(1).status, team.task(1).attempts) == ("failed", 3)
    assert len(server.requests) == 3


# -- sixteen of them ------------------------------------------------------------------------------


def test_sixteen_members_do_not_stampede(repo: Path) -> None:
    """All sixteen run into a 429; while the gate is closed nobody calls, then one does, then two, then four."""
    names = [f"m{n:02}" for n in range(16)]
    times: list[float] = []
    mutex, first = threading.Lock(), threading.Barrier(16)

    def script(request: Request) -> Any:
        with mutex:
            times.append(time.monotonic())
            number = len(times)
        if number <= 16:
            first.wait(TIMEOUT)
            return Fault("429", retry_after="1")
        if number <= 18:
            return Fault("429", retry_after="0.5")
        return diligent(request)

    with team_of(repo, *names) as team:
        for name in names:
            team.add(f"For {name}")
        with Server(script) as server, crew(team, server, until_done=True) as running:
            running.wait()
            check(server)
        assert {task.status for task in team.tasks()} == {"completed"}
    burst = times[:16]
    assert times[16] - max(burst) >= 0.9, "somebody called while the gate was closed"
    assert times[17] - times[16] >= 0.5, "there was more than one probe"
    assert times[18] - times[17] >= 0.5, "there was more than one probe"


# -- the command ----------------------------------------------------------------------------------


def test_a_refused_key_is_one_line_and_exit_1(team: Team, repo: Path) -> None:
    refused = Fault("401", Says("invalid x-api-key"))
    with Server(lambda request: refused) as server, program(repo, server, "up") as up:
        ended = up.end()
    lines = [line for line in ended.err.splitlines() if line.startswith("gitteam: ")]
    assert lines == ["gitteam: alice: the API refuses the key (invalid x-api-key): check ANTHROPIC_API_KEY"]
    assert ended.code == 1


def test_no_key_is_one_line(team: Team, repo: Path) -> None:
    with Server(diligent) as server, program(repo, server, "up", ANTHROPIC_BASE_URL="", ANTHROPIC_API_KEY="") as up:
        ended = up.end()
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)
    assert "no API key: set ANTHROPIC_API_KEY" in ended.err
