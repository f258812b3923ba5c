"""What holds between the steps of a change: retries, interruptions, and threads that read beside it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import check_everything, git, gitteam, until

from gitteam import Team
from gitteam.layout import inbox_path
from gitteam.repo import Repo
from gitteam.runner import Process


def move_the_branch(repo: Path) -> None:
    """What a person's own commit, or a fetch into the branch, does."""
    commit = git(repo, "commit-tree", "-p", "gitteam", "-m", "theirs", "gitteam^{tree}")
    git(repo, "update-ref", "refs/heads/gitteam", commit)


def test_a_change_that_is_committed_is_not_decided_again(
    team: Team, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody appends while the inbox is replaced, and the branch moves while that is being taken in."""
    team.send("bob", "zero")
    original, moves = Repo.move_ref, []
    with open(repo / inbox_path("bob"), "ab", buffering=0) as inbox:

        def move_ref(self: Repo, *args: Any, **kwargs: Any) -> None:
            moves.append(1)
            if len(moves) == 2:
                move_the_branch(repo)
            original(self, *args, **kwargs)
            if len(moves) == 1:
                inbox.write(b'{"content": "by hand"}\n')

        monkeypatch.setattr(Repo, "move_ref", move_ref)
        team.send("bob", "once")
    monkeypatch.undo()
    assert sorted(message.content for message in team.inbox("bob")) == ["by hand", "once", "zero"]
    check_everything(team)


def test_a_branch_that_moves_before_the_commit_is_a_new_decision(
    team: Team, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, moves = Repo.move_ref, []

    def move_ref(self: Repo, *args: Any, **kwargs: Any) -> None:
        moves.append(1)
        if len(moves) == 1:
            move_the_branch(repo)
        original(self, *args, **kwargs)

    monkeypatch.setattr(Repo, "move_ref", move_ref)
    task = team.add("Ours")
    assert (len(moves), task.id) == (2, 1)
    monkeypatch.undo()
    check_everything(team)


def test_an_interrupted_change_does_not_answer_for_the_next_one(
    team: Team, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.add("One")

    before = git(repo, "rev-parse", "gitteam")

    def interrupted(self: Process) -> bytes:
        until(lambda: git(repo, "rev-parse", "gitteam") != before)  # git has answered; nobody has listened
        raise KeyboardInterrupt

    monkeypatch.setattr(Process, "line", interrupted)
    with pytest.raises(KeyboardInterrupt):
        team.add("Two")
    monkeypatch.undo()
    (repo / ".git/refs/heads/gitteam.lock").touch()  # as a git leaves it that was killed: the next change has to wait
    task = team.add("Three")
    assert git(repo, "show", f"gitteam:{task.path}").startswith("---\nsubject: Three")
    check_everything(team)


def test_threads_that_read_packed_objects_do_not_read_each_others(team: Team, repo: Path) -> None:
    for number in range(12):
        team.add(f"Task {number}", "y" * 50 * number)
    git(repo, "gc", "-q")
    for path in (repo / ".tasks").glob("*.md"):
        path.write_text("---\nstatus: nonsense\n---\n")  # so that readers have to ask the history
    with Team(repo) as fresh:
        expected = [task.text for task in fresh.tasks()]
        found: list[object] = []

        def read() -> None:
            try:
                for _ in range(15):
                    found.append([task.text for task in fresh.tasks()] == expected)
            except BaseException as e:
                found.append(e)

        threads = [threading.Thread(target=read, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert found == [True] * 60


def test_the_number_of_a_bad_file_that_is_known_already_stays_taken(
    team: Team, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitteam.disk.RACY_NS", -1)  # what was seen once is not looked at again
    team.add("One")
    (repo / ".tasks/2-foo.md").write_text("---\nstatus: nonsense\nsubject: x\n---\n")
    assert list(team.status().unreadable) == [".tasks/2-foo.md"]
    (repo / ".tasks/foo.md").write_text("Foo\n")
    assert [task.id for task in team.tasks()] == [1, 3]
    assert team.add("Four").id == 4


def test_a_file_in_the_way_is_one_files_problem(team: Team, repo: Path) -> None:
    (repo / ".tasks/1-foo.md").mkdir()
    (repo / ".tasks/foo.md").write_text("Foo\n")
    team.add("Another")
    assert ".tasks/1-foo.md" in team.status().unreadable


def test_an_inbox_that_somebody_takes_is_not_waited_for_for_ever(team: Team, repo: Path) -> None:
    team.send("bob", "hello")
    with team.take("bob"):
        found = gitteam(repo, "inbox", "bob", "--take", GITTEAM_LOCK_TIMEOUT="0.2")
    assert (found.code, found.err) == (5, "gitteam: somebody else is taking bob's messages: try again\n")


def test_uninstalling_a_tracked_board_does_not_tell_to_delete_the_branch(repo: Path) -> None:
    gitteam(repo, "init", "--branch", "main")
    found = gitteam(repo, "uninstall", "--yes")
    assert "git branch -D" not in found.out + found.err
    git(repo, "revert", "--no-edit", "HEAD")
    assert gitteam(repo, "task", "add", "Again").code == 0
