"""The lead killed with -9 at any moment of a whole run: `gitteam run` again finishes it, and nothing is done twice."""

from __future__ import annotations

import re
import threading
from collections import Counter
from pathlib import Path

import pytest
from agents import check, claims, lead_mail
from conftest import TIMEOUT, check_everything
from leads import calls, create, run_goal, running_goal, spawn, told

from gitteam import Team
from gitteam.scripted import Reply, Request, Server

SUBJECTS = ["Analyze the endpoints", "Design the schema", "Serve it", "Use it"]
ROLES = ["analyst", "backend", "backend", "frontend"]
MEMBERS = {"ana": "analyst", "ben": "backend", "fay": "frontend"}
MOMENTS = range(1, 11)
QUICK = (1, 4, 8)


class Migration:
    """A model that looks at the board before it acts, as a careful one would, and so never repeats what is done."""

    def __init__(self, repo: Path):
        self._repo = repo
        self._mutex = threading.Lock()  # the server asks from many threads

    def __call__(self, request: Request) -> Reply:
        with self._mutex, Team(self._repo) as team:
            return self._lead(team, request) if request.member == "lead" else self._member(team, request)

    def _lead(self, team: Team, request: Request) -> Reply:
        tasks = team.tasks(finished=True)
        known = {task.subject for task in tasks}
        some = [
            create(subject, role=role, blocked_by=[number] if number else [])
            for number, (subject, role) in enumerate(zip(SUBJECTS, ROLES, strict=True))
            if subject not in known
        ]
        if not self._was_disbanded(team):
            known = {member.name for member in team.members()}
            some += [
                spawn(name, role, prompt=f"You are the {role}.", require_plan=name == "ben")
                for name, role in MEMBERS.items()
                if name not in known
            ]
        if some:
            return calls(*some)
        if plans := [r.id for r in team.requests() if (r.kind, r.status) == ("plan", "pending")]:
            return calls(*(("plan_approval", {"request_id": plan, "approve": True}) for plan in plans))
        if all(task.status == "completed" for task in tasks):
            return calls(("team_delete", {})) if team.members() else Reply("Migration complete.")
        return Reply("I wait.")

    def _was_disbanded(self, team: Team) -> bool:
        return any(" off the team" in entry.sentence for entry in team.log(limit=1000))

    def _member(self, team: Team, request: Request) -> Reply:
        name = request.member
        for asked in team.requests():
            if (asked.kind, asked.to, asked.status) == ("shutdown", name, "pending"):
                return calls(("shutdown_response", {"request_id": asked.id, "approve": True}))
        held = team.board().held_by(name)
        if not held:
            return Reply(f"{name} has nothing left to do.")
        task, wants_plan = held[0], name == "ben"
        approved = any(
            (r.work, r.status) == (f"{task.id}/{task.claim}", "approved") for r in team.requests() if r.kind == "plan"
        )
        if wants_plan and not approved:
            return calls(("submit_plan", {"plan": f"How I do #{task.id}"}))
        line = f"done-{task.id}.txt"
        return calls(
            ("bash", {"command": f"test -e {line} || echo {name} >> {line}"}),
            ("task_update", {"id": task.id, "status": "completed", "result": f"see {line}"}),
        )


def _killed_at(moment: int, repo: Path, server: Server) -> None:
    """`gitteam run`, until so many requests of the lead have come."""

    def arrived() -> bool:
        return sum(request.member == "lead" for request in server.requests) >= moment

    with running_goal(repo, server, "Migrate it") as running:
        server.wait_for(lambda request: arrived() or running.process.poll() is not None, TIMEOUT)
        running.kill()


def _check_all_is_done(team: Team, repo: Path) -> None:
    lines = told(repo)
    done = Counter(re.findall(r" completes (#\d)", "\n".join(lines)))
    assert done == {f"#{number}": 1 for number in (1, 2, 3, 4)}
    assert [task.subject for task in team.tasks(finished=True)] == SUBJECTS
    assert sorted(claims(team)) == [1, 2, 3, 4]
    assert team.members() == []
    for number in (1, 2, 3, 4):
        assert len((repo / f"done-{number}.txt").read_text().splitlines()) == 1
    for name in MEMBERS:
        assert sum(line.startswith(f"lead adds {name} ") for line in lines) == 1
    check_everything(team)


def _play(moments: list[int], repo: Path) -> None:
    Team.init(repo)
    with Server(Migration(repo)) as server:
        for moment in moments:
            _killed_at(moment, repo, server)
        done = run_goal(repo, server, "Migrate it")
        check(server)
        goals = [message for message in server.requests[-1].messages if "The person asks" in str(message)]
    assert done.code == 0, done
    assert len(goals) == 1
    with Team(repo) as team:
        _check_all_is_done(team, repo)
        assert [m for m in lead_mail(team, "result") if m.sender == "fay"] == []  # it was read


@pytest.mark.parametrize("moment", QUICK)
def test_a_killed_lead_is_resumed_and_nothing_is_done_twice(moment: int, repo: Path) -> None:
    _play([moment], repo)


@pytest.mark.long
@pytest.mark.parametrize("moment", [moment for moment in MOMENTS if moment not in QUICK])
def test_a_killed_lead_is_resumed_at_every_other_moment(moment: int, repo: Path) -> None:
    _play([moment], repo)


@pytest.mark.long
def test_a_lead_killed_again_and_again_gets_there(repo: Path) -> None:
    _play([1, 3, 6, 9], repo)
