"""Budgets at work: many members, one account, and what is said and done when it is empty."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents import call, check, completes, crew, diligent, handed, lead_mail, program, statuses, team_of, until_asleep
from conftest import Result, check_everything, git, gitteam, until
from leads import calls, create, led, run_goal, spawn

from gitteam import Team, prices
from gitteam.agents.account import Account, Limits, Spent
from gitteam.layout import Layout
from gitteam.scripted import Fault, Reply, Request, Server
from gitteam.scripted.caching import prompt_size, tokens

MANY = 16


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    with team_of(repo) as team:
        yield team


def up(repo: Path, server: Server, *words: str) -> Result:
    with program(repo, server, "up", "--until-done", *words) as running:
        return running.end()


def settings(team: Team, **values: Any) -> None:
    path = Path(team.place.root, ".team", "config.json")
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, "settings": {**known["settings"], **values}}))
    team.config()


def busy(request: Request) -> Reply:
    """Never done, and never twice the same."""
    return call("bash", command=f"echo {request.number}")


# -- the team's -------------------------------------------------------------------------------------------


def test_sixteen_members_with_a_cap_of_ten_calls_make_ten(team: Team, repo: Path) -> None:
    for number in range(MANY):
        team.add_member(f"m{number}")
        team.add(f"Task {number}")
    with Server(busy) as server:
        done = up(repo, server, "--max-turns", "10")
        assert len(server.requests) == 10
    assert done.code == 1
    assert "the team may make 10 model calls and has made 10: allow more to go on" in done.err
    assert statuses(team) == ["pending"] * MANY
    assert {task.attempts for task in team.tasks()} == {0}
    assert "the team may make 10 model calls" in team.task(1).notes
    assert len(lead_mail(team, "error")) == MANY


def test_answers_that_cannot_be_read_count_towards_the_cap(team: Team, repo: Path) -> None:
    team.add_member("alice")
    team.add("One")

    def mumbling(request: Request) -> Reply | Fault:
        return Fault("partial-input", busy(request)) if request.number % 3 else busy(request)

    with Server(mumbling) as server:
        up(repo, server, "--max-turns", "5")
        assert len(server.requests) == 5
    assert gitteam(repo, "usage", "--json").json["rows"][0]["calls"] == 5


def test_a_run_that_has_spent_its_calls_hands_back_says_so_and_ends_with_1(repo: Path) -> None:
    plan = calls(*(create(f"Task {n}") for n in range(4)), *(spawn(f"m{n}") for n in range(4)))
    with Server(led(plan, **{f"m{n}": [busy] * 50 for n in range(4)})) as server:
        done = run_goal(repo, server, "--max-turns", "10", "Do all of it")
        assert len(server.requests) <= 11
    assert done.code == 1
    assert "not all of it was done" in done.out
    assert "  the team may make 10 model calls and has made 10: allow more to go on\n" in done.out
    with Team(repo) as team:
        assert {task.status for task in team.tasks()} == {"pending"}
        check_everything(team)


def test_a_run_that_may_not_spend_what_a_call_could_cost_makes_none(repo: Path) -> None:
    with Server(led()) as server:
        done = run_goal(repo, server, "--max-cost", "0.001", "Do it")
        assert server.requests == []
    assert (done.code, "the team may spend $0.001: $0.0000 is spent" in done.out) == (1, True)


def test_a_run_stays_below_its_cost(repo: Path) -> None:
    def dear(request: Request) -> Reply:
        return replace(busy(request), usage={"input_tokens": 20_000})

    with Server(led(calls(create("One"), spawn("alice")), alice=[dear] * 50)) as server:
        done = run_goal(repo, server, "--json", "--max-cost", "0.5", "Do it")
    outcome = json.loads(done.out.splitlines()[-1])
    assert done.code == 1
    assert "the team may spend $0.5" in outcome["reason"]
    assert 0.1 < outcome["usage"]["cost"] <= 0.5


def test_a_run_whose_time_is_over_makes_no_further_call(repo: Path) -> None:
    plan = Reply(calls=[create("One"), spawn("alice")], delay=0.7)
    with Server(led(plan)) as server:
        done = run_goal(repo, server, "--max-minutes", "0.01", "Do it")
        assert len(server.requests) == 1
    assert done.code == 1
    assert "the team may work 0.01 minutes, which are over after 1 calls" in done.out


def test_a_budget_is_taken_up_anew_by_the_next_run(repo: Path) -> None:
    with Server(led(calls(create("One"), spawn("alice")))) as server:
        assert run_goal(repo, server, "--max-turns", "1", "Do it").code == 1
        done = run_goal(repo, server, "--max-turns", "20", "Do it")
        check(server)
    assert (done.code, "#1  One  alice" in done.out) == (0, True)


class Noting(Account):
    """An account that remembers how large it was told each prompt is."""

    def __init__(self, place: Layout):
        super().__init__(place, prices.load({}), Limits())
        self.told: list[int] = []

    @contextmanager
    def call(self, member: str, task: int, model: str, prompt_tokens: int, max_tokens: int) -> Iterator[Spent]:
        self.told.append(prompt_tokens)
        with super().call(member, task, model, prompt_tokens, max_tokens) as spent:
            yield spent


def test_what_is_reserved_is_never_less_than_the_request(team: Team) -> None:
    team.add_member("alice")
    book = Noting(team.place)

    def script(request: Request) -> Reply:
        if "about to be shortened" in request.new_text:
            return Reply("In short.")
        if request.number == 4:
            team.send("alice", "z" * 300_000, by="user")
        if request.number == 6:
            return replace(busy(request), usage={"input_tokens": 190_000})
        return (
            call("bash", command=f"seq {request.number}000 | tail -n 5000")
            if request.number < 10
            else diligent(request)
        )

    with Server(script) as server, crew(team, server, "alice") as running:
        until_asleep(running, "alice")
        running._model.account = book
        team.add("Large", "y" * 200_000)
        until(lambda: len(server.requests) >= 10, "ten requests")
        until_asleep(running, "alice")
        sizes = [tokens(prompt_size(request.body)) for request in server.requests]
    assert any("In short." in request.new_text for request in server.requests), "nothing was shortened"
    assert [(told, size) for told, size in zip(book.told, sizes, strict=True) if told < size] == []
    assert book.told[0] < 1.5 * sizes[0]


def test_what_is_reserved_for_a_small_request_has_its_prompt_and_tools_in_it(team: Team) -> None:
    team.add_member("alice")
    book = Noting(team.place)
    with Server(diligent) as server, crew(team, server, "alice") as running:
        until_asleep(running, "alice")
        running._model.account = book
        team.add("Small")
        until(lambda: len(server.requests) == 2, "two requests")
        until_asleep(running, "alice")
    sizes = [tokens(prompt_size(request.body)) for request in server.requests]
    assert all(size <= told < 1.5 * size for told, size in zip(book.told, sizes, strict=True))


# -- a task's -----------------------------------------------------------------------------------------------


def test_a_task_that_has_had_its_calls_is_failed_and_the_others_are_done(team: Team, repo: Path) -> None:
    team.add_member("alice")
    settings(team, task_max_turns=4)
    team.add("Endless")
    team.add("Short")

    def is_endless(request: Request) -> bool:
        return handed(request) == 1 or 'of="bash"' in request.new_text

    with Server(lambda request: busy(request) if is_endless(request) else diligent(request)) as server:
        up(repo, server)
        check(server)
    assert statuses(team) == ["failed", "completed"]
    assert "task #1 may make 4 model calls and has made 4" in team.task(1).notes


def test_what_a_task_took_stands_on_the_commit_that_completes_it(team: Team, repo: Path) -> None:
    team.add_member("alice")
    team.add("One")
    script = iter([call("bash", command="ls"), completes(1), Reply("Done.")])
    with Server(lambda request: next(script)) as server:
        assert up(repo, server).code == 0
    message = git(repo, "log", "-1", "--format=%B", "--grep=^alice completes #1", "gitteam")
    assert "Team-Calls: 2" in message
    assert "Team-Tokens: " in message
    assert "Team-Cost: 0.0" in message


# -- without a price ------------------------------------------------------------------------------------------


def test_a_model_without_a_price_costs_an_unknown_amount(team: Team, repo: Path) -> None:
    team.add_member("alice", model="homemade-7b")
    team.add("One")
    with Server(diligent) as server:
        assert up(repo, server).code == 0
    assert "Team-Cost: unknown" in git(repo, "log", "-1", "--format=%B", "--grep=^alice completes #1", "gitteam")
    done = run_goal(repo, server, "--model", "homemade-7b", "--max-cost", "5", "Do it")
    assert done.code == 1
    assert "the model 'homemade-7b' has no price" in done.out


def test_the_report_of_a_run_without_a_price_says_that_the_cost_is_unknown(repo: Path) -> None:
    with Server(led(calls(create("One"), spawn("alice")))) as server:
        done = run_goal(repo, server, "--model", "homemade-7b", "Do it")
        assert f"{len(server.requests)} model calls, unknown" in done.out
    assert done.code == 0


def test_usage_of_a_run_is_there_by_member_and_by_task(repo: Path) -> None:
    with Server(led(calls(create("One"), spawn("alice")))) as server:
        assert run_goal(repo, server, "Do it").code == 0
        asked = [request.member for request in server.requests]
    rows = gitteam(repo, "usage", "--json").json["rows"]
    assert {row["member"]: row["calls"] for row in rows} == {name: asked.count(name) for name in ("alice", "lead")}
    assert {row["task"] for row in gitteam(repo, "usage", "--by", "task", "--json").json["rows"]} == {0, 1}
