"""A board that grows: sweeping, packing, and costs that stay as they are."""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import age, check_everything, diary, git, gitteam, until
from program import call

from gitteam import Team, layout
from gitteam.change import Change
from gitteam.errors import NotFound


def text_of(number: int, status: str = "completed", owner: str = "", claim: int = 0) -> str:
    claimed = f"claim: {claim}\n" if claim else ""
    return f"---\nsubject: Task {number}\nstatus: {status}\nowner: {owner}\nblockedBy: []\n{claimed}---\n".replace(
        ": \n", ":\n"
    )


def fill(team: Team, numbers: range, status: str = "completed") -> None:
    """Tasks with these numbers, in one commit."""

    def write(change: Change) -> None:
        for number in numbers:
            change.write(f".tasks/{number}-task-{number}.md", text_of(number, status).encode())
        change.story.tell("added", f"{len(numbers)} tasks")

    team.ledger.change("user", write)


def names(repo: Path) -> list[str]:
    return sorted((p.name for p in (repo / ".tasks").glob("*.md")), key=lambda name: int(name.partition("-")[0]))


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    """A team with alice, which does not wait for the disk: here it is about numbers, not about power cuts."""

    def hurry(change: Change) -> None:
        change.put_config(replace(change.config, settings={"durability": "fast"}))
        change.story.tell("edited", "in a hurry")

    Team.init(repo)
    with Team(repo) as team:
        team.ledger.change("user", hurry)
        team.add_member("alice")
        yield team


# -- sweeping -------------------------------------------------------------------------------------


def finish_one(team: Team) -> int:
    """One more finished task, which sets off a sweep if there are enough of them."""
    task = team.add("One more")
    team.done(task.id)
    return task.id


def test_finished_tasks_are_swept_in_bulk_all_but_the_newest(team: Team, repo: Path) -> None:
    fill(team, range(1, 99))
    finish_one(team)
    assert not (repo / ".tasks/done").exists()
    finish_one(team)
    assert diary(repo)[-1] == "gitteam sweeps 80 finished tasks into .tasks/done/"
    assert [int(name.partition("-")[0]) for name in names(repo)] == list(range(81, 101))
    assert len(list((repo / ".tasks/done/0001-0099").iterdir())) == 80
    check_everything(team)


def test_a_directory_in_done_holds_at_most_a_hundred(team: Team, repo: Path) -> None:
    fill(team, range(95, 421))
    finish_one(team)
    found = {
        p.name: sorted(int(f.name.partition("-")[0]) for f in p.iterdir()) for p in (repo / ".tasks/done").iterdir()
    }
    assert set(found) == {"0001-0099", "0100-0199", "0200-0299", "0300-0399", "0400-0499"}
    for name, numbers in found.items():
        low, high = map(int, name.split("-"))
        assert low <= numbers[0] <= numbers[-1] <= high
    check_everything(team)


def test_open_tasks_are_never_swept(team: Team, repo: Path) -> None:
    fill(team, range(1, 51), "pending")
    fill(team, range(51, 60), "failed")
    fill(team, range(60, 180))
    finish_one(team)
    left = names(repo)
    assert len([name for name in left if int(name.partition("-")[0]) < 60]) == 59
    assert len(left) == 59 + 20


def test_work_tree_stays_small_however_much_is_finished(team: Team, repo: Path) -> None:
    most = 0
    for start in (1, 101, 201, 301):
        fill(team, range(start, start + 90))
        for _ in range(10):
            finish_one(team)
            most = max(most, len(names(repo)))
    assert most <= 130
    assert len(team.tasks(finished=True)) == 400
    assert len([line for line in diary(repo) if "sweeps" in line]) == 4
    check_everything(team)


def test_cancelled_tasks_are_swept_too(team: Team, repo: Path) -> None:
    fill(team, range(1, 100), "cancelled")
    team.cancel(team.add("One more").id)
    assert len(list((repo / ".tasks/done").rglob("*.md"))) == 80


