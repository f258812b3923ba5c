"""The team from Python: the same operations, from any number of threads."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import TIMEOUT, check_everything, diary, git, until

import gitteam
from gitteam import Team
from gitteam import board as board_module
from gitteam.checkpoint import CheckpointFile
from gitteam.errors import BadInput, Conflict, GitteamError, LockTimeout, NoTeam, NotFound, NothingToDo, ToolFailed
from gitteam.tree import Standing


def together(jobs: list[Callable[[], Any]]) -> list[Any]:
    """Run these at the same moment, each in a thread; what they returned, or the error each ended with."""
    start = threading.Barrier(len(jobs))

    def one(job: Callable[[], Any]) -> Any:
        start.wait(TIMEOUT)
        try:
            return job()
        except GitteamError as e:
            return e

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(one, jobs))


def enlist(team: Team, count: int) -> list[str]:
    names = [f"worker-{number}" for number in range(count)]
    for name in names:
        team.add_member(name)
    return names


def work(team: Team, name: str) -> list[int]:
    """Claim and complete until there is nothing left; which tasks those were."""
    finished = []
    while True:
        try:
            task = team.claim(by=name)
        except NothingToDo:
            return finished
        assert (task.owner, task.status, task.claim) == (name, "in_progress", 1)
        team.done(task.id, f"by {name}", by=name, claim=task.claim)
        finished.append(task.id)


# -- threads ----------------------------------------------------------------------------------------------


def share_out(team: Team, teams: list[Team], workers: int, tasks: int) -> None:
    """Every task is done once, by whom the board says, and the history shows nothing else."""
    names = enlist(team, workers)
    for number in range(tasks):
        team.add(f"task {number}")
    done = together([lambda t=t, n=n: work(t, n) for t, n in zip(teams, names, strict=True)])
    assert sorted(number for numbers in done for number in numbers) == list(range(1, tasks + 1))
    owners = {number: name for name, numbers in zip(names, done, strict=True) for number in numbers}
    assert {task.id: task.owner for task in team.tasks(finished=True)} == owners
    events = git(team.place.root, "log", "--format=%(trailers:key=Team-Event,valueonly)", "gitteam").split()
    assert (events.count("claimed"), events.count("completed")) == (tasks, tasks)
    check_everything(team)


def test_threads_share_one_team_and_no_task_is_done_twice(team: Team) -> None:
    share_out(team, [team] * 4, 4, 12)


def test_threads_with_a_team_each_do_no_task_twice(team: Team, repo: Path) -> None:
    teams = [Team(repo) for _ in range(4)]
    share_out(team, teams, 4, 12)
    for each in teams:
        each.close()


@pytest.mark.long
@pytest.mark.parametrize("shared", [True, False])
def test_sixteen_threads_and_many_tasks(team: Team, repo: Path, shared: bool) -> None:
    teams = [team] * 16 if shared else [Team(repo) for _ in range(16)]
    share_out(team, teams, 16, 160)
    for each in teams:
        each.close()


@pytest.mark.parametrize("shared", [True, False])
def test_of_many_who_claim_one_task_one_wins_and_the_others_are_told_who(team: Team, repo: Path, shared: bool) -> None:
    names = enlist(team, 6)
    team.add("Fix it")
    teams = [team if shared else Team(repo) for _ in names]
    results = together([lambda t=t, n=n: t.claim(1, by=n) for t, n in zip(teams, names, strict=True)])
    winners = [result.owner for result in results if not isinstance(result, GitteamError)]
    losers = [result for result in results if isinstance(result, Conflict)]
    assert (len(winners), len(losers)) == (1, 5)
    assert all(f"{winners[0]} has it" in str(error) for error in losers)
    for each in teams:
        each.close()


def test_threads_that_read_see_whole_and_ever_newer_states(team: Team, repo: Path) -> None:
    count, stop = 15, threading.Event()

    def write() -> None:
        try:
            for number in range(count):
                team.add(f"task {number}")
                team.send("alice", f"message {number}")
                (repo / "by-hand").write_text(f"By hand {number}\n")
                (repo / "by-hand").rename(repo / f".tasks/by-hand-{number}.md")
        finally:
            stop.set()

    def read() -> list[tuple[int, int]]:
        seen = []
        while not stop.is_set():
            assert {m.name for m in team.members()} == {"alice", "bob"}
            assert team.status().unreadable == {}
            seen.append((len(team.tasks()), len(team.inbox("alice"))))
        return seen

    for seen in together([write, read, read, read])[1:]:
        for before, after in pairwise(seen):
            assert before[0] <= after[0]
            assert before[1] <= after[1]
    assert (len(team.tasks()), len(team.inbox("alice"))) == (2 * count, count)
    check_everything(team)


@pytest.mark.parametrize("path", [".tasks/1-fix-it.md", ".team/inbox/alice.jsonl"])
def test_a_file_that_is_gone_for_the_moment_is_seen_as_the_branch_has_it(team: Team, repo: Path, path: str) -> None:
    """Whoever replaces a file renames the old one away first: a reader may look in that very instant."""
    team.add("Fix it")
    team.send("alice", "one")
    team.tasks()
    before = (repo / path).read_bytes()
    note = CheckpointFile(team.place.checkpoint).read()
    assert note
    (repo / path).rename(repo / "elsewhere")
    files = Standing(team.place, note, team.ledger.repo.objects.read)
    directory, _, name = path.rpartition("/")
    assert name in files.names(directory)
    assert files.read(path) == before


def test_a_file_saved_between_two_glances_is_never_taken_for_its_older_text(team: Team, repo: Path) -> None:
    """Tasks are remembered by their blob: what was read a moment later must not be remembered under it."""
    task = team.add("Fix it", "As it was")
    note = CheckpointFile(team.place.checkpoint).read()
    assert note
    (repo / task.path).write_text(task.text.replace("As it was", "As it is"))
    board_module._parsed.clear()
    files = Standing(team.place, note, team.ledger.repo.objects.read, is_certain=True)
    assert board_module.Board(files).get(1).description == "As it was"
    assert team.task(1).description == "As it is"


def test_messages_from_many_threads_all_arrive_in_order_per_sender(team: Team) -> None:
    names = enlist(team, 4)

    def send(name: str) -> None:
        for number in range(5):
            team.send("alice", f"{name} {number}", by=name)

    together([lambda n=n: send(n) for n in names])
    found = [m.content for m in team.inbox("alice")]
    assert len(found) == 20
    for name in names:
        assert [text for text in found if text.startswith(name)] == [f"{name} {number}" for number in range(5)]


# -- taking messages ----------------------------------------------------------------------------------------


def contents(team: Team, name: str = "alice") -> list[str]:
    return [message.content for message in team.inbox(name)]


def test_messages_leave_the_inbox_when_the_block_ends_well(team: Team, repo: Path) -> None:
    team.send("alice", "one")
    with team.take("alice") as messages:
        assert [m.content for m in messages] == ["one"]
        assert contents(team) == ["one"]
    assert contents(team) == []
    assert diary(repo)[-1] == "alice takes 1 message"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_messages_stay_if_the_block_ends_with_an_exception(team: Team, repo: Path, error: type[BaseException]) -> None:
    team.send("alice", "one")
    before = git(repo, "rev-parse", "gitteam")

    with pytest.raises(error), team.take("alice"):
        raise error
    assert contents(team) == ["one"]
    assert git(repo, "rev-parse", "gitteam") == before
    with team.take("alice") as messages:
        assert len(messages) == 1


def test_what_arrives_during_the_block_stays(team: Team, repo: Path) -> None:
    team.send("alice", "one")
    with team.take("alice"):
        team.send("alice", "two")
        with (repo / ".team/inbox/alice.jsonl").open("a") as inbox:
            inbox.write('{"content": "three"}\n')
    assert contents(team) == ["two", "three"]


def test_equal_lines_are_messages_of_their_own(team: Team, repo: Path) -> None:
    inbox = repo / ".team/inbox/alice.jsonl"
    inbox.write_text('{"content": "hi"}\n' * 2)
    with team.take("alice") as messages:
        assert len({m.id for m in messages}) == 2
        with inbox.open("a") as file:
            file.write('{"content": "hi"}\n')
    assert contents(team) == ["hi"]


@pytest.mark.parametrize("shared", [True, False])
def test_two_who_take_from_one_inbox_take_turns(team: Team, repo: Path, shared: bool) -> None:
    team.send("alice", "one")
    first_is_in, second_is_in = threading.Event(), threading.Event()
    other = team if shared else Team(repo)

    def first() -> tuple[int, bool]:
        with team.take("alice") as messages:
            first_is_in.set()
            return len(messages), second_is_in.wait(0.2)  # the second comes in during this time, or never should

    def second() -> int:
        first_is_in.wait(TIMEOUT)
        with other.take("alice") as messages:
            second_is_in.set()
            return len(messages)

    assert together([first, second]) == [(1, False), 0]
    other.close()


def test_an_empty_inbox_is_taken_without_a_commit(team: Team, repo: Path) -> None:
    before = git(repo, "rev-parse", "gitteam")
    with team.take("alice") as messages:
        assert messages == []
    assert git(repo, "rev-parse", "gitteam") == before


def test_whoever_dies_inside_the_block_finds_the_messages_again(team: Team, repo: Path) -> None:
    team.send("alice", "one")
    code = "from gitteam import Team\nwith Team('.').take('alice') as m:\n    print(len(m), flush=True)\n    input()"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=repo, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdin
    assert process.stdout.readline() == b"1\n"
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    with team.take("alice") as messages:
        assert [m.content for m in messages] == ["one"]


def test_taking_from_somebody_unknown_lists_the_names(team: Team) -> None:
    with pytest.raises(NotFound, match="alice, bob"), team.take("zed"):
        pass


def test_a_line_on_the_branch_that_cannot_be_read_is_not_lost_by_taking(team: Team, repo: Path) -> None:
    """A person's own commit on the branch may hold anything."""
    team.send("alice", "one")
    tree = repo.parent / "elsewhere"
    git(repo, "worktree", "add", "-q", str(tree), "gitteam")
    with (tree / ".team/inbox/alice.jsonl").open("a") as inbox:
        inbox.write("not json\n")
    git(tree, "commit", "-qam", "by hand")
    git(repo, "worktree", "remove", "--force", str(tree))
    with team.take("alice") as messages:
        assert [m.content for m in messages] == ["one"]
    kept = [path.read_text() for path in (repo / ".team/inbox").iterdir()]
    assert any("not json" in text for text in kept)


