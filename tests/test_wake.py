"""Sleeping and waking: who is woken for what, and that nobody else is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from agents import (
    Pause,
    call,
    check,
    claims,
    completes,
    crew,
    diligent,
    history,
    in_turn,
    program,
    statuses,
    team_of,
    until_asleep,
)  # fmt: skip
from conftest import TIMEOUT, until

from gitteam import Team, watch
from gitteam.agents.teammate import Teammate
from gitteam.agents.wake import Bell, Look, Sleeper, who_wakes
from gitteam.roster import read_config
from gitteam.scripted import Fault, Reply, Request, Server


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    with team_of(repo, "alice", "bob") as team:
        team.add_member("carol", "backend")
        yield team


# -- who wakes: a pure function ------------------------------------------------------------------------


def look(team: Team) -> Look:
    files, board = team.look()
    return Look(files, board, read_config(files))


def sleeper(name: str, since: float = 0, known: tuple[str, ...] = (), plan: str = "", quiet: bool = False) -> Sleeper:
    return Sleeper(name, frozenset(known), plan, quiet, since)


ALL = [sleeper("alice", 1), sleeper("bob", 2), sleeper("carol", 3)]


def test_nothing_wakes_nobody(team: Team) -> None:
    assert who_wakes(look(team), ALL, {}) == {}


def test_a_task_wakes_the_one_who_has_slept_longest(team: Team) -> None:
    team.add("One")
    assert who_wakes(look(team), ALL, {}) == {"alice": 1}
    assert who_wakes(look(team), [replace(ALL[0], since=9), *ALL[1:]], {}) == {"bob": 1}


def test_each_task_wakes_one_member(team: Team) -> None:
    for number in range(5):
        team.add(f"Task {number}")
    assert who_wakes(look(team), ALL, {}) == {"alice": 1, "bob": 2, "carol": 3}


def test_the_most_urgent_task_comes_first(team: Team) -> None:
    team.add("Some day")
    team.add("Now", priority=5)
    assert who_wakes(look(team), ALL[:1], {}) == {"alice": 2}


def test_a_task_that_is_promised_wakes_nobody_else(team: Team) -> None:
    team.add("One")
    assert who_wakes(look(team), ALL[1:], {1: "alice"}) == {}


def test_a_task_for_a_role_wakes_one_of_that_role(team: Team) -> None:
    team.add("One", role="backend")
    assert who_wakes(look(team), ALL, {}) == {"carol": 1}
    assert who_wakes(look(team), ALL[:2], {}) == {}


def test_one_of_a_role_is_not_spent_on_a_task_that_another_could_take(team: Team) -> None:
    team.add("For anybody")
    team.add("For backend", role="backend")
    assert who_wakes(look(team), [ALL[0], ALL[2]], {}) == {"alice": 1, "carol": 2}


def test_a_blocked_task_wakes_nobody(team: Team) -> None:
    team.add("One")
    team.add("Two", blocked_by=[1])
    team.claim(1, by="bob")
    assert who_wakes(look(team), [ALL[0]], {}) == {}


def test_a_task_assigned_to_somebody_wakes_only_them(team: Team, repo: Path) -> None:
    (repo / ".tasks/one.md").write_text("---\nsubject: One\nstatus: pending\nowner: bob\n---\n")
    assert who_wakes(look(team), ALL, {}) == {"bob": 1}


def test_a_message_wakes_whom_it_is_for_without_a_task(team: Team) -> None:
    team.add("One")
    team.send("bob", "hello")
    assert who_wakes(look(team), ALL, {}) == {"bob": None, "alice": 1}


def test_a_message_it_has_had_already_wakes_nobody(team: Team) -> None:
    known = team.send("bob", "hello")[0].id
    assert who_wakes(look(team), [sleeper("bob", known=(known,))], {}) == {}


def test_its_own_open_task_wakes_a_member(team: Team) -> None:
    team.add("One")
    team.claim(1, by="bob")
    assert who_wakes(look(team), ALL, {}) == {"bob": None}


def test_one_who_has_talked_too_much_wakes_only_for_the_lead_the_person_and_tasks(team: Team) -> None:
    quiet = sleeper("bob", quiet=True)
    team.send("bob", "and another thing", by="alice")
    assert who_wakes(look(team), [quiet], {}) == {}
    team.add("One")
    assert who_wakes(look(team), [quiet], {}) == {"bob": 1}
    team.send("bob", "a word")
    assert who_wakes(look(team), [quiet], {}) == {"bob": None}


def test_one_who_has_left_the_team_is_woken_to_end(team: Team) -> None:
    assert who_wakes(look(team), [sleeper("zoe")], {}) == {"zoe": None}


def test_the_lead_wakes_for_messages_and_takes_no_task(team: Team) -> None:
    team.add("One")
    assert who_wakes(look(team), [sleeper("lead")], {}) == {}
    team.send("lead", "hello")
    assert who_wakes(look(team), [sleeper("lead")], {}) == {"lead": None}


def _submit(team: Team) -> str:
    from gitteam import requests

    team.add("One")
    task = team.claim(1, by="alice")
    work = f"1/{task.claim}"
    team.change("alice", lambda c: requests.submit_plan(c, "a plan", work))
    return work


@pytest.mark.parametrize("what", ["nothing", "a decision", "a message", "another task", "its task is gone"])
def test_one_who_waits_for_approval_takes_no_task_and_wakes_for_the_rest(what: str, team: Team) -> None:
    waiting = sleeper("alice", plan=_submit(team))
    if what == "a decision":
        team.decide_plan("alice", True)
    elif what == "a message":
        team.send("alice", "hello")
    elif what == "another task":
        team.add("Two")
    elif what == "its task is gone":
        team.cancel(1)
    wakes = what in ("a decision", "a message", "its task is gone")
    assert who_wakes(look(team), [waiting], {}) == ({"alice": None} if wakes else {})


# -- one bell for all ----------------------------------------------------------------------------------


def test_one_new_task_wakes_one_of_twenty(team: Team) -> None:
    names = [f"m{number}" for number in range(20)]
    for name in names:
        team.add_member(name)
    with Server(diligent) as server, crew(team, server, *names) as running:
        until_asleep(running, *names)
        woken = count_wakings(running.crew.bell)
        before = len(history(team))
        team.add("One")
        until(lambda: statuses(team) == ["completed"], "the task done")
        until_asleep(running, *names)
        check(server)
        assert len(woken) == 1
        assert {r.member for r in server.requests} == set(woken)
        assert len(server.requests) == 2
    assert len(claims(team)[1]) == 1
    authors = {line.split()[0] for line in history(team)[before:] if "leaves" not in line}
    assert authors == set(woken)


def count_wakings(bell: Bell) -> list[str]:
    """The names of those who wake from now on."""
    woken: list[str] = []
    sleep = bell.sleep

    def counted(name: str, *args: object, **kwargs: object) -> object:
        woken.append(name)  # one that sleeps again has been awake
        return sleep(name, *args, **kwargs)  # type: ignore[arg-type]

    bell.sleep = counted  # type: ignore[method-assign, assignment]
    return woken


def test_twenty_new_tasks_wake_twenty(team: Team, repo: Path) -> None:
    names = [f"m{number}" for number in range(20)]
    for name in names:
        team.add_member(name)
    together = threading.Barrier(20, timeout=TIMEOUT)

    def answer(request: Request) -> Reply:
        if "Task #" in request.new_text:
            together.wait()  # nobody is done before all have begun
        return diligent(request)

    with Server(answer) as server, crew(team, server, *names) as running:
        until_asleep(running, *names)
        for number in range(20):
            (repo / f".tasks/{number}.tmp").write_text(f"Task {number}\n")
        for number in range(20):
            os.rename(repo / f".tasks/{number}.tmp", repo / f".tasks/task-{number}.md")
        until(lambda: statuses(team) == ["completed"] * 20, "all done")
        check(server)
    assert sorted(who[0] for who in claims(team).values()) == sorted(names)


def test_idle_members_make_no_call_and_no_commit(team: Team) -> None:
    with Server(diligent) as server, crew(team, server) as running:
        until_asleep(running, "alice", "bob", "carol")
        before = history(team)
        for _ in range(5):  # looks, one after the other, at which there is nothing to see
            seen = threading.Event()
            running.crew.bell.on_look.append(lambda look, asleep, seen=seen: seen.set())
            running.crew.bell._watch.ring()
            assert seen.wait(TIMEOUT)
        assert (server.requests, history(team)) == ([], before)


@pytest.fixture
def no_polls(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks unless there is a reason to."""
    monkeypatch.setattr(watch, "SLOW_POLL", 600.0)
    monkeypatch.setattr(watch, "FAST_POLL", 600.0)
    monkeypatch.setattr(team, "patience", lambda: 600.0)


