"""Many at once: processes that claim and are killed at any moment, and the person's own git beside us."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import TIMEOUT, check_everything, git, until
from faults import Child, call, check_order, command, meddle_before, new_board, sound

from gitteam import Team
from gitteam.errors import NothingToDo

# -- claims -------------------------------------------------------------------------------------


def test_of_eight_who_claim_one_task_one_gets_it_and_seven_are_told_who(tmp_path: Path) -> None:
    root = new_board(tmp_path / "project")
    names = [f"m{n}" for n in range(8)]
    with Team(root) as team:
        team.add("One")
        for name in names:
            team.add_member(name)
    children = [command(root, "task", "claim", "1", "--as", name) for name in names]
    ends = dict(zip(names, [child.end() for child in [child.go() for child in children]], strict=True))
    winners = [name for name, end in ends.items() if end.code == 0]
    assert len(winners) == 1, ends
    losers = [end for name, end in ends.items() if name not in winners]
    assert [end.code for end in losers] == [4] * 7
    assert all(f"{winners[0]} has it" in end.err for end in losers), losers
    sound(root)


def test_threads_that_share_one_team_do_each_task_once(team: Team) -> None:
    names = [f"m{n}" for n in range(6)]
    for name in names:
        team.add_member(name)
    for number in range(12):
        team.add(f"Task {number}")
    done: list[int] = []

    def work(name: str) -> None:
        while True:
            try:
                task = team.claim(by=name)
            except NothingToDo:
                return
            team.done(task.id, by=name, claim=task.claim)
            done.append(task.id)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert sorted(done) == list(range(1, 13))
    check_everything(team)


# -- claims by processes that are killed at any moment --------------------------------------------


class Worker:
    """Somebody who claims, notes, releases and completes, and writes down what was acknowledged, and when."""

    def __init__(self, root: Path, name: str):
        self.root, self.name = root, name
        self._log, self._finish = root.parent / f"{name}.log", root.parent / "finish"
        self.start()

    def start(self) -> None:
        self.process = Child(self._work, self.root).go()

    def _work(self) -> int:
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def act(event: str, operation: Callable[[], Any], mark: str = "") -> Any:
            began = time.monotonic()
            task = operation()
            record = {"event": event, "task": task.id, "claim": task.claim, "mark": mark}
            os.write(log, (json.dumps({**record, "began": began, "ended": time.monotonic()}) + "\n").encode())
            return task

        with Team(self.root, lock_timeout=TIMEOUT) as team:
            while True:
                finishing = self._finish.exists()
                try:
                    task = act("claimed", lambda: team.claim(by=self.name))
                except NothingToDo:
                    if finishing:
                        return 0
                    continue
                mark = f"{self.name}-{time.monotonic_ns()}"
                act("noted", lambda n=task.id, m=mark: team.note(n, m, by=self.name), mark)
                over = team.done if finishing or task.id % 3 == 0 else team.release
                event = "completed" if over == team.done else "released"
                act(event, lambda n=task.id, c=task.claim, f=over: f(n, by=self.name, claim=c))

    def kill(self) -> None:
        found = self.process.kill()
        assert found.code == -9, f"{self.name} did not live until it was killed: {found}"

    def acknowledged(self) -> list[dict[str, Any]]:
        lines = self._log.read_text().splitlines(keepends=True) if self._log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may be torn


def _positions(root: Path) -> dict[tuple[object, ...], int]:
    """Where in the history each claim, note and end of a claim stands; each only once."""
    found: dict[tuple[object, ...], int] = {}
    claims: defaultdict[int, int] = defaultdict(int)
    event_and_task = [f"%(trailers:key=Team-{key},valueonly,separator=)" for key in ("Event", "Task")]
    form = "%x09".join(["%an", *event_and_task, "%s"])
    for position, line in enumerate(git(root, "log", "--reverse", f"--format={form}", "gitteam").splitlines()):
        author, event, number, sentence = line.split("\t")
        if event not in ("claimed", "noted", "released", "completed"):
            continue
        claims[int(number)] += event == "claimed"
        last = sentence.rpartition(" ")[2] if event == "noted" else claims[int(number)]
        key = (author, event, int(number), last)
        assert key not in found, f"{key} is in the history twice"
        found[key] = position
    return found


def _kill_at_random(workers: list[Worker], kills: int, longest: float) -> None:
    chance = random.Random(7)
    for _ in range(kills):
        time.sleep(chance.uniform(0.02, longest))
        victim = chance.choice(workers)
        victim.kill()
        victim.start()


@pytest.mark.parametrize(
    ("tasks", "kills", "longest"), [(30, 40, 0.08), pytest.param(100, 250, 0.1, marks=pytest.mark.long)]
)
def test_sixteen_who_are_killed_at_random_lose_and_double_nothing(
    tasks: int, kills: int, longest: float, tmp_path: Path
) -> None:
    root, names = new_board(tmp_path / "project"), [f"m{n}" for n in range(16)]
    with Team(root) as team:
        for number in range(1, tasks + 1):
            (root / f".tasks/{number}-task.md").write_text(f"Task {number}\n")
        for name in names:
            team.add_member(name)
    workers = [Worker(root, name) for name in names]
    _kill_at_random(workers, kills, longest)
    (tmp_path / "finish").touch()
    ends = [worker.process.end() for worker in workers]
    assert [end.code for end in ends] == [0] * 16, [end.err for end in ends if end.code]

    with Team(root) as team:
        everything = team.tasks(finished=True)
    assert [(task.id, task.status) for task in everything] == [(n, "completed") for n in range(1, tasks + 1)]
    positions, times, text = _positions(root), [], "".join(task.notes for task in everything)
    for worker in workers:
        for act in worker.acknowledged():
            key = (worker.name, act["event"], act["task"], act["mark"] or act["claim"])
            assert key in positions, f"acknowledged, but not in the history: {key}"
            # Whoever comes back to a task of their own is told so without a commit.
            times += [(positions[key], act["began"], act["ended"])] if act["event"] != "claimed" else []
            assert not act["mark"] or text.count(act["mark"]) == 1
    check_order(times)
    sound(root)


# -- the person's git beside us ---------------------------------------------------------------------


@contextmanager
def _repeating(root: Path, *commands: tuple[str, ...]) -> Iterator[None]:
    """Run these git commands in turn, over and over, until the block ends."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            for words in commands:
                subprocess.run(["git", *words], cwd=root, capture_output=True, check=False)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(TIMEOUT)


