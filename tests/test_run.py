"""`gitteam run`: how it ends, how it is stopped and goes on, what it asks and shows, and when the lead wakes."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import Pause, Program, call, check, completes, conversation, statuses, until_status
from conftest import TIMEOUT, check_everything, gitteam, until
from leads import (
    agreeable,
    asked_of,
    calls,
    check_team,
    create,
    lead_to_the_end,
    leading,
    led,
    run_goal,
    running_goal,
    spawn,
    told,
)  # fmt: skip
from terminal import Terminal
from test_liveness import Member

from gitteam import Team
from gitteam.agents import crew as crew_module
from gitteam.agents import goal
from gitteam.agents.conversation import Conversation
from gitteam.agents.goal import Goal
from gitteam.agents.wake import Bell
from gitteam.scripted import Fault, Reply, Request, Server

PLAN = calls(create("One"), create("Two"), spawn("alice"), spawn("bob"))


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    """A team of nobody."""
    Team.init(repo)
    with Team(repo) as team:
        yield team
        check_everything(team)


def wait_for(server: Server, member: str, text: str = "") -> Request:
    return server.wait_for(lambda r: r.member == member and text in r.new_text, TIMEOUT)


# -- how it ends ----------------------------------------------------------------------------------------


def test_exit_0_when_all_of_it_succeeded_and_the_report_says_by_whom_and_at_what_cost(repo: Path) -> None:
    with Server(led(PLAN)) as server:
        done = run_goal(repo, server, "Do both")
        check(server)
        asked = len(server.requests)
    assert done.code == 0
    report = done.out[done.out.index("\ndone\n") :]
    assert "#1  One  " in report
    assert "#2  Two  " in report
    assert f"{asked} model calls, $0." in report
    check_team(repo)


def test_a_task_that_is_left_makes_exit_1_and_is_named(repo: Path) -> None:
    with Server(led(calls(create("One"), create("Paint it", role="painter"), spawn("alice")))) as server:
        done = run_goal(repo, server, "Do both")
        reminders = [r for r in asked_of(server.requests, "lead") if "Nothing is going on any more" in r.new_text]
        check(server)
    assert done.code == 1
    assert "not all of it was done\n  #1  One  alice\n  left #2  Paint it\n" in done.out
    assert len(reminders) == 1
    assert "#2 pending" in reminders[0].new_text
    check_team(repo)


def test_a_task_that_failed_makes_exit_1_and_is_named(repo: Path) -> None:
    gives_up: list = [Reply("I cannot."), Reply("I really cannot.")] * 3
    with Server(led(calls(create("Fly"), spawn("alice")), alice=gives_up)) as server:
        done = run_goal(repo, server, "Fly")
        check(server)
        errors = [r for r in asked_of(server.requests, "lead") if 'type="error"' in r.new_text]
    assert done.code == 1
    assert "  failed #1  Fly" in done.out
    assert errors
    check_team(repo)


def test_a_run_in_which_nothing_was_done_ends_with_1(repo: Path) -> None:
    with Server(led(Reply("I cannot do this."))) as server:
        done = run_goal(repo, server, "Fly")
        check(server)
    assert done.code == 1
    assert "\nnothing was done\n  no task was completed\n" in done.out


@pytest.mark.parametrize("others", [0, 1])
def test_cancelled_tasks_are_named_and_alone_are_no_success(others: int, repo: Path) -> None:
    cancel = call("task_update", id=1, status="cancelled", note="too hard")
    more = [create("Walk"), spawn("alice")] if others else []
    with Server(led(calls(create("Fly", role="pilot"), *more), cancel)) as server:
        done = run_goal(repo, server, "--json", "Fly")
        outcome = json.loads(done.out.splitlines()[-1])
    assert ([task["id"] for task in outcome["cancelled"]], len(outcome["done"])) == ([1], others)
    assert (done.code, outcome["succeeded"]) == (1 - others, bool(others))


def test_a_key_that_is_refused_ends_it_with_the_reason(repo: Path) -> None:
    with Server(lambda request: Fault("401")) as server:
        done = run_goal(repo, server, "Do it")
    assert done.code == 1
    assert "check ANTHROPIC_API_KEY" in done.out


def test_a_turn_that_failed_is_forgotten_when_the_next_one_goes_well(team: Team) -> None:
    script = led(calls(create("One"), spawn("alice")), Fault("400", Reply("no such thing")))
    with Server(script) as server, leading(team, server, "Do it") as running:
        running.wait()
        assert any("could not go on" in text for _, text in running.said)
        assert running.lead.failure == ""
        assert statuses(team) == ["completed"]


def test_without_a_goal_and_with_nothing_interrupted_there_is_nothing_to_do(repo: Path) -> None:
    with Server(led()) as server:
        done = run_goal(repo, server)
        assert server.requests == []
    assert (done.code, done.out) == (2, "")
    assert "nothing was interrupted here" in done.err.splitlines()[-1]


def test_with_json_every_line_is_an_object_and_the_last_one_the_outcome(repo: Path) -> None:
    with Server(led(calls(create("One"), spawn("alice")))) as server:
        done = run_goal(repo, server, "--json", "Do it")
        asked = len(server.requests)
    *events, outcome = map(json.loads, done.out.splitlines())
    assert {"added", "claimed", "completed", "said"} <= {event["event"] for event in events}
    assert "outcome" not in {event["event"] for event in events}
    assert (outcome["event"], outcome["succeeded"], outcome["reason"]) == ("outcome", True, "")
    assert [task["id"] for task in outcome["done"]] == [1]
    assert (outcome["notDone"], outcome["failed"], outcome["usage"]["calls"]) == ([], [], asked)


# -- stopping and going on ----------------------------------------------------------------------------------


def _stopped_in_the_middle(repo: Path, server: Server, number: signal.Signals, busy: Pause) -> Program:
    with running_goal(repo, server, "Do both") as running:
        with busy.meanwhile():
            running.signal(number)
            until(lambda: "stopping" in running.err(), "word of it")
        running.process.wait(TIMEOUT)
    return running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "TERM"])
def test_stopped_in_the_middle_members_hand_back_and_the_exit_code_is_130(number: signal.Signals, repo: Path) -> None:
    busy = Pause(Reply("I had only just begun."))
    with Server(led(calls(create("One"), spawn("alice")), alice=[busy])) as server:
        done = _stopped_in_the_middle(repo, server, number, busy).end()
    assert done.code == 130
    assert "  left #1  One\n  it was stopped\n" in done.out
    with Team(repo) as team:
        assert (team.task(1).status, team.task(1).attempts) == ("pending", 0)
        assert team.config().members["alice"].status == "shutdown"
        check_everything(team)


def test_run_again_goes_on_with_the_same_goal_team_and_transcripts(repo: Path) -> None:
    busy = Pause(Reply("I had only just begun."))
    with Server(led(calls(create("One"), spawn("alice")), alice=[busy])) as server:
        _stopped_in_the_middle(repo, server, signal.SIGINT, busy)
        before = len(server.requests)
        done = run_goal(repo, server, "Do both")
        check(server)
        after = server.requests[before:]
    assert done.code == 0
    assert conversation(asked_of(after, "lead")[-1]).count("The person asks") == 1
    assert "Task #1: One" in conversation(asked_of(after, "alice")[0])
    assert "began it before" in asked_of(after, "alice")[0].new_text
    assert [line for line in told(repo) if line.startswith("lead adds")] == [
        "lead adds #1: One", "lead adds alice to the team, coder"
    ]  # fmt: skip
    check_team(repo)


def test_run_without_a_goal_goes_on_with_what_was_interrupted(repo: Path) -> None:
    busy = Pause(Reply("I had only just begun."))
    with Server(led(calls(create("One"), spawn("alice")), alice=[busy])) as server:
        _stopped_in_the_middle(repo, server, signal.SIGINT, busy)
        done = run_goal(repo, server)
        check(server)
    assert (done.code, "#1  One  alice" in done.out) == (0, True)
    assert gitteam(repo, "run", ANTHROPIC_API_KEY="test").code == 2  # and then it is over


def test_the_same_goal_after_it_was_reached_is_a_new_one(team: Team) -> None:
    lead_to_the_end(team, led(calls(create("One"), spawn("alice"))), "Do it")
    asked = lead_to_the_end(team, led(calls(create("Another"), spawn("alice"))), "Do it")
    assert statuses(team) == ["completed", "completed"]
    assert conversation(asked_of(asked, "lead")[0]).count("The person asks:\nDo it") == 2


@pytest.mark.parametrize("is_in_conversation", [False, True])
def test_killed_while_it_was_told_its_goal_the_lead_is_told_once(is_in_conversation: bool, team: Team) -> None:
    goal.write(team.place, Goal("Do it"))
    if is_in_conversation:
        told_before = Conversation(str(Path(team.place.transcripts, "lead.jsonl")))
        told_before.tell("The person asks:\nDo it")
        told_before.close()
    asked = lead_to_the_end(team, led(Reply("Done.")), "")
    assert len(asked) == 1
    assert conversation(asked[0]).count("The person asks:\nDo it") == 1


@pytest.mark.parametrize("words", [("run", "Another"), ("run",)], ids=" ".join)
def test_a_second_lead_is_refused_and_names_the_process_of_the_first(words: tuple[str, ...], repo: Path) -> None:
    busy = Pause(Reply("I plan."))
    with Server(led(busy)) as server, running_goal(repo, server, "Do it") as running:
        with busy.meanwhile():
            second = gitteam(repo, *words, ANTHROPIC_BASE_URL=server.url)
        assert (second.code, second.out) == (1, "")
        assert f"process {running.process.pid}" in second.err
        assert running.end().code == 1  # it has only talked


# -- asking before anybody is started ---------------------------------------------------------------------------


@pytest.fixture
def terminal(repo: Path) -> Iterator[Terminal]:
    with Terminal(repo) as terminal:
        yield terminal


def type_run(terminal: Terminal, server: Server, *words: str) -> None:
    terminal.run(sys.executable, "-m", "gitteam", "run", *words, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="t")


def test_in_a_terminal_the_plan_is_shown_and_asked_about_once(terminal: Terminal, repo: Path) -> None:
    with Server(led(PLAN)) as server:
        type_run(terminal, server, "Do both")
        shown = terminal.until("Start the team? [Y/n]")
        assert "  #1  One\n  #2  Two\n  first teammate: alice, coder" in shown
        assert "alice" not in "".join(told(repo))
        terminal.type("Enter")
        assert terminal.until("exit 0").count("Start the team?") == 1
        check(server)
    check_team(repo)


def test_no_to_the_plan_starts_nobody_and_ends_in_order(terminal: Terminal, repo: Path) -> None:
    with Server(led(PLAN, Reply("Then I do not know what to do."))) as server:
        type_run(terminal, server, "Do both")
        terminal.until("Start the team? [Y/n]")
        terminal.type("n", "Enter")
        shown = terminal.until("exit 1")
        check(server)
        assert {request.member for request in server.requests} == {"lead"}
        assert "the person does not want this team" in server.requests[1].new_text
    assert "left #1  One" in shown
    assert not [line for line in told(repo) if "joins" in line]
    check_team(repo)


def test_ctrl_c_at_the_question_ends_it_at_once(terminal: Terminal, repo: Path) -> None:
    with Server(led(PLAN)) as server:
        type_run(terminal, server, "Do both")
        terminal.until("Start the team? [Y/n]")
        terminal.type("C-c")
        terminal.until("exit 130")
    check_team(repo)


def test_with_yes_nobody_is_asked(terminal: Terminal) -> None:
    with Server(led(PLAN)) as server:
        type_run(terminal, server, "--yes", "Do both")
        assert "Start the team?" not in terminal.until("exit 0")


# -- how far it has come ------------------------------------------------------------------------------------------


def test_the_last_line_of_a_terminal_says_how_far_it_is_and_is_gone_at_the_end(terminal: Terminal) -> None:
    busy = Pause(completes(2))
    plan = calls(create("One"), create("Two", blocked_by=[1]), spawn("alice"))
    with Server(led(plan, alice=[completes(1), Reply("One is done."), busy])) as server:
        type_run(terminal, server, "--yes", "Do both")
        with busy.meanwhile():
            shown = terminal.until("1 of 2 done · alice #2")
            assert shown.rstrip().splitlines()[-1].startswith("[██████████░░░░░░░░░░] 1 of 2 done · alice #2")
            assert shown.count(" done · ") == 1
        assert " of 2 done" not in terminal.until("exit 0")


def test_in_a_pipe_there_is_no_last_line(repo: Path) -> None:
    with Server(led(PLAN)) as server:
        done = run_goal(repo, server, "Do both")
    assert "█" not in done.out
    assert "\x1b" not in done.out
    assert "\r" not in done.out


# -- disbanding -------------------------------------------------------------------------------------------------


def test_who_does_not_answer_is_ended_after_a_while(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "PATIENCE", 0.3)
    sleeps = call("bash", command="touch begun; sleep 600")
    begun = Path(team.place.root, "begun")

    def delete(request: Request) -> Reply:
        until(begun.exists, "alice in her command")
        return call("team_delete")

    asked = lead_to_the_end(team, led(calls(create("One"), spawn("alice")), delete, alice=[sleeps]), "Do it")
    assert any("Disbanded: alice. Everybody has shut down." in r.new_text for r in asked_of(asked, "lead"))
    assert team.members() == []
    assert statuses(team) == ["pending"]
    assert "alice stopped: the team is stopping" in team.task(1).notes


def test_who_has_gone_to_sleep_for_good_is_not_waited_for(team: Team) -> None:
    def delete(request: Request) -> Reply:
        until_status(team, "alice", "shutdown", "timeout")
        return call("team_delete")

    began = time.monotonic()
    asked = lead_to_the_end(team, led(calls(spawn("alice")), delete), "Do it", idle_timeout=0.05)
    assert time.monotonic() - began < crew_module.PATIENCE / 2
    assert "Disbanded: alice" in asked_of(asked, "lead")[-1].new_text
    assert team.members() == []


def test_a_namesake_finds_nothing_unread_and_has_a_conversation_of_its_own(team: Team) -> None:
    lead_to_the_end(team, led(calls(create("One"), spawn("alice", prompt="Be quick."))), "Do it")
    inbox = Path(team.place.root, ".team", "inbox", "alice.jsonl")
    assert not inbox.exists()
    asked = lead_to_the_end(team, led(calls(create("Two"), spawn("alice", prompt="Be slow."))), "Do more")
    first = asked_of(asked, "alice")[0]
    assert len(first.messages) == 1
    assert "Be quick" not in conversation(first)
    assert "Be slow" in conversation(first)


# -- when the lead wakes ------------------------------------------------------------------------------------------


def test_who_sleeps_with_something_unread_does_not_rest(team: Team) -> None:
    team.add_member("alice")
    bell, looked, go = Bell(team, print), threading.Event(), threading.Event()
    sleeper = threading.Thread(target=bell.sleep, args=("alice",))

    def hold(*_: object) -> None:
        looked.set()
        go.wait(TIMEOUT)

    try:
        sleeper.start()
        until(lambda: bell.resting() == {"alice"}, "alice resting")
        bell.on_look.append(hold)
        bell._watch.ring()
        assert looked.wait(TIMEOUT)  # from now on the bell rings for nobody
        team.send("alice", "wake up")
        assert (bell.asleep(), bell.resting()) == ({"alice"}, set())
    finally:
        go.set()
        bell.close()
        sleeper.join(TIMEOUT)


def test_between_events_the_lead_makes_no_call(team: Team) -> None:
    busy = Pause(completes(1))
    with Server(led(calls(create("One"), spawn("alice")), alice=[busy])) as server:
        with leading(team, server, "Do it") as running:
            with busy.meanwhile():
                until(lambda: "lead" in running.crew.bell.asleep(), "the lead asleep")
                before = len(server.requests)
                for number in range(5):  # it looks up at each of these, and is not concerned
                    team.change("alice", lambda c, number=number: c.story.tell("member", f"alice hums {number}"))
                    running.crew.bell._watch.ring()
                until(lambda: "lead" in running.crew.bell.asleep(), "the lead asleep")
                assert len(server.requests) == before
            running.wait()
        check(server)


@pytest.fixture
def asleep(team: Team) -> Iterator[tuple[Server, Pause]]:
    """A lead that sleeps while alice is at work."""
    busy = Pause(agreeable)
    with Server(led(calls(create("One"), spawn("alice")), alice=[busy])) as server:
        with leading(team, server, "Do it") as running:
            with busy.meanwhile():
                until(lambda: "lead" in running.crew.bell.asleep(), "the lead asleep")
                yield server, busy
            running.wait()
        check(server)


def test_the_lead_wakes_for_a_message_of_the_person(team: Team, asleep: tuple[Server, Pause]) -> None:
    team.send("lead", "how is it going?")
    assert 'from="user"' in wait_for(asleep[0], "lead", "how is it going?").new_text


def test_what_a_removed_member_did_is_not_taken_for_the_persons(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "PATIENCE", 0.3)
    begun = Path(team.place.root, "begun")

    def delete(request: Request) -> Reply:
        until(begun.exists, "alice in her command")
        return call("team_delete")

    sleeps = call("bash", command="touch begun; sleep 600")
    asked = lead_to_the_end(team, led(calls(create("One"), spawn("alice")), delete, alice=[sleeps]), "Do it")
    assert "alice stopped" in team.task(1).notes
    assert not [r for r in asked_of(asked, "lead") if "The person did this" in r.new_text]


def test_the_lead_wakes_for_an_edit_of_the_person(team: Team, asleep: tuple[Server, Pause]) -> None:
    Path(team.place.root, ".tasks", "more.md").write_text("Paint it green\n")
    told = wait_for(asleep[0], "lead", "The person did this").new_text
    assert 'The person did this: Jane Doe adds #2\n<team-output of="the diary">\nPaint it green' in told
    team.cancel(2)


def test_the_lead_wakes_for_a_result_and_for_a_plan(team: Team) -> None:
    def approve(request: Request) -> Reply:
        found = [r.id for r in team.requests()]
        return call("plan_approval", request_id=found[0], approve=True)

    script = led(
        calls(create("One"), spawn("alice", require_plan=True)), Reply("I wait."), approve, Reply("I wait."),
        alice=[call("submit_plan", plan="First this"), completes(1), Reply("One is green.")],
    )  # fmt: skip
    asked = asked_of(lead_to_the_end(team, script, "Do it"), "lead")
    assert "First this" in asked[2].new_text
    assert any('type="result"' in r.new_text and "One is green." in r.new_text for r in asked)


def test_the_lead_wakes_for_an_error(team: Team) -> None:
    script = led(calls(create("One"), spawn("alice")), alice=[Fault("400", Reply("no such thing"))])
    asked = asked_of(lead_to_the_end(team, script, "Do it"), "lead")
    assert any('type="error"' in r.new_text and "no such thing" in r.new_text for r in asked)


def test_the_lead_wakes_when_a_member_dies_elsewhere(team: Team) -> None:
    team.add_member("carol", "coder", "external")
    team.add("Two")
    team.ledger.close()
    carol = Member(team, "carol", 1)
    with Server(led(Reply("carol is at it."))) as server, leading(team, server, "Do it") as running:
        until(lambda: "lead" in running.crew.bell.asleep(), "the lead asleep")
        carol.kill()
        request = wait_for(server, "lead", "carol died while working on #1")
        assert 'from="gitteam" type="error"' in request.new_text
        running.wait()
        check(server)


def test_the_lead_wakes_when_a_background_command_has_ended(team: Team) -> None:
    begin = call("background_run", command="until test -e go; do sleep 0.05; done; echo built")

    def go(request: Request) -> Reply:
        threading.Timer(0.3, Path(team.place.root, "go").touch).start()
        return Reply("I wait for it.")

    asked = lead_to_the_end(team, led(begin, go, call("background_output", id="b1"), Reply("It is built.")), "Build it")
    assert "b1 ended with exit code 0" in asked[2].new_text
    assert "built" in asked[3].new_text