# -- the lock -------------------------------------------------------------------------------------------------


HOLD = """if True:
    from gitteam import Team
    def hold(change):
        print("held", flush=True)
        input()
    Team(".").ledger.change("user", hold)
"""


def test_a_timeout_names_the_process_that_holds_the_lock(team: Team, repo: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD], cwd=repo, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout
    assert holder.stdout.readline() == b"held\n"
    with Team(repo, lock_timeout=0.1) as impatient, pytest.raises(LockTimeout, match=f"process {holder.pid} "):
        impatient.add("x")
    holder.communicate(b"\n")
    assert team.add("y").id == 1


def test_a_lock_is_free_as_soon_as_its_holder_is_killed(team: Team, repo: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD], cwd=repo, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout
    assert holder.stdout.readline() == b"held\n"
    holder.kill()
    holder.communicate()
    assert team.add("x").id == 1


def test_threads_of_one_team_wait_for_each_other_without_a_timeout(team: Team, repo: Path) -> None:
    """The lock's timeout is for other processes; threads of one team stand in a queue of their own."""
    with Team(repo, lock_timeout=TIMEOUT) as patient:
        together([lambda n=n: patient.add(f"task {n}") for n in range(8)])
        assert [task.id for task in patient.tasks()] == list(range(1, 9))