def test_file_that_cannot_be_read_is_not_swept(team: Team, repo: Path) -> None:
    fill(team, range(1, 130))
    (repo / ".tasks/5-task-5.md").write_text("---\nstatus: nonsense\n---\n")
    age(repo / ".tasks/5-task-5.md")
    finish_one(team)
    assert (repo / ".tasks/5-task-5.md").read_text() == "---\nstatus: nonsense\n---\n"
    assert not (repo / ".tasks/done/0001-0099/5-task-5.md").exists()


@pytest.fixture
def swept(team: Team) -> Team:
    """1 to 109 in done/, 110 cancelled, 111 failed, the newest twenty still on the board."""
    fill(team, range(1, 110))
    fill(team, range(110, 111), "cancelled")
    fill(team, range(111, 130))
    finish_one(team)
    return team


def test_blocker_is_found_in_done(swept: Team) -> None:
    assert swept.add("After an old one", blocked_by=[1]).ready
    assert swept.add("After all of them", blocked_by=list(range(1, 100))).ready
    cancelled = swept.add("After a cancelled one", blocked_by=[110])
    assert not cancelled.ready
    assert "#110, which was cancelled" in cancelled.reason


def test_swept_task_is_shown_and_noted(swept: Team, repo: Path) -> None:
    assert call(repo, "task", "show", "7", "--json").json["path"] == ".tasks/done/0001-0099/7-task-7.md"
    swept.note(7, "seen again")
    assert "seen again" in (repo / ".tasks/done/0001-0099/7-task-7.md").read_text()
    check_everything(swept)


def test_list_has_the_swept_ones_only_with_all(swept: Team, repo: Path) -> None:
    assert len(call(repo, "task", "--json").json) == 20
    everything = call(repo, "task", "--all", "--json").json
    assert [task["id"] for task in everything] == list(range(1, 131))
    assert call(repo, "task", "list", "--all", "--status", "cancelled", "--json").json[0]["id"] == 110


def test_swept_task_can_be_opened_again(swept: Team, repo: Path) -> None:
    swept.release(3, force=True)
    assert (repo / ".tasks/3-task-3.md").exists()
    assert not (repo / ".tasks/done/0001-0099/3-task-3.md").exists()
    assert swept.task(3).ready
    check_everything(swept)


def test_save_at_the_old_place_of_a_swept_task_reaches_it(swept: Team, repo: Path) -> None:
    (repo / ".tasks/7-task-7.md").write_text(text_of(7) + "an afterthought\n")
    assert swept.task(7).path == ".tasks/done/0001-0099/7-task-7.md"
    assert "an afterthought" in (repo / ".tasks/done/0001-0099/7-task-7.md").read_text()
    assert not (repo / ".tasks/7-task-7.md").exists()
    check_everything(swept)


def test_swept_file_deleted_by_hand_is_put_back_by_the_doctor(swept: Team, repo: Path) -> None:
    path = repo / ".tasks/done/0001-0099/7-task-7.md"
    text = path.read_text()
    path.unlink()
    assert call(repo, "doctor").code == 1
    assert call(repo, "doctor", "--repair").code == 0
    assert path.read_text() == text
    assert call(repo, "doctor").code == 0


def test_whole_of_done_deleted_is_put_back(swept: Team, repo: Path) -> None:
    subprocess.run(["rm", "-r", str(repo / ".tasks/done")], check=True)
    swept.add("Next")
    assert call(repo, "doctor", "--repair").code == 0
    check_everything(swept)
    assert swept.task(7).status == "completed"


def test_unknown_number_is_not_found_among_many(swept: Team) -> None:
    with pytest.raises(NotFound, match="#131"):
        swept.task(131)


# -- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [9, 99, 100, 199, 200, 999, 1000, 9999, 10000, 99999, 100000])
def test_number_is_not_used_again_after_everything_was_swept(last: int, team: Team) -> None:
    def write(change: Change) -> None:
        for number in {1, last - 1, last}:
            change.write(layout.done_path(f"{number}-task.md"), text_of(number).encode())
        change.story.tell("swept", "everything")

    team.ledger.change("user", write)
    assert team.tasks() == []
    assert team.add("Next").id == last + 1
    check_everything(team)