@pytest.mark.usefixtures("no_polls")
def test_what_came_before_one_fell_asleep_wakes_it(team: Team) -> None:
    bell = Bell(team, lambda text: None)
    bell._watch._observer.stop()  # what comes now is announced by nobody
    bell._watch._observer.join()
    try:
        team.add("One")
        assert bell.sleep("alice", timeout=5) == (True, 1)
    finally:
        bell.close()


def test_sleep_ends_after_its_timeout(team: Team) -> None:
    bell = Bell(team, lambda text: None)
    try:
        assert bell.sleep("alice", timeout=0.01) == (False, None)
    finally:
        bell.close()
    assert bell.sleep("alice") == (True, None)  # it is closed: nobody sleeps any more


def test_a_task_that_the_woken_one_leaves_wakes_another(team: Team) -> None:
    bell = Bell(team, lambda text: None)
    team.add_member("dora", "backend")
    team.add("One", role="backend")
    try:
        assert bell.sleep("carol", timeout=TIMEOUT) == (True, 1)
        assert bell.sleep("dora", timeout=0.1) == (False, None)  # it is carol's for now
        assert bell.sleep("carol", timeout=0)[0] in (True, False)  # she lies down again without it
        assert bell.sleep("dora", timeout=TIMEOUT) == (True, 1)
    finally:
        bell.close()


