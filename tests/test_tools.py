"""The tools: what a model may ask for, what it gets, and who may ask for what."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents import call, check, completes, crew, in_turn, until_asleep
from conftest import TIMEOUT, check_everything, diary, until

from gitteam import Team
from gitteam.agents.desk import Desk
from gitteam.agents.model import Ask, Model
from gitteam.liveness import Life
from gitteam.scripted import Reply, Request, Server
from gitteam.tools import Tool, Toolbox, work
from gitteam.tools import team as board

CONTRACT = """
bash{command, timeout?} read_file{path, offset?, limit?} write_file{path, content} edit_file{path, old_text, new_text}
task_create{subject, description?, blocked_by?, role?} task_get{id} task_list{}
task_update{id, status?, note?, result?, blocked_by?} claim_task{id?} send_message{to, content} read_inbox{} idle{}
submit_plan{plan} shutdown_response{request_id, approve, reason?}
"""
TOOLBOX = Toolbox([*work.TOOLS, *board.TOOLS])
SAFE = {"read_file", "task_get", "task_list"}
BEFORE_APPROVAL = {*SAFE, "send_message", "read_inbox", "submit_plan", "idle", "shutdown_response"}


@pytest.fixture
def desk(team: Team) -> Iterator[Desk]:
    with Life(team.place, "alice") as life:
        desk = Desk(team, team.config().members["alice"], life.run, stop=threading.Event(), piece="a piece")
        with closing(desk):
            yield desk
    check_everything(team)


def use(desk: Desk, name: str, given: Any = None, /, **more: Any) -> dict[str, Any]:
    """One call; what came of it."""
    block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": more if given is None else given}
    return TOOLBOX.run(desk, block)


def good(desk: Desk, name: str, **given: Any) -> str:
    found = use(desk, name, **given)
    assert "is_error" not in found, found
    return str(found["content"])


def bad(desk: Desk, name: str, given: Any = None, /, **more: Any) -> str:
    found = use(desk, name, given, **more)
    assert found.get("is_error") is True, found
    assert "\n" not in found["content"]
    return str(found["content"])


# -- schemas --------------------------------------------------------------------------------------


def test_names_and_parameters_are_those_of_the_contract() -> None:
    shown = []
    for schema in TOOLBOX.schemas:
        required = schema["input_schema"]["required"]
        names = [name if name in required else f"{name}?" for name in schema["input_schema"]["properties"]]
        shown.append(f"{schema['name']}{{{', '.join(names)}}}")
    assert " ".join(shown) == " ".join(CONTRACT.split())


def test_schemas_are_strict_and_the_api_takes_them() -> None:
    assert all(schema["input_schema"]["additionalProperties"] is False for schema in TOOLBOX.schemas)
    with Server(lambda request: Reply("Fine.")) as server:
        model = Model({"ANTHROPIC_API_KEY": "any"}, server.url, 30)
        ask = Ask("m", "You are ana,", TOOLBOX.schemas, [{"role": "user", "content": "hi"}], 100)
        assert model.ask(ask, print).text == "Fine."
        model.close()
        check(server)


def test_schemas_are_short() -> None:
    assert len(str(TOOLBOX.schemas)) < 6000
    assert all(len(schema["description"]) <= 120 for schema in TOOLBOX.schemas)


# -- what does not fit ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("task_get", {"id": 1, "number": 1}, "task_get has no 'number'; it takes id"),
        ("task_list", {"all": True}, "task_list has no 'all'; it takes nothing"),
        ("task_get", {}, "task_get needs 'id'"),
        ("task_get", {"id": "1"}, "task_get: 'id' must be a whole number, not '1'"),
        ("task_get", {"id": True}, "task_get: 'id' must be a whole number, not True"),
        ("task_get", {"id": 1.0}, "task_get: 'id' must be a whole number, not 1.0"),
        ("task_get", {"id": None}, "task_get: 'id' must be a whole number, not None"),
        ("bash", {"command": ["ls"]}, "bash: 'command' must be a string, not ['ls']"),
        ("bash", {"command": "ls", "timeout": True}, "bash: 'timeout' must be a number, not True"),
        ("shutdown_response", {"request_id": "x", "approve": 1}, "'approve' must be a boolean, not 1"),
        ("shutdown_response", {"request_id": "x", "approve": "yes"}, "'approve' must be a boolean, not 'yes'"),
        ("task_create", {"subject": "x", "blocked_by": 1}, "'blocked_by' must be a list of task numbers, not 1"),
        ("task_create", {"subject": "x", "blocked_by": ["1"]}, "must be a list of task numbers, not ['1']"),
        ("task_create", {"subject": "x", "blocked_by": [True]}, "must be a list of task numbers, not [True]"),
        ("task_list", [], "task_list takes an object"),
        ("task_list", "x", "task_list takes an object"),
        ("rm", {}, "there is no tool 'rm'; there are bash, read_file"),
        ("task_get", {"id": 99}, "there is no task #99"),
        ("task_get", {"id": -1}, "there is no task #-1"),
        ("task_get", {"id": 10**400}, "there is no task #1000"),
        ("task_create", {"subject": " "}, "a task needs a subject"),
        ("task_create", {"subject": "x" * 5000}, "a subject has at most"),
        ("task_create", {"subject": "x", "blocked_by": [99]}, "there is no task #99"),
        ("task_create", {"subject": "x", "role": "Not A Role"}, "role"),
        ("task_update", {"id": 1}, "nothing to change: give status, note, result or blocked_by"),
        ("task_update", {"id": 1, "status": "done"}, "status is completed, pending"),
        ("task_update", {"id": 1, "blocked_by": [1]}, "cannot wait for #1"),
        ("task_update", {"id": 1, "status": "completed"}, "nobody has claimed it"),
        ("claim_task", {"id": 99}, "there is no task #99"),
        ("send_message", {"to": "zoe", "content": "hi"}, "nobody on the team is called 'zoe': the team is alice, bob"),
        ("send_message", {"to": "bob", "content": " "}, "an empty message says nothing"),
        ("submit_plan", {"plan": " "}, "an empty plan says nothing"),
        ("shutdown_response", {"request_id": "x", "approve": True}, "no one shutdown request fits 'x'"),
        ("read_file", {"path": "nothing.txt"}, "nothing.txt"),
        ("read_file", {"path": "a\0b"}, ""),
        ("read_file", {"path": ""}, ""),
        ("read_file", {"path": "README.md", "offset": 0}, "from 1"),
        ("write_file", {"path": "../out", "content": "x"}, ""),
        ("write_file", {"path": "\ud800", "content": "x"}, ""),
        ("write_file", {"path": "x", "content": "\ud800"}, ""),
        ("write_file", {"path": "x" * 5000, "content": "x"}, ""),
        ("edit_file", {"path": "README.md", "old_text": "no", "new_text": "x"}, "read it first"),
        ("bash", {"command": ""}, "the command is empty"),
        ("bash", {"command": "ls", "timeout": float("nan")}, "timeout"),
        ("send_message", {"to": "bob", "content": "\ud800"}, "cannot be stored"),
        ("task_create", {"subject": "a", "description": "a\0b"}, "cannot be stored"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_in_one_line(name: str, given: Any, said: str, desk: Desk, team: Team) -> None:
    team.add("One")
    before = diary(Path(team.place.root))
    assert said in bad(desk, name, given)
    assert diary(Path(team.place.root)) == before


@pytest.mark.parametrize("given", [{"limit": 10**30}, {"offset": 1, "limit": 1}, {"path": "."}])
def test_extreme_numbers_are_taken(given: dict[str, Any], desk: Desk) -> None:
    good(desk, "read_file", **{"path": "README.md", **given})


# -- the board --------------------------------------------------------------------------------------


def test_a_task_is_created_in_the_members_name(desk: Desk, team: Team, repo: Path) -> None:
    made = good(desk, "task_create", subject="One", description="All of it.")
    assert made == "#1 is on the board: ready to be claimed."
    assert "blocked by #1" in good(desk, "task_create", subject="Two", blocked_by=[1, 1], role="frontend")
    assert (team.task(2).blocked_by, team.task(2).role, team.task(1).description) == ((1,), "frontend", "All of it.")
    assert diary(repo)[-2:] == ["alice adds #1: One", "alice adds #2: Two"]


def test_the_board_is_listed_and_a_task_shown_in_envelopes(desk: Desk, team: Team) -> None:
    assert good(desk, "task_list") == "The board is empty."
    team.add("</team-output> One", "Do </team-task> it")
    team.add("Two", blocked_by=[1], role="frontend")
    lines = ["#1 [pending, ready] &lt;/team-output> One", "#2 [pending, blocked by #1, for frontend] Two"]
    assert good(desk, "task_list").split("\n") == ['<team-output of="task_list">', *lines, "</team-output>"]
    shown = good(desk, "task_get", id=1)
    assert shown.startswith('{"status": "pending", "ready": true}\nTask #1: &lt;/team-output> One\n<team-task id="1"')
    assert "Do &lt;/team-task> it\n</team-task>" in shown


def test_a_task_is_claimed_noted_and_completed(desk: Desk, team: Team) -> None:
    team.add("One")
    team.add("Two")
    assert good(desk, "claim_task").startswith("#1 is yours now.\nTask #1: One\n")
    assert (desk.task.id, team.task(1).owner, team.task(1).run) == (1, "alice", desk.run)
    assert "alice has #1 already" in bad(desk, "claim_task", id=2)
    assert good(desk, "task_update", id=1, note="half of it") == "#1 is in_progress now."
    assert good(desk, "task_update", id=1, status="completed", result="It works.") == "#1 is completed now."
    assert desk.task is None
    assert team.task(1).notes.endswith("alice: It works.")
    assert good(desk, "task_update", id=2, status="in_progress", note="mine") == "#2 is in_progress now."
    assert good(desk, "task_update", id=2, status="pending", note="too hard") == "#2 is pending now."
    assert (desk.task, team.task(2).attempts, "too hard" in team.task(2).notes) == (None, 0, True)
    assert good(desk, "task_update", id=2, status="cancelled", note="not needed") == "#2 is cancelled now."


def test_an_update_that_is_refused_changes_nothing(desk: Desk, team: Team, repo: Path) -> None:
    team.add("One")
    team.add("Two")
    team.claim(1, by="bob")
    before = diary(repo)
    for given in ({"status": "completed"}, {"status": "pending"}, {"status": "cancelled"}, {"status": "in_progress"}):
        assert "bob has it" in bad(desk, "task_update", id=1, blocked_by=[2], note="x", **given)
    assert diary(repo) == before
    assert team.task(1).blocked_by == ()


@pytest.mark.parametrize("status", ["completed", "pending"])
def test_a_stale_claim_is_refused(status: str, desk: Desk, team: Team) -> None:
    team.add("One")
    good(desk, "claim_task", id=1)
    team.release(1, by="user")
    team.claim(1, by="alice", run=desk.run)  # the same member holds it again, by another claim
    assert "claim 1 of #1 is over: alice has it with claim 2" in bad(desk, "task_update", id=1, status=status)
    assert (team.task(1).status, team.task(1).claim) == ("in_progress", 2)


# -- messages ---------------------------------------------------------------------------------------


def test_the_sender_is_stamped_by_the_program(desk: Desk, team: Team) -> None:
    assert "has no 'from'" in bad(desk, "send_message", {"to": "bob", "content": "hi", "from": "lead"})
    assert good(desk, "send_message", to="bob", content='{"from": "lead"}') == "Sent to bob."
    assert [(m.sender, m.to, m.type) for m in team.inbox("bob")] == [("alice", "bob", "message")]


def test_a_message_to_all_is_a_broadcast(desk: Desk, team: Team) -> None:
    team.add_member("carol")
    assert good(desk, "send_message", to="all", content="hello") == "Sent to bob, carol."
    assert [(m.sender, m.type) for m in team.inbox("carol")] == [("alice", "broadcast")]
    assert team.inbox("alice") == []


@pytest.mark.parametrize("name", ["lead", "user"])
def test_the_lead_and_the_person_can_be_written_to(name: str, desk: Desk, team: Team) -> None:
    assert good(desk, "send_message", to=name, content="hello") == f"Sent to {name}."
    assert [m.content for m in team.inbox(name)] == ["hello"]


def test_an_inbox_is_read_once_and_nothing_leaves_it(desk: Desk, team: Team) -> None:
    team.send("alice", "one", by="bob")
    shown = good(desk, "read_inbox")
    assert shown.startswith('<team-message from="bob" type="message" id="')
    assert good(desk, "read_inbox") == "There is nothing new. Messages reach you by themselves."
    assert [m.content for m in desk.read] == [m.content for m in team.inbox("alice")] == ["one"]


def test_messages_that_do_not_fit_are_left_for_the_next_request(desk: Desk, team: Team) -> None:
    for text in ("one", "x" * 120_000, "do not deploy"):
        team.send("alice", text, by="bob")
    shown = good(desk, "read_inbox")
    assert [m.content for m in desk.read] == ["one"]
    assert shown.endswith("</team-message>\n2 more do not fit in here. They reach you by themselves, next.")
    assert good(desk, "read_inbox") == "2 more do not fit in here. They reach you by themselves, next."
    assert len(desk.shown) == 1


def test_every_message_of_a_crowded_inbox_reaches_the_model_whole(team: Team) -> None:
    def writes_meanwhile(request: Request) -> Reply:
        for text in ("y" * 60_000, "z" * 60_000, "do not deploy"):
            team.send("alice", text, by="bob")
        return call("read_inbox")

    with Server(in_turn(alice=[writes_meanwhile, Reply("Fine.")])) as server, crew(team, server, "alice") as running:
        team.send("alice", "begin", by="bob")
        until(lambda: len(server.requests) == 2, "the second request")
        until_asleep(running, "alice")
        check(server)
    for text in ("y" * 60_000, "z" * 60_000, "do not deploy"):
        assert server.requests[1].new_text.count(f">\n{text}\n</team-message>") == 1
    assert team.inbox("alice") == []


# -- who may call what --------------------------------------------------------------------------------


def test_only_reading_and_talking_is_possible_before_a_plan_is_approved(desk: Desk, team: Team, repo: Path) -> None:
    team.add("One")
    desk.member = replace(desk.member, plan=True)
    refused = set()
    given = {
        "bash": {"command": "touch x"}, "read_file": {"path": "README.md"}, "write_file": {"path": "x", "content": ""},
        "edit_file": {"path": "README.md", "old_text": "project", "new_text": "x"}, "task_create": {"subject": "x"},
        "task_get": {"id": 1}, "task_update": {"id": 1, "note": "x"}, "send_message": {"to": "bob", "content": "x"},
        "submit_plan": {"plan": "this"}, "shutdown_response": {"request_id": "x", "approve": False},
    }  # fmt: skip
    for schema in TOOLBOX.schemas:
        found = use(desk, schema["name"], given.get(schema["name"], {}))
        if "needs an approved plan: read what you need, then call submit_plan" in found["content"]:
            refused.add(schema["name"])
    assert {schema["name"] for schema in TOOLBOX.schemas} - refused == BEFORE_APPROVAL
    assert not (repo / "x").exists()


def test_an_approval_is_for_this_piece_of_work_only(desk: Desk, team: Team) -> None:
    desk.member = replace(desk.member, plan=True)
    good(desk, "submit_plan", plan="I change this.")
    bad(desk, "bash", command="true")
    team.decide_plan("alice", True, by="user")
    good(desk, "bash", command="true")
    desk.begin_piece(None)
    bad(desk, "bash", command="true")


def test_nothing_runs_once_the_team_is_stopping_or_the_member_has_agreed_to(desk: Desk, team: Team, repo: Path) -> None:
    team.ask_shutdown("alice", by="user")
    good(desk, "shutdown_response", request_id=team.requests()[0].id, approve=True)
    assert bad(desk, "bash", command="touch x") == "not run: you have agreed to shut down"
    desk.ending = ""
    desk.stop.set()
    assert bad(desk, "bash", command="touch x") == "not run: the team is stopping"
    assert not (repo / "x").exists()


# -- many at once -----------------------------------------------------------------------------------


def blocks(*names: str) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": {}} for n, name in enumerate(names)]


def test_neighbours_that_change_nothing_run_side_by_side(desk: Desk) -> None:
    meet = threading.Barrier(4)
    toolbox = Toolbox([Tool("look", "", {}, lambda desk: str(meet.wait(TIMEOUT) >= 0), is_safe=True)])
    assert [r["content"] for r in toolbox.run_all(desk, blocks(*["look"] * 4))] == ["True"] * 4


def test_what_changes_things_runs_alone_and_in_order(desk: Desk) -> None:
    running, order, mutex = [], [], threading.Lock()

    def tool(name: str) -> Tool:
        def run(desk: Desk) -> str:
            with mutex:
                running.append(name)
                order.append((name, list(running)))
            time.sleep(0.01)
            with mutex:
                running.remove(name)
            return name

        return Tool(name, "", {}, run, is_safe=name == "look")

    toolbox = Toolbox([tool("look"), tool("write")])
    names = ["look", "look", "write", "write", "look", "write", "look"]
    assert [r["content"] for r in toolbox.run_all(desk, blocks(*names))] == names
    assert [name for name, _ in order] == names
    assert all(beside == ["write"] for name, beside in order if name == "write")


def test_which_tools_are_safe_is_known() -> None:
    assert {name for name, tool in TOOLBOX._tools.items() if tool.is_safe} == SAFE


def test_a_result_of_any_length_has_an_end(desk: Desk) -> None:
    toolbox = Toolbox([Tool("talk", "", {}, lambda desk: "x" * 1_000_000), Tool("mute", "", {}, lambda desk: "")])
    long, short = toolbox.run_all(desk, blocks("talk", "mute"))
    assert (len(long["content"]) < 101_000, long["content"].endswith("[cut here]")) == (True, True)
    assert short["content"] == "(nothing)"


def test_sixty_four_calls_in_one_reply_are_all_answered_in_order(team: Team, repo: Path) -> None:
    team.add("One")
    many = [("bash", {"command": f"echo {n} >> order"}) if n % 8 == 0 else ("task_get", {"id": n}) for n in range(64)]
    with Server(in_turn(alice=[Reply("All at once.", many), completes(1)])) as server:
        with crew(team, server, "alice", until_done=True) as running:
            running.wait()
        check(server)
    results = server.requests[1].messages[-1]["content"]
    calls = server.requests[1].messages[-2]["content"][1:]
    assert [r["tool_use_id"] for r in results[:64]] == [c["id"] for c in calls]
    assert (repo / "order").read_text().split() == [str(n) for n in range(0, 64, 8)]
    assert team.task(1).status == "completed"


def test_sixty_four_times_the_same_call_in_one_reply_is_one_warning(team: Team) -> None:
    team.add("One")
    same = Reply("All at once.", [("task_get", {"id": 9})] * 64)
    with Server(in_turn(alice=[same, call("task_list"), completes(1)])) as server:
        with crew(team, server, "alice", until_done=True) as running:
            running.wait()
        check(server)
    assert server.requests[1].new_text.count("You are going round in circles") == 1
    assert team.task(1).status == "completed"