def test_a_change_that_fails_leaves_no_trace(team: Team, repo: Path) -> None:
    def fail(change: Any) -> None:
        change.put(change.board.get(1).with_values(status="completed"))
        raise RuntimeError

    team.add("Fix it")
    before = git(repo, "rev-parse", "gitteam")
    with pytest.raises(RuntimeError):
        team.ledger.change("user", fail)
    assert git(repo, "rev-parse", "gitteam") == before
    assert team.task(1).status == "pending"
    check_everything(team)


# -- waiting ----------------------------------------------------------------------------------------------------


def test_waiting_ends_with_what_there_is(team: Team) -> None:
    team.send("bob", "hi")
    team.add("Fix it")
    messages, task = team.wait("bob")
    assert [m.content for m in messages] == ["hi"]
    assert task
    assert (task.id, task.ready) == (1, True)


def test_waiting_ends_when_another_thread_sends(team: Team) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(team.wait, "bob", TIMEOUT)
        until(lambda: any("inotify" in type(t).__name__.lower() for t in threading.enumerate()), "a watch on the files")
        team.send("bob", "hi")
        assert [m.content for m in waiting.result(TIMEOUT)[0]] == ["hi"]


def test_waiting_ends_at_the_timeout_with_an_error(team: Team) -> None:
    with pytest.raises(NothingToDo, match=r"nothing came for bob in 0\.05 s"):
        team.wait("bob", 0.05)


def test_whoever_holds_a_task_is_not_woken_by_another(team: Team) -> None:
    team.add("mine")
    team.add("another")
    team.claim(1, by="bob")
    with pytest.raises(NothingToDo):
        team.wait("bob", 0.05)