def test_number_of_a_cancelled_task_is_not_used_again(team: Team, repo: Path) -> None:
    team.add("First")
    team.cancel(team.add("Second").id)
    assert team.add("Third").id == 3


# -- packing --------------------------------------------------------------------------------------


def crowd(repo: Path, count: int = 30) -> list[str]:
    """Loose objects in the one directory by which their number is judged; returns their ids."""
    paths, number = [], 0
    while len(paths) < count:
        number += 1
        data = b"crowd %d" % number
        if hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest().startswith("17"):
            paths.append(repo.parent / f"crowd-{number}")
            paths[-1].write_bytes(data)
    return git(repo, "hash-object", "-w", "--", *map(str, paths)).splitlines()


def loose(repo: Path) -> list[Path]:
    objects = repo / ".git/objects"
    return [Path(top, name) for top, _, names in os.walk(objects) for name in names if len(Path(top).name) == 2]


def packs(repo: Path) -> list[Path]:
    return sorted((repo / ".git/objects/pack").glob("*.pack"))


def processes_of(repo: Path) -> list[str]:
    """Whatever still runs with this repository on its command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(repo) in words and int(entry.name) != os.getpid():
                found.append(words)
        except OSError:
            continue
    return found


def test_loose_objects_are_packed_in_the_background(repo: Path) -> None:
    Team.init(repo)
    with Team(repo) as team:
        team.add("First")
        assert packs(repo) == []
        ids = crowd(repo)
        team.add("Second")
        until(lambda: packs(repo) and not loose(repo), "a pack, and no loose object left")
        assert team.add("Third").id == 3
        check_everything(team)
    until(lambda: not processes_of(repo), "the end of packing")
    assert git(repo, "cat-file", "--batch-check=%(objecttype)", input="\n".join(ids)).split() == ["blob"] * 30
    assert gitteam(repo, "doctor").code == 0


def test_packing_goes_on_after_the_command_has_ended(repo: Path) -> None:
    Team.init(repo)
    crowd(repo)
    assert gitteam(repo, "task", "add", "First").code == 0
    until(lambda: packs(repo) and not loose(repo), "a pack")
    until(lambda: not processes_of(repo), "the end of packing")
    assert git(repo, "fsck", "--full", "--strict", "--no-dangling") == ""


def test_packing_prunes_nothing(team: Team, repo: Path) -> None:
    """Not even what nobody refers to, however old it is: it may be part of a commit in the making."""
    old = git(repo, "hash-object", "-w", "--stdin", input="nobody refers to this\n")
    age(repo / ".git/objects" / old[:2] / old[2:])
    crowd(repo)
    team.add("First")
    until(lambda: not loose(repo), "packing")
    assert git(repo, "cat-file", "-p", old) == "nobody refers to this"


def test_packing_leaves_the_persons_packs_alone(team: Team, repo: Path) -> None:
    git(repo, "repack", "-adq")
    (before,) = packs(repo)
    stamp = before.stat().st_mtime_ns, before.stat().st_ino
    crowd(repo)
    team.add("First")
    until(lambda: not loose(repo), "packing")
    assert (before.stat().st_mtime_ns, before.stat().st_ino) == stamp
    assert not list((repo / ".git").glob("gc.*"))


def test_nothing_is_packed_while_there_is_little(team: Team, repo: Path) -> None:
    crowd(repo, 10)
    for number in range(20):
        team.add(f"Task {number}")
    assert packs(repo) == []
    assert not [words for words in processes_of(repo) if "maintenance run" in words]


def test_changes_during_packing_are_all_there(team: Team, repo: Path) -> None:
    for number in range(60):
        crowd(repo, 25 + number % 10)
        team.add(f"Task {number}")
    assert [task.id for task in team.tasks()] == list(range(1, 61))
    until(lambda: not [words for words in processes_of(repo) if "maintenance run" in words], "the end of packing")
    check_everything(team)


def test_packing_that_cannot_go_on_disturbs_nobody(team: Team, repo: Path) -> None:
    (repo / ".git/objects/maintenance.lock").write_text("")
    crowd(repo)
    for number in range(10):
        team.add(f"Task {number}")
    until(lambda: not [words for words in processes_of(repo) if "maintenance run" in words], "the end of packing")
    check_everything(team)


# -- a long history -------------------------------------------------------------------------------


class History:
    """A valid history of any length, written as `git fast-import` reads it."""

    def __init__(self, finished: int, unfinished: int, notes: int):
        self.finished, self.unfinished, self.notes = finished, unfinished, notes
        self.commits = 0

    def stream(self) -> Iterator[str]:
        config = '{"name": "big", "branch": "gitteam", "settings": {}, "members": {"alice": {"role": "backend"}}}\n'
        yield self._commit("Jane Doe <jane@example.com>", "starts team big", "init", {".team/config.json": config})
        for number in range(1, self.finished + 1):
            yield from self._life(number)
            if number % 100 == 0:
                yield self._sweep(range(number - 99, number + 1))
        for number in range(self.finished + 1, self.finished + self.unfinished + 1):
            yield self._put(number, "adds", "added", text_of(number, "pending"), "Jane Doe <jane@example.com>")

    def _life(self, number: int) -> Iterator[str]:
        yield self._put(number, "adds", "added", text_of(number, "pending"), "Jane Doe <jane@example.com>")
        yield self._put(number, "claims", "claimed", text_of(number, "in_progress", "alice", 1))
        noted = ""
        for i in range(self.notes):
            noted += ("" if noted else "\n## Notes\n\n") + f"- 2026-01-01T00:00:0{i}Z alice: note {i}\n"
            yield self._put(number, "notes on", "noted", text_of(number, "in_progress", "alice", 1) + noted)
        yield self._put(number, "completes", "completed", text_of(number, "completed", "alice", 1) + noted)

    def _put(self, number: int, verb: str, event: str, text: str, author: str = "alice <alice@gitteam.invalid>") -> str:
        self._texts = (
            {**getattr(self, "_texts", {}), number: text} if event == "completed" else getattr(self, "_texts", {})
        )
        files = {f".tasks/{number}-task-{number}.md": text}
        return self._commit(author, f"{verb} #{number}: Task {number}", event, files, number)

    def _sweep(self, numbers: range) -> str:
        files: dict[str, str | None] = {}
        for number in numbers:
            low = number // 100 * 100
            files[f".tasks/{number}-task-{number}.md"] = None
            files[f".tasks/done/{max(low, 1):04d}-{low + 99:04d}/{number}-task-{number}.md"] = self._texts.pop(number)
        return self._commit("gitteam <gitteam@gitteam.invalid>", "sweeps a hundred", "swept", files)

    def _commit(
        self,
        author: str,
        sentence: str,
        event: str,
        files: dict[str, str] | dict[str, str | None],
        task: int | None = None,
    ) -> str:
        self.commits += 1
        when = f"{1_700_000_000 + self.commits} +0000"
        trailer = f"Team-Task: {task}\n" if task else ""
        name = author.partition(" <")[0]
        message = f"{name} {sentence}\n\nTeam-Op: {self.commits:016x}\nTeam-Event: {event}\n{trailer}"
        lines = [f"commit refs/heads/gitteam\nauthor {author} {when}\ncommitter Jane Doe <jane@example.com> {when}\n"]
        lines.append(f"data {len(message.encode())}\n{message}\n")
        for path, text in files.items():
            if text is None:
                lines.append(f"D {path}\n")
            else:
                lines.append(f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n")
        return "".join(lines)

    def write_into(self, repo: Path) -> None:
        process = subprocess.Popen(["git", "fast-import", "--quiet"], cwd=repo, stdin=subprocess.PIPE, text=True)
        assert process.stdin
        for part in self.stream():
            process.stdin.write(part)
        process.stdin.close()
        assert process.wait() == 0


def big_team(repo: Path, history: History) -> Path:
    history.write_into(repo)
    made = Team.init(repo)
    assert not made.created
    return repo


def test_history_of_thousands_of_commits_is_read_from_its_end(repo: Path) -> None:
    history = History(finished=400, unfinished=20, notes=3)
    big_team(repo, history)
    with Team(repo) as team:
        assert [entry.task for entry in team.log(limit=3)] == [420, 419, 418]
        assert [entry.event for entry in team.log(7)] == ["completed", *["noted"] * 3, "claimed", "added"]
        assert len(list(team.log("alice", limit=10_000))) == 400 * 5
        assert [task.id for task in team.tasks()] == list(range(401, 421))
        assert team.claim(by="alice").id == 401
        assert team.add("Next", blocked_by=[1, 400]).ready
        check_everything(team)
    assert history.commits > 2000


def test_log_does_not_wait_for_a_history_it_does_not_show(repo: Path) -> None:
    """git is stopped after the entries that were asked for: what is beyond them may be as long as it likes."""
    big_team(repo, History(finished=200, unfinished=1, notes=0))
    with Team(repo) as team:
        entries = team.log(limit=10_000)
        assert next(entries).task == 201
        entries.close()  # type: ignore[attr-defined]
        assert not [words for words in processes_of(repo) if " log " in words]


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small board and a big one of 50,000 commits and 10,000 tasks; 500 are open in both."""
    made = []
    for name, history in (("small", History(100, 500, 1)), ("big", History(9_900, 500, 2))):
        path = tmp_path_factory.mktemp(name) / "project"
        path.mkdir()
        git(path, "init", "-q")
        for key, value in (("user.name", "Jane Doe"), ("user.email", "jane@example.com")):
            git(path, "config", key, value)
        made.append(big_team(path, history))
    return made[0], made[1]