HOUSEKEEPING = {
    "gc": [("gc", "-q")],
    "repack": [("repack", "-adq")],
    "pack-refs": [("pack-refs", "--all")],
    "all": [("pack-refs", "--all"), ("gc", "-q"), ("repack", "-adq")],
}


@pytest.mark.parametrize("changes", [5, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", HOUSEKEEPING)
def test_changes_go_on_while_the_person_keeps_house(name: str, changes: int, tmp_path: Path) -> None:
    root = new_board(tmp_path / "project")
    with _repeating(root, *HOUSEKEEPING[name]), Team(root) as team:
        for number in range(1, changes + 1):
            team.add(f"Task {number}")
            assert call(root, "task", "claim", str(number), "--as", "alice").code == 0
            team.done(number, f"result {number}", by="alice")
    with Team(root) as team:
        assert [(t.id, t.status) for t in team.tasks()] == [(n, "completed") for n in range(1, changes + 1)]
    sound(root)


def test_objects_that_a_prune_takes_before_the_branch_has_them_are_written_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", meddle_before(tmp_path / "bin", "update-ref", "-C", str(root), "prune", "--expire=now"))
        assert call(root, "task", "add", "Two").out == "2 Two\n"
    assert (tmp_path / "bin/meddled").exists()
    sound(root)


def test_a_commit_that_a_person_makes_in_the_middle_of_a_change_is_kept(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    theirs = git(root, "commit-tree", "gitteam^{tree}", "-p", "gitteam", "-m", "by hand")
    meddling = ("-C", str(root), "update-ref", "refs/heads/gitteam", theirs)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", meddle_before(tmp_path / "bin", "update-ref", *meddling))
        assert call(root, "task", "add", "Two").out == "2 Two\n"
    assert (tmp_path / "bin/meddled").exists()
    assert git(root, "merge-base", theirs, "gitteam") == theirs


def test_a_prune_at_the_wrong_moment_costs_a_retry_or_is_noticed(tmp_path: Path) -> None:
    """It may delete objects of a commit that was made after it looked; git itself warns of that. Nothing hides it."""
    root, made = new_board(tmp_path / "project"), []
    with _repeating(root, ("gc", "-q", "--prune=now"), ("prune", "--expire=now")):
        for number in range(25):
            found = call(root, "task", "add", f"Task {number}")
            if found.code:
                assert "missing from the repository: run `gitteam doctor`" in found.err, found.err
                break
            made.append(f"Task {number}")
    checked = subprocess.run(["git", "fsck", "--full", "--no-dangling"], cwd=root, capture_output=True, text=True)
    if checked.returncode:
        assert call(root, "doctor").code == 1, checked
    else:
        with Team(root) as team:
            assert [task.subject for task in team.tasks()] == made
        sound(root)


ELSEWHERE: dict[str, list[tuple[str, ...]]] = {
    "another branch": [("switch", "-qc", "other")],
    "no branch": [("checkout", "-q", "--detach")],
    "reset": [("reset", "-q", "--hard")],
    "stash": [("stash", "push", "-q", "--include-untracked")],
    "stash of all": [("stash", "push", "-q", "--all")],
    "clean": [("clean", "-qfdx")],
    "clean twice": [("clean", "-qffdx")],
    "commit": [("commit", "-qam", "second")],
    "rebase": [("commit", "-qam", "second"), ("rebase", "-q", "--force-rebase", "HEAD~1")],
    "an orphan branch": [("checkout", "-q", "--orphan", "empty"), ("rm", "-rfq", ".")],
    "another work tree": [("worktree", "add", "-q", "../linked")],
    "packed refs": [("pack-refs", "--all", "--prune")],
    "an expired reflog": [("reflog", "expire", "--expire=now", "--all"), ("gc", "-q", "--prune=now")],
    "a renamed branch": [("branch", "-m", "trunk")],
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_a_person_does_with_git_takes_nothing_off_the_board(name: str, tmp_path: Path) -> None:
    root = new_board(tmp_path / "project")
    with Team(root) as team:
        for subject in ("One", "Two", "Three"):
            team.add(subject)
        team.claim(1, by="alice")
        team.send("bob", "hello")
    board = sound(root)
    (root / "README.md").write_text("# changed\n")
    for words in ELSEWHERE[name]:
        git(root, *words)
    assert call(root, "task", "list").err == ""
    assert sound(root) == board
    assert call(root, "task", "done", "1", "--as", "alice").code == 0


# -- the branch deleted, moved back, rewritten ---------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = new_board(tmp_path / "project")
    with Team(root) as team:
        team.add("One")
        team.claim(1, by="alice")
        team.done(1, "it works", by="alice")
    return root


def _tip(root: Path) -> str:
    return git(root, "rev-parse", "--verify", "-q", "refs/heads/gitteam", check=False)


def _delete(root: Path) -> None:
    git(root, "branch", "-qD", "gitteam")


def _move_back(root: Path) -> None:
    git(root, "update-ref", "refs/heads/gitteam", "gitteam~2")


def _rewrite(root: Path) -> None:
    """As `git rebase` or `git commit --amend` do: the same files, another history."""
    other = git(root, "commit-tree", "gitteam^{tree}", "-p", "gitteam~2", "-m", "squashed")
    git(root, "update-ref", "refs/heads/gitteam", other)


def _replace(root: Path) -> None:
    """Another history altogether, with none of the tasks."""
    first = git(root, "rev-list", "--max-parents=0", "gitteam")
    other = git(root, "commit-tree", f"{first}^{{tree}}", "-m", "begun anew")
    git(root, "update-ref", "refs/heads/gitteam", other)


HARM = {"deleted": _delete, "moved back": _move_back, "rewritten": _rewrite, "replaced": _replace}


@pytest.mark.parametrize("name", HARM)
def test_a_branch_that_was_tampered_with_is_never_silently_overwritten(name: str, root: Path) -> None:
    files = {path: path.read_bytes() for path in (root / ".tasks").glob("*.md")}
    HARM[name](root)
    tip = _tip(root)
    for words in (("task", "add", "Two"), ("send", "alice", "hi"), ("task", "note", "1", "hm")):
        found = call(root, *words)
        assert (found.code, "gitteam doctor" in found.err, found.err.count("\n")) == (1, True, 1), found
    assert _tip(root) == tip
    assert {path: path.read_bytes() for path in (root / ".tasks").glob("*.md")} == files


@pytest.mark.parametrize("name", HARM)
def test_reading_goes_on_and_warns_when_the_branch_was_tampered_with(name: str, root: Path) -> None:
    HARM[name](root)
    found = call(root, "task", "show", "1")
    assert (found.code, "it works" in found.out) == (0, True)
    assert "gitteam doctor" in found.err


@pytest.mark.parametrize(
    ("name", "says"),
    [("deleted", "was deleted"), ("moved back", "was moved back"), ("rewritten", "was rewritten"),
     ("replaced", "was rewritten")],
)  # fmt: skip
def test_doctor_names_the_harm_and_the_cure_and_changes_nothing_by_itself(name: str, says: str, root: Path) -> None:
    HARM[name](root)
    tip = _tip(root)
    found = call(root, "doctor")
    assert found.code == 1
    assert says in found.out
    assert "gitteam doctor --repair" in found.out
    assert _tip(root) == tip


@pytest.mark.parametrize("name", ["deleted", "moved back"])
def test_repair_puts_the_branch_back_where_the_files_stand(name: str, root: Path) -> None:
    tip = _tip(root)
    HARM[name](root)
    assert call(root, "doctor", "--repair").code == 0
    assert _tip(root) == tip
    assert call(root, "task", "add", "Two").out == "2 Two\n"
    sound(root)


def test_repair_of_a_rewritten_branch_goes_on_from_the_branch(root: Path) -> None:
    _rewrite(root)
    tip = _tip(root)
    assert call(root, "doctor", "--repair").code == 0
    assert git(root, "merge-base", tip, "gitteam") == tip
    assert call(root, "task", "show", "1").out.count("it works") == 1
    assert call(root, "task", "add", "Two").out == "2 Two\n"


def test_repair_of_a_replaced_branch_keeps_the_texts_that_only_the_files_have(root: Path) -> None:
    _replace(root)
    call(root, "doctor", "--repair")
    assert call(root, "task", "add", "Two").code == 0
    with Team(root) as team:
        assert "One" in [task.subject for task in team.tasks(finished=True)]


def test_while_the_branch_is_checked_out_writing_refuses_and_says_where(root: Path) -> None:
    git(root, "worktree", "add", "-q", "../linked", "gitteam")
    found = call(root, "task", "add", "Two")
    assert (found.code, "checked out" in found.err, found.err.count("\n")) == (1, True, 1)
    git(root, "worktree", "remove", "../linked")
    assert call(root, "task", "add", "Two").code == 0
    sound(root)


def test_doctor_notices_an_object_that_was_pruned_and_writes_it_again_from_the_file(root: Path) -> None:
    (path,) = (root / ".tasks").glob("1-*.md")
    oid = git(root, "hash-object", str(path))
    (root / ".git/objects" / oid[:2] / oid[2:]).unlink()
    found = call(root, "doctor")
    assert (found.code, oid[:10] in found.out) == (1, True)
    assert call(root, "doctor", "--repair").code == 0
    sound(root)


@pytest.mark.parametrize(
    "what", ["gitteam", "gitteam~1", "gitteam^{tree}", "gitteam:.tasks", "gitteam~1:.tasks/1-one.md"]
)
def test_doctor_names_what_is_missing_and_does_not_send_round_in_circles(what: str, root: Path) -> None:
    oid = git(root, "rev-parse", what)
    (root / ".git/objects" / oid[:2] / oid[2:]).unlink()
    found = call(root, "doctor", "--repair")
    if found.code:
        assert "fetch" in found.out or "git update-ref" in found.out, found  # what to type
        wrong = [line for line in found.out.splitlines() if line.startswith("wrong")]
        assert all("gitteam doctor" not in line or "git update-ref" in line for line in wrong), wrong
    else:
        sound(root)


def test_a_wait_that_another_git_ended_is_not_lost(root: Path) -> None:
    """The ref's lock is held by somebody for a moment: the change waits for it."""
    lock = root / ".git/refs/heads/gitteam.lock"
    lock.touch()
    child = command(root, "task", "add", "Two").go()
    until(lambda: re.search(r"process \d+", (root / ".git/gitteam/lock").read_text()), "the change begun")
    lock.unlink()
    assert child.end().out == "2 Two\n"
    sound(root)
