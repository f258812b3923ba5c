"""Tracked mode: the board as ordinary files on a branch that is checked out, beside the person's own work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Result, check_everything, diary, git, gitteam, until
from program import call
from snapshot import difference, snapshot

from gitteam import Team
from gitteam.errors import GitteamError, Refused
from gitteam.repo import Repo


@pytest.fixture
def tracked(repo: Path) -> Iterator[Team]:
    """A team on main, with alice and bob."""
    Team.init(repo, branch="main")
    with Team(repo) as team:
        team.add_member("alice", "backend")
        team.add_member("bob", "frontend")
        yield team


def refused(result: Result, code: int, *words: str) -> None:
    assert result.code == code, result
    assert len(result.err.strip().splitlines()) == 1, result
    for word in words:
        assert word in result.err, result


def is_clean(repo: Path) -> bool:
    return git(repo, "status", "--porcelain") == ""


# -- what git shows -------------------------------------------------------------------------------


def test_plain_git_log_shows_the_diary(tracked: Team, repo: Path) -> None:
    tracked.add("Design the schema")
    assert git(repo, "log", "-1", "--format=%s") == "Jane Doe adds #1: Design the schema"
    assert git(repo, "log", "--format=%s", "--reverse").splitlines()[0] == "first"


def test_status_is_clean_after_init(repo: Path) -> None:
    assert gitteam(repo, "init", "--branch", "main", "--json").json["tracked"] is True
    assert is_clean(repo)
    assert "config.json" in git(repo, "ls-files", ".team")


def drop(repo: Path) -> Callable[[], object]:
    return lambda: (repo / ".tasks/dropped.md").write_text("Dropped\n")


def edit(repo: Path) -> Callable[[], object]:
    def append() -> None:
        with (repo / ".tasks/1-first.md").open("a") as f:
            f.write("by hand\n")

    return append


def test_status_is_clean_after_each_operation(tracked: Team, repo: Path) -> None:
    operations: list[Callable[[], object]] = [
        lambda: tracked.add("First"), lambda: tracked.add("Second", blocked_by=[1]), lambda: tracked.claim(by="alice"),
        lambda: tracked.note(1, "a note"), lambda: tracked.release(1, by="alice"), lambda: tracked.claim(1, by="bob"),
        lambda: tracked.done(1, "done", by="bob"), lambda: tracked.send("alice", "hello"),
        lambda: tracked.broadcast("all"), lambda: tracked.cancel(2), lambda: tracked.add_member("carol"),
        lambda: tracked.remove_member("carol"),
        edit(repo), drop(repo), lambda: take(tracked), lambda: tracked.block(3, tracked.add("Fourth").id),
    ]  # fmt: skip
    for operation in operations:
        operation()
        tracked.tasks()
        assert is_clean(repo)
    check_everything(tracked)


def take(team: Team) -> None:
    with team.take("alice") as messages:
        assert messages


def test_status_is_clean_after_a_sweep(tracked: Team, repo: Path) -> None:
    tracked.ledger.change("user", fill)
    for number in range(1, 4):
        tracked.done(number)
    assert (repo / ".tasks/done/0001-0099").is_dir()
    assert is_clean(repo)


def fill(change: Any) -> None:
    """A hundred finished tasks, but for the first three, in one commit."""
    for number in range(1, 102):
        status = "completed" if number > 3 else "pending"
        text = f"---\nsubject: Task {number}\nstatus: {status}\nowner:\nblockedBy: []\n---\n"
        change.write(f".tasks/{number}-task.md", text.encode())
    change.story.tell("added", "a hundred tasks")


@pytest.mark.parametrize(
    "attributes", ["* filter=up\n", "* text eol=crlf\n", "* ident\n", "/.t*/** working-tree-encoding=UTF-16\n",
                   "* text=auto\n"]
)  # fmt: skip
def test_status_is_clean_whatever_the_attributes_are(attributes: str, repo: Path) -> None:
    git(repo, "config", "filter.up.clean", "tr a-z A-Z")
    git(repo, "config", "filter.up.smudge", "cat")
    git(repo, "config", "core.autocrlf", "true")
    (repo / ".gitattributes").write_text(attributes)
    git(repo, "add", "--renormalize", ".")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "attributes")
    Team.init(repo, branch="main")
    with Team(repo) as team:
        team.add_member("alice")
        team.send("alice", "$Id$")
        team.add("First", "$Id$")
    assert git(repo, "status", "--porcelain", "--", ".team", ".tasks") == ""


INDEXES = {
    "split": {"core.splitIndex": "true"}, "untracked cache": {"core.untrackedCache": "true"},
    "version 4": {"index.version": "4"}, "many files": {"feature.manyFiles": "true"},
    "sparse": {"core.sparseCheckout": "true", "core.sparseCheckoutCone": "true", "index.sparse": "true"},
}  # fmt: skip


@pytest.mark.parametrize("kind", INDEXES)
def test_status_is_clean_whatever_kind_of_index_it_is(kind: str, repo: Path) -> None:
    for key, value in INDEXES[kind].items():
        git(repo, "config", key, value)
    (repo / "code").mkdir()
    (repo / "code/main.py").write_text("print()\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "code")
    git(repo, "status")
    Team.init(repo, branch="main")
    with Team(repo) as team:
        team.claim(team.add("First").id)
        assert is_clean(repo)
        (repo / "code/main.py").write_text("print(1)\n")
        team.done(1)
        assert git(repo, "status", "--porcelain") == " M code/main.py"


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",), ("--separate-git-dir=../elsewhere",)])
def test_board_may_be_the_first_thing_on_a_branch(options: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "project"
    path.mkdir()
    git(path, "init", "-q", *options)
    (path / "code.py").write_text("print()\n")
    git(path, "add", "code.py")
    assert call(path, "init", "--branch", "main", "--json").json["tracked"] is True
    assert call(path, "task", "add", "First").code == 0
    assert git(path, "status", "--porcelain") == "A  code.py"
    git(path, "commit", "-qm", "code")
    with Team(path) as team:
        assert team.claim(1).owner == "user"
        check_everything(team)
    assert is_clean(path)


# -- the person's index, files and refs -----------------------------------------------------------


def test_only_the_boards_index_entries_change(repo: Path) -> None:
    (repo / "staged.txt").write_text("staged\n")
    (repo / "flagged.txt").write_text("flagged\n")
    (repo / "assumed.txt").write_text("assumed\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "files")
    git(repo, "update-index", "--skip-worktree", "flagged.txt")
    git(repo, "update-index", "--assume-unchanged", "assumed.txt")
    (repo / "staged.txt").write_text("staged again\n")
    git(repo, "add", "staged.txt")
    (repo / "new.txt").write_text("new\n")
    git(repo, "add", "-N", "new.txt")
    (repo / "README.md").write_text("# changed\n")

    def entries() -> list[str]:
        return [line for line in git(repo, "ls-files", "-s", "-v").splitlines() if "\t.t" not in line]

    before, status = entries(), git(repo, "status", "--porcelain")
    Team.init(repo, branch="main")
    with Team(repo) as team:
        team.add_member("alice")
        team.add("First")
        team.claim(by="alice")
    assert entries() == before
    assert git(repo, "status", "--porcelain") == status
    assert git(repo, "diff", "--cached", "--name-only") == "staged.txt"
    assert "staged" not in git(repo, "log", "--name-only", "--format=", "-3")


def test_nothing_but_index_branch_and_reflogs_changes(repo: Path) -> None:
    (repo / "untracked.txt").write_text("untracked\n")
    (repo / "README.md").write_text("# changed\n")
    before = snapshot(repo, branch="main", exclude=False)
    Team.init(repo, branch="main")
    with Team(repo) as team:
        team.add("First")
        team.claim(1)
        team.done(1)
    assert difference(before, snapshot(repo, branch="main", exclude=False)) == {".git/index", ".git/logs/HEAD"}


# -- when it refuses ------------------------------------------------------------------------------


def conflict(repo: Path) -> None:
    """Two branches that cannot be merged by themselves."""
    git(repo, "switch", "-qc", "feature")
    (repo / "README.md").write_text("# feature\n")
    git(repo, "commit", "-qam", "on feature")
    git(repo, "switch", "-q", "main")
    (repo / "README.md").write_text("# main\n")
    git(repo, "commit", "-qam", "on main")


def merging(repo: Path) -> None:
    conflict(repo)
    git(repo, "merge", "-q", "feature", check=False)


def rebasing(repo: Path) -> None:
    conflict(repo)
    git(repo, "rebase", "-q", "feature", check=False)


def applying(repo: Path) -> None:
    conflict(repo)
    patch = git(repo, "format-patch", "-1", "--stdout", "feature")
    git(repo, "am", "-q", check=False, input=patch)


def cherry_picking(repo: Path) -> None:
    conflict(repo)
    git(repo, "cherry-pick", "feature", check=False)


def reverting(repo: Path) -> None:
    conflict(repo)
    (repo / "README.md").write_text("# main again\n")
    git(repo, "commit", "-qam", "again on main")
    git(repo, "revert", "--no-edit", "HEAD~1", check=False)


def index_locked(repo: Path) -> None:
    (repo / ".git/index.lock").write_text("")


def head_locked(repo: Path) -> None:
    (repo / ".git/HEAD.lock").write_text("")


def other_branch(repo: Path) -> None:
    git(repo, "switch", "-qc", "other")


def branch_without_a_board(repo: Path) -> None:
    git(repo, "switch", "-qc", "old", git(repo, "rev-list", "--max-parents=0", "HEAD"))


def detached(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")


BUSY = [
    (merging, "a merge"), (rebasing, "main"), (applying, "a rebase"), (cherry_picking, "a cherry-pick"),
    (reverting, "a revert"), (index_locked, "a git command"), (head_locked, "git"), (other_branch, "git switch main"),
    (branch_without_a_board, "git switch main"), (detached, "git switch main"),
]  # fmt: skip
STATES = pytest.mark.parametrize(("state", "word"), BUSY, ids=[row[0].__name__ for row in BUSY])


@STATES
def test_writing_refuses_with_one_line(state: Callable[[Path], None], word: str, tracked: Team, repo: Path) -> None:
    tracked.add("First")
    tracked.close()
    state(repo)
    before = snapshot(repo, branch="main", exclude=False)
    tip, aside = git(repo, "rev-parse", "main"), (repo / ".git/refs/heads/main").stat().st_mtime_ns
    for words in (("task", "add", "x"), ("send", "alice", "x")):
        refused(call(repo, *words), 1, word)
    assert (git(repo, "rev-parse", "main"), (repo / ".git/refs/heads/main").stat().st_mtime_ns) == (tip, aside)
    assert difference(before, snapshot(repo, branch="main", exclude=False)) == set()


@STATES
def test_reading_works_all_the_same(state: Callable[[Path], None], word: str, tracked: Team, repo: Path) -> None:
    tracked.add("First")
    tracked.send("alice", "hello")
    tracked.close()
    state(repo)
    for words in (("task",), ("status",), ("inbox", "alice"), ("member",), ("log",), ("log", "alice"), ()):
        result = call(repo, *words)
        assert result.code == 0, result
    assert {"alice", "bob"} == {m["name"] for m in call(repo, "member", "--json").json}
    if (repo / ".tasks").is_dir() and state is not branch_without_a_board:
        assert [t["subject"] for t in call(repo, "task", "--json").json] == ["First"]
        assert call(repo, "wait", "--as", "alice", "--timeout", "0").code == 0


@STATES
def test_uninstall_refuses_too(state: Callable[[Path], None], word: str, tracked: Team, repo: Path) -> None:
    tracked.add("First")
    state(repo)
    before = snapshot(repo, branch="main", exclude=False)
    refused(call(repo, "uninstall", "--yes"), 1, word)
    assert difference(before, snapshot(repo, branch="main", exclude=False)) == set()
    assert git(repo, "ls-tree", "-r", "--name-only", "main", ".tasks/1-first.md") == ".tasks/1-first.md"


@pytest.mark.parametrize("state", [merging, cherry_picking, reverting, index_locked], ids=lambda s: s.__name__)
def test_init_refuses_in_the_middle_of_something(state: Callable[[Path], None], repo: Path) -> None:
    state(repo)
    tip = git(repo, "rev-parse", "main")
    refused(call(repo, "init", "--branch", "main"), 1, "under way")
    assert git(repo, "rev-parse", "main") == tip
    assert not (repo / ".team").exists()
    assert not (repo / ".git/gitteam").exists()


def test_everything_goes_on_when_the_merge_is_done(tracked: Team, repo: Path) -> None:
    task = tracked.add("First")
    merging(repo)
    with (repo / task.path).open("a") as f:
        f.write("written during the merge\n")
    with pytest.raises(GitteamError):
        tracked.add("Second")
    git(repo, "checkout", "--ours", "README.md")
    git(repo, "add", "README.md")
    git(repo, "commit", "-qm", "merged")
    assert tracked.add("Second").id == 2
    assert "written during the merge" in git(repo, "show", f"main:{task.path}")
    assert is_clean(repo)
    check_everything(tracked)


# -- the person's commits between ours ------------------------------------------------------------


def test_persons_own_commits_stand_between_ours(tracked: Team, repo: Path) -> None:
    tracked.add("First")
    (repo / "code.py").write_text("print()\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "my own")
    tracked.add("Second")
    assert diary(repo, "main")[-3:] == ["Jane Doe adds #1: First", "my own", "Jane Doe adds #2: Second"]
    check_everything(tracked)


def test_persons_merge_stands_between_ours(tracked: Team, repo: Path) -> None:
    tracked.add("First")
    git(repo, "switch", "-qc", "feature")
    (repo / "code.py").write_text("print()\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "on feature")
    git(repo, "switch", "-q", "main")
    tracked.claim(1, by="alice")
    git(repo, "merge", "-q", "--no-ff", "-m", "merge feature", "feature")
    assert tracked.task(1).owner == "alice"
    assert tracked.done(1, by="alice").status == "completed"
    assert is_clean(repo)
    check_everything(tracked)


def test_merge_that_brings_tasks_is_taken_in(tracked: Team, repo: Path) -> None:
    tracked.add("First")
    git(repo, "switch", "-qc", "feature")
    (repo / ".tasks/idea.md").write_text("An idea\n")
    with (repo / ".tasks/1-first.md").open("a") as f:
        f.write("thought of on the way\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "an idea")
    git(repo, "switch", "-q", "main")
    tracked.add("Second")
    git(repo, "merge", "-q", "--no-ff", "-m", "merge", "feature")
    assert [(t.id, t.subject) for t in tracked.tasks()] == [(1, "First"), (2, "Second"), (3, "An idea")]
    assert "thought of on the way" in tracked.task(1).text
    assert is_clean(repo)
    check_everything(tracked)


def write_values(path: Path, **values: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(
        "".join(f"{k}: {values[k]}\n" if (k := line.partition(":")[0]) in values else line for line in lines)
    )


COMMITTED = {
    "completes": ({"status": "completed"}, {"status": "completed"}),
    "claims": ({"status": "in_progress", "owner": "alice"}, {"status": "in_progress", "owner": "alice", "claim": 1}),
    "renames": ({"subject": "Better words"}, {"subject": "Better words", "status": "pending"}),
    "cancels": ({"status": "cancelled"}, {"status": "cancelled"}),
}


@pytest.mark.parametrize("what", COMMITTED)
def test_hand_edit_in_a_persons_commit(what: str, tracked: Team, repo: Path) -> None:
    values, expected = COMMITTED[what]
    task = tracked.add("First")
    write_values(repo / task.path, **values)
    git(repo, "commit", "-qam", "edited by hand")
    found = tracked.task(1).to_json()
    assert {key: found[key] for key in expected} == expected
    assert "edited by hand" in diary(repo, "main")
    assert is_clean(repo)
    check_everything(tracked)


def test_new_file_in_a_persons_commit_gets_a_number(tracked: Team, repo: Path) -> None:
    tracked.add("First")
    (repo / ".tasks/fix-login.md").write_text("Fix the login page\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "a new task")
    assert tracked.task(2).path == ".tasks/2-fix-login.md"
    assert not (repo / ".tasks/fix-login.md").exists()
    assert is_clean(repo)
    check_everything(tracked)


def test_task_removed_by_a_persons_commit_is_cancelled(tracked: Team, repo: Path) -> None:
    tracked.add("First")
    tracked.add("Second")
    git(repo, "rm", "-q", ".tasks/1-first.md")
    git(repo, "commit", "-qm", "not needed")
    assert tracked.task(1).status == "cancelled"
    assert is_clean(repo)
    check_everything(tracked)


def test_message_in_a_persons_commit_is_a_message(tracked: Team, repo: Path) -> None:
    tracked.send("alice", "one")
    with (repo / ".team/inbox/alice.jsonl").open("a") as f:
        f.write('{"content": "two"}\n')
    git(repo, "commit", "-qam", "a message")
    assert [m.content for m in tracked.inbox("alice")] == ["one", "two"]
    assert is_clean(repo)


def test_bad_file_in_a_persons_commit_does_not_lose_the_task(tracked: Team, repo: Path) -> None:
    task = tracked.add("First")
    (repo / task.path).write_text("---\nstatus: nonsense\n---\n")
    git(repo, "commit", "-qam", "broken")
    assert tracked.task(1).subject == "First"
    assert tracked.add("Second").id == 2
    check_everything(tracked)


def test_staged_edit_of_a_task_is_taken_in(tracked: Team, repo: Path) -> None:
    task = tracked.add("First")
    write_values(repo / task.path, subject="Staged words")
    git(repo, "add", task.path)
    assert tracked.task(1).subject == "Staged words"
    assert is_clean(repo)


def test_id_is_not_reused_because_of_a_stray_directory_in_done(tracked: Team, repo: Path) -> None:
    for path in (".tasks/done/0100-0199/150-old.md", ".tasks/done/archive-of-last-year/notes.md"):
        (repo / path).parent.mkdir(parents=True)
        (repo / path).write_text("---\nsubject: Old\nstatus: completed\n---\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "an archive")
    assert tracked.add("Next").id == 151


# -- a person's git at the same moment ------------------------------------------------------------


@pytest.mark.parametrize("ours", ["add", "claim"])
def test_persons_commit_at_the_moment_of_ours_undoes_nothing(
    ours: str, tracked: Team, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the branch and the index: whoever commits then must not commit the old index over the new branch."""
    for number in range(4):
        tracked.add(f"Before {number}")
    (repo / "code.py").write_text("print()\n")
    git(repo, "add", "code.py")
    original = Repo.move_ref

    def and_then_the_person_commits(self: Repo, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        monkeypatch.setattr(Repo, "move_ref", original)
        git(repo, "commit", "-qm", "at this very moment", check=False)

    monkeypatch.setattr(Repo, "move_ref", and_then_the_person_commits)
    task = tracked.add("First") if ours == "add" else tracked.claim(2, by="alice")
    git(repo, "commit", "-qm", "a moment later", check=False)
    found = tracked.task(task.id)
    assert (found.status, found.owner, found.path) == (task.status, task.owner, task.path)
    assert is_clean(repo)
    assert "code.py" in git(repo, "ls-tree", "--name-only", "main")
    check_everything(tracked)


def test_index_locked_at_the_moment_of_the_commit_is_mended_later(
    tracked: Team, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Repo.move_ref

    def and_then_the_index_is_locked(self: Repo, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not (repo / ".git/index.lock").exists():
            (repo / ".git/index.lock").write_text("")

    with monkeypatch.context() as patch:
        patch.setattr(Repo, "move_ref", and_then_the_index_is_locked)
        with suppress(GitteamError):
            tracked.add("First")
    (repo / ".git/index.lock").unlink(missing_ok=True)
    tracked.add("Second")
    assert is_clean(repo)
    assert [subject for subject in diary(repo, "main") if "adds #1" in subject] == ["Jane Doe adds #1: First"]
    check_everything(tracked)


MOMENTS = {
    "before the branch": ("Repo.move_ref", "KILL"),
    "after the branch": ("Repo.move_ref", "original(*args, **kwargs); KILL"),
    "before the index": ("os.rename", "KILL if args[1].endswith('/index') else original(*args, **kwargs)"),
    "after the index": ("os.rename", "original(*args, **kwargs); KILL if args[1].endswith('/index') else None"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_between_branch_and_index_the_next_command_mends_it(moment: str, tracked: Team, repo: Path) -> None:
    tracked.add("First")
    what, then = MOMENTS[moment]
    code = (
        "import os\nfrom gitteam import Team\nfrom gitteam.repo import Repo\n"
        f"original = {what}\ndef patched(*args, **kwargs):\n    {then}\n"
        f"{what} = patched\nTeam('.').note(1, 'a note')\n"
    ).replace("KILL", "os.kill(os.getpid(), 9)")
    done = subprocess.run([sys.executable, "-c", code], cwd=repo, capture_output=True, text=True)
    assert done.returncode == -9, done
    assert gitteam(repo, "task", "add", "Second").code == 0
    assert is_clean(repo)
    assert not (repo / ".git/index.lock").exists()
    check_everything(tracked)


@pytest.mark.long
def test_people_and_team_commit_at_the_same_time(tracked: Team, repo: Path) -> None:
    """Both may be refused and try again; nothing of either is lost or undone."""
    script = (
        "for i in $(seq 40); do echo $i > file-$i; "
        'until git add file-$i && git commit -qm "mine $i" -- file-$i; do sleep 0.01; done; done'
    )
    person = subprocess.Popen(["sh", "-c", script], cwd=repo, stderr=subprocess.DEVNULL)
    added = 0
    while person.poll() is None or added < 60:
        with suppress(Refused):
            tracked.add(f"Task {added}")
            added += 1
    assert person.wait() == 0
    assert len(tracked.tasks()) == added
    assert all(task.status == "pending" for task in tracked.tasks())
    subjects = diary(repo, "main")
    assert [s for s in subjects if s.startswith("mine ")] == [f"mine {i}" for i in range(1, 41)]
    assert sum(" adds #" in s for s in subjects) == added
    assert is_clean(repo)
    check_everything(tracked)


# -- the branch moved back or rewritten by the person ---------------------------------------------


def undo_own_commit(repo: Path) -> None:
    git(repo, "reset", "-q", "--hard", "HEAD~1")


def amend(repo: Path) -> None:
    git(repo, "commit", "-q", "--amend", "-m", "my own, better")


def rebase(repo: Path) -> None:
    git(repo, "rebase", "-q", "--exec", "git commit -q --amend --no-edit --date=2001-01-01T00:00:00", "HEAD~2")


@pytest.mark.parametrize("rewrite", [undo_own_commit, amend, rebase], ids=lambda f: f.__name__)
def test_persons_rewriting_is_noticed_and_repaired_as_they_left_it(
    rewrite: Callable[[Path], None], tracked: Team, repo: Path
) -> None:
    tracked.add("First")
    (repo / "code.py").write_text("print()\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "my own")
    tracked.tasks()
    rewrite(repo)
    head = git(repo, "rev-parse", "HEAD")
    refused(call(repo, "task", "add", "x"), 1, "gitteam doctor")
    assert call(repo, "doctor", "--repair").code == 0
    assert git(repo, "merge-base", head, "main") == head
    assert is_clean(repo)
    assert tracked.add("Second").id == 2
    assert is_clean(repo)


# -- clones ---------------------------------------------------------------------------------------


def clone(repo: Path, *options: str) -> Path:
    git(repo.parent, "clone", "-q", *options, str(repo), "clone")
    return repo.parent / "clone"


def test_clone_needs_no_init(tracked: Team, repo: Path) -> None:
    tracked.add("First")
    copy = clone(repo)
    assert [t["subject"] for t in gitteam(copy, "task", "--json").json] == ["First"]
    assert gitteam(copy, "task", "claim", "--as", "alice", "--json").json["claim"] == 1
    assert is_clean(copy)
    assert git(copy, "rev-list", "--count", "origin/main..main") == "1"


def test_clone_with_crlf_set_has_the_same_bytes(tracked: Team, repo: Path) -> None:
    tracked.add("First")
    tracked.send("alice", "hello")
    copy = clone(repo, "-c", "core.autocrlf=true")
    assert gitteam(copy, "task", "add", "Second").code == 0
    for path in (".team/config.json", ".team/inbox/alice.jsonl", ".tasks/1-first.md"):
        assert (copy / path).read_bytes() == (repo / path).read_bytes()
    assert is_clean(copy)


def test_pulling_brings_the_others_changes(tracked: Team, repo: Path) -> None:
    tracked.add("First")
    copy = clone(repo)
    with Team(copy) as there:
        there.tasks()
        tracked.claim(1, by="alice")
        git(copy, "pull", "-q", "--ff-only")
        assert there.task(1).owner == "alice"
        assert there.done(1, by="alice").status == "completed"
        check_everything(there)
    assert is_clean(copy)


def test_clone_on_another_branch_has_no_team_of_its_own(tracked: Team, repo: Path) -> None:
    git(repo, "branch", "feature")
    copy = clone(repo, "-b", "feature")
    refused(call(copy, "task"), 1, "gitteam init")


# -- uninstall --------------------------------------------------------------------------------------


def test_uninstall_removes_the_files_with_a_commit(tracked: Team, repo: Path) -> None:
    tracked.add("First")
    tracked.ledger.change("user", fill)
    for number in (1, 2, 3):
        tracked.done(number)
    (repo / "staged.txt").write_text("staged\n")
    git(repo, "add", "staged.txt")
    before = git(repo, "rev-parse", "main")
    tracked.close()
    assert gitteam(repo, "uninstall", "--yes").code == 0
    assert git(repo, "rev-parse", "main~1") == before
    assert git(repo, "ls-tree", "-r", "--name-only", "main") == "README.md"
    assert git(repo, "status", "--porcelain") == "A  staged.txt"
    assert sorted(p.name for p in repo.iterdir()) == [".git", "README.md", "staged.txt"]
    assert not (repo / ".git/gitteam").exists()


def test_uninstall_with_history_is_refused(tracked: Team, repo: Path) -> None:
    tip = git(repo, "rev-parse", "main")
    refused(call(repo, "uninstall", "--yes", "--history"), 2, "main")
    assert git(repo, "rev-parse", "main") == tip
    assert (repo / ".team/config.json").exists()


def test_init_after_uninstall_begins_anew(tracked: Team, repo: Path) -> None:
    tracked.add("First")
    tracked.close()
    assert call(repo, "uninstall", "--yes").code == 0
    assert call(repo, "init", "--branch", "main", "--json").json["created"] is True
    assert call(repo, "task", "--json").json == []
    assert is_clean(repo)


# -- from elsewhere -------------------------------------------------------------------------------


def test_linked_worktree_uses_the_board_of_the_main_checkout(tracked: Team, repo: Path) -> None:
    git(repo, "worktree", "add", "-q", "-b", "side", str(repo.parent / "side"))
    assert gitteam(repo.parent / "side", "task", "add", "From the side").code == 0
    assert tracked.task(1).subject == "From the side"
    assert is_clean(repo)
    assert is_clean(repo.parent / "side")
    assert not os.path.exists(repo.parent / "side/.tasks/1-from-the-side.md")


def test_wait_sees_a_task_that_came_by_a_persons_commit(tracked: Team, repo: Path) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "gitteam", "wait", "--as", "alice", "--timeout", "60"],
        cwd=repo, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    git(repo, "switch", "-q", "--detach")
    (repo / ".tasks/later.md").write_text("Later\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "later")
    later = git(repo, "rev-parse", "HEAD")
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--ff-only", later)
    assert waiting.communicate(timeout=60)[0].startswith("task 1 Later")
    until(lambda: waiting.poll() == 0)