def timed(action: Callable[[], object], times: int = 7) -> float:
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "factor"),
    [
        (("task",), 3), (("task", "show", "50"), 3), (("log",), 3), (("status",), 3), (("task", "add", "x"), 3),
        (("log", "50"), 20), (("log", "alice"), 3), (("inbox", "alice"), 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_command_stays_as_quick_with_a_hundred_times_the_history(
    words: tuple[str, ...], factor: int, boards: tuple[Path, Path]
) -> None:
    small, big = (timed(lambda path=path: run_quietly(path, *words)) for path in boards)  # type: ignore[misc]
    assert big < factor * small, f"{big / small:.1f} times as long"


def run_quietly(path: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "gitteam", *words], cwd=path, check=True, capture_output=True)


@pytest.mark.long
def test_claim_stays_as_quick_with_a_hundred_times_the_history(boards: tuple[Path, Path]) -> None:
    taken = []
    for path in boards:
        with Team(path) as team:

            def claim_and_release(team: Team = team) -> None:
                team.release(team.claim(by="alice").id, by="alice")

            claim_and_release()
            taken.append(timed(claim_and_release, 30))
    assert taken[1] < 3 * taken[0], f"{taken[1] / taken[0]:.1f} times as long"


@pytest.mark.long
def test_big_board_is_sound(boards: tuple[Path, Path]) -> None:
    assert int(git(boards[1], "rev-list", "--count", "gitteam")) >= 50_000
    assert len(call(boards[1], "task", "--all", "--json").json) >= 10_000
    assert gitteam_slowly(boards[1], "doctor") == 0


def gitteam_slowly(path: Path, *words: str) -> int:
    """Like `gitteam`, for a command that may take its time."""
    return subprocess.run([sys.executable, "-m", "gitteam", *words], cwd=path, timeout=600).returncode


@pytest.mark.long
def test_objects_of_thousands_of_changes_are_packed(team: Team, repo: Path) -> None:
    for number in range(1, 1501):
        team.done(team.add(f"Task {number}").id)
    until(lambda: not [words for words in processes_of(repo) if "maintenance run" in words], "the end of packing")
    assert packs(repo)
    assert len(loose(repo)) < 10_000
    assert len(team.tasks(finished=True)) == 1500
    check_everything(team)