# -- the interface ------------------------------------------------------------------------------------------------


def public_methods() -> dict[str, Any]:
    return {name: value for name, value in vars(Team).items() if not name.startswith("_") and callable(value)}


def test_the_operations_of_the_commands_are_there() -> None:
    assert set(public_methods()) >= {
        "add", "claim", "release", "done", "note", "block", "cancel", "task", "tasks", "members", "add_member",
        "remove_member", "send", "broadcast", "inbox", "take", "wait", "status", "log", "init", "close",
    }  # fmt: skip


@pytest.mark.parametrize("name", public_methods())
def test_every_operation_is_typed_and_documented(name: str) -> None:
    method = inspect.unwrap(getattr(Team, name))
    assert inspect.getdoc(method)
    signature = inspect.signature(method)
    assert signature.return_annotation is not inspect.Signature.empty
    hints = [p.annotation for p in signature.parameters.values() if p.name != "self"]
    assert inspect.Parameter.empty not in hints


def test_what_the_package_offers_can_be_imported() -> None:
    assert {gitteam.Team, gitteam.Task, gitteam.Message, gitteam.Member, gitteam.GitteamError}
    with pytest.raises(AttributeError):
        gitteam.nonsense  # noqa: B018


def test_every_error_of_the_package_is_one_kind_with_an_exit_code() -> None:
    kinds = [
        kind for kind in vars(gitteam.errors).values() if isinstance(kind, type) and issubclass(kind, GitteamError)
    ]
    kinds.remove(ToolFailed)  # it is for models: no command ends with it
    assert {kind.exit_code for kind in kinds} == {1, 2, 3, 4, 5}
    assert len({kind.kind for kind in kinds}) == len(kinds)


def test_where_there_is_no_team_there_is_an_error(repo: Path) -> None:
    with pytest.raises(NoTeam, match="gitteam init"):
        Team(repo)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda team: team.add(""), BadInput),
        (lambda team: team.add("x\0y", "a\0b"), BadInput),
        (lambda team: team.add("x", by="zed"), NotFound),
        (lambda team: team.add("x", blocked_by=[9]), NotFound),
        (lambda team: team.task(9), NotFound),
        (lambda team: team.claim(by="alice"), NothingToDo),
        (lambda team: team.send("alice", "x", kind="shout"), BadInput),
        (lambda team: team.send("alice", "\ud800"), BadInput),
        (lambda team: team.add_member("alice"), Conflict),
        (lambda team: team.add_member("x", kind="robot"), BadInput),
        (lambda team: team.inbox("zed"), NotFound),
        (lambda team: team.log("zed"), NotFound),
    ],
)
def test_what_cannot_be_raises_and_commits_nothing(
    team: Team, repo: Path, call: Callable[[Team], Any], error: type[Exception]
) -> None:
    before = git(repo, "rev-parse", "gitteam")
    with pytest.raises(error):
        call(team)
    assert git(repo, "rev-parse", "gitteam") == before


def test_every_change_is_one_commit(team: Team, repo: Path) -> None:
    changes: list[Callable[[], Any]] = [
        lambda: team.add("Fix it"), lambda: team.add("More"), lambda: team.claim(1, by="alice"),
        lambda: team.note(1, "so"), lambda: team.block(2, on=1), lambda: team.done(1, by="alice"),
        lambda: team.send("alice", "hi"), lambda: team.broadcast("all"), lambda: team.cancel(2),
        lambda: team.add_member("dora"), lambda: team.remove_member("dora"),
    ]  # fmt: skip
    for number, change in enumerate(changes, len(diary(repo)) + 1):
        change()
        assert len(diary(repo)) == number


def test_a_team_leaves_no_process_behind_when_closed(repo: Path) -> None:
    Team.init(repo)
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    if not children.exists():
        pytest.skip("the system does not list children")
    before = children.read_text().split()
    with Team(repo) as team:
        team.add("Fix it")
        list(team.log())
    assert children.read_text().split() == before


def test_a_closed_team_opens_again_by_itself(team: Team) -> None:
    team.add("Fix it")
    team.close()
    assert team.claim(by="alice").id == 1


def test_a_path_may_be_any_directory_of_the_repository(team: Team, repo: Path) -> None:
    (repo / "deep/er").mkdir(parents=True)
    team.add("Fix it")
    with Team(repo / "deep/er") as same:
        assert [task.id for task in same.tasks()] == [1]
    assert os.path.samefile(same.place.root, repo)