def test_a_task_is_left_to_others_when_the_woken_one_has_something_else_to_do(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_work, distracted = Teammate._find_work, []

    def distract(mate: Teammate, meant: int | None) -> bool:
        if meant and not distracted:
            distracted.append(mate.name)
            team.send(mate.name, "first something else")
        return find_work(mate, meant)

    monkeypatch.setattr(Teammate, "_find_work", distract)
    busy = Pause(Reply("Yes?"))

    def answer(request: Request) -> Reply | Fault | None:
        return busy(request) if "something else" in request.new_text else diligent(request)

    with Server(answer) as server, crew(team, server) as running:
        until_asleep(running, "alice", "bob", "carol")
        team.add("One")
        with busy.meanwhile():
            until(lambda: statuses(team) == ["completed"], "the task done by another")
        check(server)
    assert claims(team)[1] != distracted


def test_a_message_that_comes_during_a_call_is_in_the_next_one(team: Team) -> None:
    team.add("One")
    busy = Pause(call("bash", command="true"))
    with Server(in_turn(alice=[busy, completes(1)])) as server, crew(team, server, "alice"):
        with busy.meanwhile():
            team.send("alice", "by the way")
        assert "by the way" in server.wait_for(lambda r: r.number == 2, TIMEOUT).new_text
        until(lambda: not team.inbox("alice"), "the message taken")
        check(server)


def test_a_message_that_comes_during_the_last_call_is_the_next_piece_of_work(team: Team) -> None:
    team.add("One")
    busy = Pause(Reply("Done."))
    with Server(in_turn(alice=[completes(1), busy, Reply("You are welcome.")])) as server, crew(team, server, "alice"):
        with busy.meanwhile():
            team.send("alice", "thank you")
        assert "thank you" in server.wait_for(lambda r: r.number == 3, TIMEOUT).new_text
        until(lambda: not team.inbox("alice"), "the message taken")
        check(server)


# -- without events ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def namespaces() -> None:
    words = ["unshare", "--user", "--map-root-user", "sh", "-c", "echo 0 > /proc/sys/user/max_inotify_instances"]
    try:
        done = subprocess.run(words, capture_output=True)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if done.returncode != 0:
        pytest.skip("no user namespace with inotify limits of its own can be made here")


@pytest.mark.usefixtures("namespaces")
def test_without_inotify_a_team_polls_and_says_so_once(team: Team, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"'
    words = ("--user", "--map-root-user", "sh", "-c", limited, "sh", sys.executable, "-m", "gitteam", "up")
    with Server(diligent) as server, program(repo, server, *words, start=("unshare",)) as up:
        until(lambda: "no file events" in up.out(), "word of the polling")
        (repo / ".tasks/one.md").write_text("One\n")
        until(lambda: statuses(team) == ["completed"], "the task done")
        up.process.terminate()
        found = up.end()
        check(server)
    assert (found.out + found.err).count("no file events") == 1
    assert f"looking every {watch.FAST_POLL:g} s instead" in found.out
