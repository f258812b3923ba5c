"""`gitteam chat` in a real terminal: what is typed, what the screen shows, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agents import Pause, call, check, until_status
from conftest import TIMEOUT, check_everything, gitteam, until
from leads import calls, create, led, running_goal, spawn, told
from terminal import Terminal

from gitteam import Team, liveness
from gitteam.scripted import Fault, Reply, Server

PROMPT = "›"


@contextmanager
def chatting(repo: Path, server: Server, columns: int = 100) -> Iterator[Terminal]:
    """A chat with a lead that waits for what is typed."""
    with Terminal(repo, columns) as terminal:
        words = (sys.executable, "-m", "gitteam", "chat")
        terminal.run(*words, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="test")
        terminal.until(PROMPT)
        yield terminal


def say(terminal: Terminal, text: str) -> None:
    terminal.type("-l", text)
    terminal.type("Enter")


def leave(terminal: Terminal) -> str:
    say(terminal, "/quit")
    return terminal.until("exit 0")


def last_line(terminal: Terminal) -> str:
    return terminal.screen().rstrip().splitlines()[-1]


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    Team.init(repo)
    with Team(repo) as team:
        yield team
        check_everything(team)


def test_what_is_typed_is_answered_and_the_goal_is_not_told_as_one(team: Team, repo: Path) -> None:
    with Server(led(Reply("Good morning."))) as server, chatting(repo, server) as terminal:
        say(terminal, "hello lead")
        shown = terminal.until("lead  Good morning.")
        assert f"{PROMPT} hello lead" in shown
        assert 'from="user" type="message"' in server.requests[0].new_text
        assert "The person asks" not in server.requests[0].new_text
        leave(terminal)
        check(server)
    assert team.inbox("lead") == []


def test_a_team_is_started_from_the_prompt_and_its_work_shown_above_it(team: Team, repo: Path) -> None:
    with Server(led(calls(create("One"), spawn("alice")), Reply("alice is at it."))) as server:
        with chatting(repo, server) as terminal:
            say(terminal, "let alice do one thing")
            shown = terminal.until("completes #1: One")
            assert "alice       claims #1: One" in shown
            until_status(team, "alice", "idle")
            leave(terminal)
        check(server)
    assert team.config().members["alice"].status == "shutdown"
    assert not team.is_alive("alice")
    assert not team.is_alive("lead")


def test_quitting_stops_members_in_the_middle_and_they_hand_back(team: Team, repo: Path) -> None:
    busy = Pause(Reply("I had only just begun."))
    with Server(led(calls(create("One"), spawn("alice")), alice=[busy])) as server, chatting(repo, server) as terminal:
        say(terminal, "let alice do one thing")
        with busy.meanwhile():
            say(terminal, "/quit")
            terminal.until("stopping: everybody finishes")
        terminal.until("exit 0")
    assert (team.task(1).status, team.task(1).attempts) == ("pending", 0)


def test_a_message_that_arrives_stands_above_what_is_being_typed(team: Team, repo: Path) -> None:
    team.add_member("carol", kind="external")
    with Server(led(Reply("I have read it."))) as server, chatting(repo, server) as terminal:
        terminal.type("-l", "half a sen")
        terminal.until(f"{PROMPT} half a sen")
        team.send("lead", "the build is green", by="carol")
        shown = terminal.until("lead  I have read it.")
        assert shown.index("the build is green") < shown.index("I have read it.") < shown.rindex("half a sen")
        assert last_line(terminal) == f"{PROMPT} half a sen"
        say(terminal, "tence")
        request = server.wait_for(lambda r: "half a sentence" in r.new_text, TIMEOUT)
        assert request.member == "lead"
        leave(terminal)


def test_an_answer_of_many_lines_is_shown_whole_and_in_order(team: Team, repo: Path) -> None:
    words = " ".join(f"word{n}" for n in range(40))
    with Server(led(Reply(f"First.\n\n{words}\nLast."))) as server, chatting(repo, server, columns=60) as terminal:
        say(terminal, "tell me all")
        shown = terminal.until("Last.")
        assert "lead  First.\n" in shown
        assert [word for word in shown.split() if word.startswith("word")] == words.split()
        leave(terminal)


def test_answers_around_a_tool_call_are_lines_of_their_own(team: Team, repo: Path) -> None:
    look = Reply("I look around.", calls=[("list_teammates", {})])
    with Server(led(look, Reply("Nobody is there."))) as server, chatting(repo, server) as terminal:
        say(terminal, "who is there?")
        assert "lead  I look around.\n      Nobody is there.\n" in terminal.until("Nobody is there.")
        leave(terminal)


def test_escape_enter_begins_a_new_line(team: Team, repo: Path) -> None:
    with Server(led(Reply("Two lines."))) as server, chatting(repo, server) as terminal:
        terminal.type("-l", "first line")
        terminal.type("Escape", "Enter")
        say(terminal, "second line")
        terminal.until("lead  Two lines.")
        assert "first line\nsecond line" in server.requests[0].new_text
        leave(terminal)


def test_what_was_typed_comes_back_in_the_next_chat(team: Team, repo: Path) -> None:
    with Server(led(Reply("Yes."))) as server:
        with chatting(repo, server) as terminal:
            say(terminal, "remember this")
            terminal.until("lead  Yes.")
            leave(terminal)
        with chatting(repo, server) as terminal:
            terminal.type("Up", "Up")  # the last was /quit
            terminal.until(f"{PROMPT} remember this")
            terminal.type("C-c")
            leave(terminal)


# -- Ctrl-C ---------------------------------------------------------------------------------------------------


def test_ctrl_c_stops_an_answer_and_neither_the_program_nor_what_is_typed(team: Team, repo: Path) -> None:
    slow = Pause(Reply("This is never read."))
    with Server(led(slow, Reply("Here I am."))) as server, chatting(repo, server) as terminal:
        say(terminal, "talk to me")
        with slow.meanwhile():
            terminal.type("-l", "are you")
            terminal.until(f"{PROMPT} are you")
            terminal.type("C-c")
        shown = terminal.until("stopped")
        assert "This is never read" not in shown
        assert last_line(terminal) == f"{PROMPT} are you"
        say(terminal, " there?")
        terminal.until("lead  Here I am.")
        last = server.requests[-1]
        assert "are you there?" in last.new_text
        assert "talk to me" not in last.new_text  # it is over, and not asked again
        leave(terminal)
        check(server)


def test_ctrl_c_without_an_answer_says_how_to_leave(team: Team, repo: Path) -> None:
    with Server(led()) as server, chatting(repo, server) as terminal:
        terminal.type("C-c")
        terminal.until("/quit or Ctrl-D leaves")
        terminal.type("C-d")
        terminal.until("exit 0")


def test_ctrl_c_stops_a_command_of_the_lead(team: Team, repo: Path) -> None:
    sleeps = call("bash", command="touch begun; sleep 600")
    with Server(led(sleeps, Reply("Here I am."))) as server, chatting(repo, server) as terminal:
        say(terminal, "go")
        until((repo / "begun").exists, "the command under way")
        terminal.type("C-c")
        terminal.until("stopped")
        say(terminal, "are you there?")
        terminal.until("lead  Here I am.")
        leave(terminal)
        check(server)


def test_sigterm_stops_everybody_in_order_and_ends_the_chat(team: Team, repo: Path) -> None:
    sleeps = call("bash", command="touch begun; sleep 600")
    plan = calls(create("One"), spawn("alice"))
    with Server(led(plan, alice=[sleeps])) as server, chatting(repo, server) as terminal:
        say(terminal, "let alice do one thing")
        until((repo / "begun").exists, "alice in her command")
        os.kill(int(liveness.process_of(team.place, "lead")), signal.SIGTERM)
        terminal.until("exit 0")
    assert (team.task(1).status, team.task(1).attempts) == ("pending", 0)
    assert team.config().members["alice"].status == "shutdown"


def test_a_chat_ends_when_its_minutes_are_over(team: Team, repo: Path) -> None:
    with Server(led()) as server, Terminal(repo) as terminal:
        words = (sys.executable, "-m", "gitteam", "chat", "--max-minutes", "0.03")
        terminal.run(*words, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="test")
        assert "the time that was given is over" in terminal.until("exit 1")


# -- slash commands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/team", "carol"), ("/tasks", "Paint it"), ("/inbox", "for the person"), ("/log", "adds carol to the team"),
        ("/usage", "no model has been called yet"), ("/help", "who is there and what needs you"),
        ("/nonsense", "there is no /nonsense"),
    ],
)  # fmt: skip
def test_a_slash_command_shows_something_and_changes_nothing(command: str, shown: str, team: Team, repo: Path) -> None:
    team.add_member("carol", kind="external")
    team.add("Paint it")
    team.send("user", "for the person", by="carol")
    before = told(repo)
    with Server(led()) as server, chatting(repo, server) as terminal:
        say(terminal, command)
        terminal.until(shown)
        leave(terminal)
        assert server.requests == []
    assert told(repo) == before


@pytest.mark.parametrize(
    ("line", "shown"),
    [("/tasks cancel 1", "takes nothing more"), ("/inbox --take", "takes nothing more"), ("/stop", "the name of one")],
)
def test_a_slash_command_takes_nothing_away_whatever_follows_it(line: str, shown: str, team: Team, repo: Path) -> None:
    team.add("Paint it")
    team.send("user", "for the person", by="lead")
    before = told(repo)
    with Server(led()) as server, chatting(repo, server) as terminal:
        say(terminal, line)
        terminal.until(shown)
        leave(terminal)
    assert told(repo) == before


def test_stop_asks_a_member_to_shut_down(team: Team, repo: Path) -> None:
    with Server(led(calls(spawn("alice")), Reply("alice is there."))) as server, chatting(repo, server) as terminal:
        say(terminal, "start alice")
        terminal.until("lead  alice is there.")
        until_status(team, "alice", "idle")
        say(terminal, "/stop alice")
        terminal.until("alice       leaves, asked to")
        leave(terminal)
        check(server)


def test_compact_shortens_the_conversation_before_the_next_answer_and_quietly(team: Team, repo: Path) -> None:
    answers = [Reply("Yes."), Reply("We said hello."), Reply("Still here.")]
    with Server(led(*answers)) as server, chatting(repo, server) as terminal:
        say(terminal, "hello")
        terminal.until("lead  Yes.")
        say(terminal, "/compact")
        terminal.until("shortens its conversation before its next answer")
        say(terminal, "and now?")
        assert "We said hello" not in terminal.until("lead  Still here.")
        assert len(server.requests[-1].messages) == 1
        leave(terminal)
        check(server)


# -- trouble ------------------------------------------------------------------------------------------------------


def test_a_call_that_fails_for_good_is_said_and_the_chat_goes_on(team: Team, repo: Path) -> None:
    with Server(led(Fault("401"), Reply("Now it works."))) as server, chatting(repo, server) as terminal:
        say(terminal, "hello")
        terminal.until("the API refuses the key")
        say(terminal, "again")
        terminal.until("lead  Now it works.")
        leave(terminal)


def test_chat_needs_a_terminal(team: Team, repo: Path) -> None:
    done = gitteam(repo, "chat", ANTHROPIC_API_KEY="test")
    assert (done.code, done.out) == (2, "")
    assert "chat needs a terminal" in done.err


def test_a_chat_beside_a_run_is_refused_and_names_it(repo: Path) -> None:
    busy = Pause(Reply("I plan."))
    with Server(led(busy)) as server, running_goal(repo, server, "Do it") as running, Terminal(repo) as terminal:
        with busy.meanwhile():
            words = (sys.executable, "-m", "gitteam", "chat")
            terminal.run(*words, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="test")
            assert f"(process {running.process.pid})" in terminal.until("exit 1")
        assert running.end().code == 1  # it has only talked
