"""Waiting: every change wakes, by an event or at the next look; lost events lose nothing; idling costs nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import TIMEOUT, git, gitteam, until
from program import call
from watchdog.observers.inotify_move_event_grouper import InotifyMoveEventGrouper

from gitteam import Team, watch
from gitteam.change import Change
from gitteam.errors import NothingToDo

NEVER = 10_000.0  # for a poll that must not be what wakes


class Waiter:
    """`Team.wait` in a thread of its own, with what it saw on the way."""

    def __init__(self, repo: Path, name: str = "alice"):
        self.team = Team(repo)
        self.warnings: list[str] = []
        self.looks = 0
        self.watches: list[watch.Watch] = []
        self.found: Any = None
        self.error: BaseException | None = None
        self._name = name
        self._count_looks()
        self._thread = threading.Thread(target=self._run)

    def _count_looks(self) -> None:
        look = self.team._something_for

        def counted(name: str, found: watch.Watch) -> Any:
            if found not in self.watches:
                self.watches.append(found)
            result = look(name, found)
            self.looks += 1
            return result

        self.team._something_for = counted  # type: ignore[method-assign]

    def _run(self) -> None:
        try:
            self.found = self.team.wait(self._name, warn=self.warnings.append)
        except BaseException as e:
            self.error = e
        finally:
            self.team.close()

    def start(self) -> Waiter:
        """Begin, and return once it has looked and found nothing."""
        self._thread.start()
        until(lambda: self.looks or not self._thread.is_alive(), "the first look")
        assert self._thread.is_alive(), (self.found, self.error)
        return self

    def result(self) -> tuple[list[str], int | None]:
        """The messages' texts and the task's number."""
        self._thread.join(TIMEOUT)
        assert not self.is_waiting, "nothing woke it"
        assert self.error is None, self.error
        messages, task = self.found
        return [m.content for m in messages], task.id if task else None

    @property
    def is_waiting(self) -> bool:
        return self._thread.is_alive()


@pytest.fixture
def waiting(team: Team, repo: Path) -> Iterator[Callable[[], Waiter]]:
    waiters: list[Waiter] = []

    def start() -> Waiter:
        waiters.append(Waiter(repo).start())
        return waiters[-1]

    yield start
    for waiter in waiters:
        if waiter.is_waiting:
            team.send("alice", "the end of the test")
            waiter._thread.join(TIMEOUT)


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only events may wake."""
    monkeypatch.setattr(watch, "SLOW_POLL", NEVER)
    monkeypatch.setattr(watch, "FAST_POLL", NEVER)


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow poll, without having to wait for it."""
    monkeypatch.setattr(watch, "SLOW_POLL", 0.1)


# -- what wakes -----------------------------------------------------------------------------------

TASK = "---\nsubject: Urgent\nstatus: pending\nowner:\nblockedBy: []\n---\n"


def added(team: Team, repo: Path) -> None:
    team.add("Urgent")


def added_by_another_process(team: Team, repo: Path) -> None:
    assert gitteam(repo, "task", "add", "Urgent").code == 0


def dropped(team: Team, repo: Path) -> None:
    (repo / ".tasks/urgent.md").write_text(TASK)


def renamed_into_place(team: Team, repo: Path) -> None:
    (repo / "elsewhere.md").write_text(TASK)
    (repo / "elsewhere.md").rename(repo / ".tasks/urgent.md")


def linked(team: Team, repo: Path) -> None:
    (repo / "elsewhere.md").write_text(TASK)
    os.link(repo / "elsewhere.md", repo / ".tasks/urgent.md")


def written_slowly(team: Team, repo: Path) -> None:
    with (repo / ".tasks/urgent.md").open("w") as f:
        for line in TASK.splitlines(keepends=True):
            f.write(line)
            f.flush()
            time.sleep(0.01)


WAYS_FOR_A_TASK = [
    added, added_by_another_process, dropped, renamed_into_place, linked, written_slowly,
]  # fmt: skip


@pytest.mark.usefixtures("no_polls")
@pytest.mark.parametrize("way", WAYS_FOR_A_TASK, ids=lambda way: way.__name__)
def test_task_wakes_when(
    way: Callable[[Team, Path], None], team: Team, repo: Path, waiting: Callable[[], Waiter]
) -> None:
    waiter = waiting()
    way(team, repo)
    assert waiter.result() == ([], 1)


@pytest.mark.usefixtures("no_polls")
def test_task_wakes_when_it_gets_its_name_within_the_directory(
    team: Team, repo: Path, waiting: Callable[[], Waiter]
) -> None:
    (repo / ".tasks/urgent.md.part").write_text(TASK)
    waiter = waiting()
    (repo / ".tasks/urgent.md.part").rename(repo / ".tasks/urgent.md")
    assert waiter.result() == ([], 1)


def sent(team: Team, repo: Path) -> None:
    team.send("alice", "hello")


def broadcast(team: Team, repo: Path) -> None:
    team.broadcast("hello")


def appended(team: Team, repo: Path) -> None:
    with (repo / ".team/inbox/alice.jsonl").open("a") as f:
        f.write('{"content": "hello"}\n')


def appended_in_two_parts(team: Team, repo: Path) -> None:
    with (repo / ".team/inbox/alice.jsonl").open("a") as f:
        f.write('{"content": ')
        f.flush()
        time.sleep(0.05)
        f.write('"hello"}\n')


@pytest.mark.usefixtures("no_polls")
@pytest.mark.parametrize("way", [sent, broadcast, appended, appended_in_two_parts], ids=lambda way: way.__name__)
def test_message_wakes_when(
    way: Callable[[Team, Path], None], team: Team, repo: Path, waiting: Callable[[], Waiter]
) -> None:
    waiter = waiting()
    way(team, repo)
    assert waiter.result() == (["hello"], None)


@pytest.mark.usefixtures("no_polls")
def test_last_blocker_completed_wakes(team: Team, waiting: Callable[[], Waiter]) -> None:
    team.add("First")
    team.add("Second", blocked_by=[1])
    team.claim(1, by="bob")
    waiter = waiting()
    team.done(1, by="bob")
    assert waiter.result() == ([], 2)


@pytest.mark.usefixtures("no_polls")
def test_task_given_back_wakes(team: Team, waiting: Callable[[], Waiter]) -> None:
    team.add("First")
    team.claim(1, by="bob")
    waiter = waiting()
    team.release(1, by="bob")
    assert waiter.result() == ([], 1)


@pytest.mark.usefixtures("no_polls")
def test_death_of_a_member_wakes(team: Team, repo: Path, waiting: Callable[[], Waiter]) -> None:
    """Nobody writes a file then: the kernel closes one."""
    team.add("First")
    code = (
        "import sys, time\nfrom gitteam import Team\nfrom gitteam.liveness import Life\n"
        "team = Team('.')\nlife = Life(team.place, 'bob')\nteam.claim(1, by='bob', run=life.run)\n"
        "print('ready', flush=True)\ntime.sleep(600)\n"
    )
    bob = subprocess.Popen([sys.executable, "-c", code], cwd=repo, stdout=subprocess.PIPE)
    assert bob.stdout
    assert bob.stdout.readline() == b"ready\n"
    waiter = waiting()
    bob.send_signal(signal.SIGKILL)
    bob.communicate()
    assert waiter.result() == ([], 1)


@pytest.mark.usefixtures("no_polls")
def test_swept_task_opened_by_hand_wakes(team: Team, repo: Path, waiting: Callable[[], Waiter]) -> None:
    def sweep(change: Change) -> None:
        change.write(".tasks/done/0001-0099/1-old.md", TASK.replace("pending", "completed").encode())
        change.story.tell("swept", "one")

    team.ledger.change("user", sweep)
    waiter = waiting()
    (repo / ".tasks/done/0001-0099/1-old.md").write_text(TASK)
    assert waiter.result() == ([], 1)
    assert (repo / ".tasks/1-old.md").exists()


def message(team: Team) -> None:
    team.send("alice", "two")


def release(team: Team) -> None:
    team.release(1, by="bob")


def complete(team: Team) -> None:
    team.done(1, by="bob")


@pytest.mark.usefixtures("no_polls")
@pytest.mark.parametrize("change", [message, release, complete], ids=lambda change: change.__name__)
def test_change_of_a_file_that_exists_wakes_at_once(
    change: Callable[[Team], None], team: Team, waiting: Callable[[], Waiter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is renamed aside when it is replaced; watchdog would hold back whatever follows such a rename."""
    monkeypatch.setattr(InotifyMoveEventGrouper, "delay", 3 * TIMEOUT)
    team.add("First")
    team.add("Second", blocked_by=[1])
    team.claim(1, by="bob")
    with team.take("alice"):
        team.send("alice", "one")
    with team.take("alice"):
        pass
    waiter = waiting()
    change(team)
    until(lambda: not waiter.is_waiting, "waking")
    assert any(waiter.result())


@pytest.mark.usefixtures("no_polls")
def test_all_who_wait_are_woken(team: Team, repo: Path) -> None:
    waiters = [Waiter(repo).start() for _ in range(3)]
    team.add("First")
    assert [waiter.result() for waiter in waiters] == [([], 1)] * 3


def test_what_is_there_already_is_found_at_once(team: Team) -> None:
    team.add("First")
    _, task = team.wait("alice", timeout=0)
    assert task is not None
    assert task.id == 1


def test_timeout_ends_it_with_exit_code_3(team: Team, repo: Path) -> None:
    result = call(repo, "wait", "--as", "alice", "--timeout", "0.05")
    assert result.code == 3
    assert result.out == ""


@pytest.mark.usefixtures("no_polls")
def test_change_while_it_looks_is_not_missed(team: Team, repo: Path) -> None:
    """An event that comes between looking and waiting must not be forgotten by either."""
    waiter = Waiter(repo)
    look = waiter.team._something_for
    done: list[bool] = []

    def look_and_then_something_happens(name: str, found: watch.Watch) -> Any:
        result = look(name, found)
        if not done:
            done.append(True)
            found._changed.clear()
            (repo / ".tasks/urgent.md").write_text(TASK)
            until(found._changed.is_set, "the event")
        return result

    waiter.team._something_for = look_and_then_something_happens  # type: ignore[method-assign]
    waiter._thread.start()
    assert waiter.result() == ([], 1)


@pytest.mark.usefixtures("no_polls")
def test_change_between_watching_and_looking_is_not_missed(
    team: Team, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = watch.Watch.__init__

    def begin_deaf(self: watch.Watch, *args: Any) -> None:
        begin(self, *args)
        (repo / ".tasks/urgent.md").write_text(TASK)
        until(self._changed.is_set, "the event")
        self._changed.clear()

    monkeypatch.setattr(watch.Watch, "__init__", begin_deaf)
    waiter = Waiter(repo)
    waiter._thread.start()
    assert waiter.result() == ([], 1)


# -- events that do not come ----------------------------------------------------------------------


@pytest.mark.usefixtures("quick_polls")
def test_dropped_events_delay_and_lose_nothing(
    team: Team, waiting: Callable[[], Waiter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch.Watch, "_note", lambda self, path: None)
    waiter = waiting()
    team.send("alice", "hello")
    assert waiter.result() == (["hello"], None)


@pytest.mark.usefixtures("quick_polls")
def test_events_dropped_at_random_lose_nothing(team: Team, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, note = random.Random(5), watch.Watch._note
    monkeypatch.setattr(watch.Watch, "_note", lambda self, path: note(self, path) if chance.random() < 0.5 else None)
    for number in range(10):
        waiter = Waiter(repo).start()
        team.send("alice", f"message {number}")
        assert waiter.result() == ([f"message {number}"], None)
        with team.take("alice") as messages:
            assert len(messages) == 1


def stop_observer(found: watch.Watch) -> None:
    found._observer.stop()
    found._observer.join()


def stop_emitters(found: watch.Watch) -> None:
    for emitter in list(found._observer.emitters):
        emitter.stop()
        emitter.join()


def stop_reader(found: watch.Watch) -> None:
    found._observer._inotify_fd.stop()
    found._observer._inotify_fd.join()


@pytest.mark.usefixtures("quick_polls")
@pytest.mark.parametrize("kill", [stop_observer, stop_emitters, stop_reader], ids=lambda kill: kill.__name__)
def test_dead_observer_loses_nothing(
    kill: Callable[[watch.Watch], None], team: Team, waiting: Callable[[], Waiter]
) -> None:
    waiter = waiting()
    kill(waiter.watches[0])
    team.send("alice", "hello")
    assert waiter.result() == (["hello"], None)


@pytest.mark.usefixtures("quick_polls")
def test_dead_observer_is_said_once(team: Team, waiting: Callable[[], Waiter], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FAST_POLL", 0.05)
    waiter = waiting()
    stop_observer(waiter.watches[0])
    looks = waiter.looks
    until(lambda: waiter.looks > looks + 4, "some polls")
    team.send("alice", "hello")
    waiter.result()
    assert len(waiter.warnings) == 1
    assert "no file events" in waiter.warnings[0]


DIRECTORIES = [".tasks", ".team/inbox", ".team", ".tasks/done", ".git/gitteam/live"]


@pytest.mark.usefixtures("quick_polls")
@pytest.mark.parametrize("directory", DIRECTORIES)
@pytest.mark.parametrize("what", ["message", "task"])
def test_directory_deleted_and_made_again_while_waiting_loses_nothing(
    directory: str, what: str, team: Team, repo: Path, waiting: Callable[[], Waiter]
) -> None:
    (repo / ".tasks/done").mkdir(exist_ok=True)
    waiter = waiting()
    (repo / directory).rename(repo.parent / "trash")  # at once, or the waiting one restores files meanwhile
    shutil.rmtree(repo.parent / "trash")
    (repo / directory).mkdir(exist_ok=True)
    if what == "task":
        (repo / ".tasks/urgent.md").write_text(TASK)
        assert waiter.result() == ([], 1)
    else:
        (repo / ".team/inbox").mkdir(parents=True, exist_ok=True)
        with (repo / ".team/inbox/alice.jsonl").open("a") as f:
            f.write('{"content": "hello"}\n')
        assert waiter.result() == (["hello"], None)


@pytest.mark.usefixtures("quick_polls")
def test_cleaned_work_tree_is_restored_while_waiting(team: Team, repo: Path, waiting: Callable[[], Waiter]) -> None:
    for number in range(3):
        team.claim(team.add(f"Task {number}").id, by="bob")
        team.done(number + 1, by="bob")
    waiter = waiting()
    git(repo, "clean", "-qfdx", check=False)  # it complains of a directory into which files come back meanwhile
    until(lambda: (repo / ".tasks/3-task-2.md").exists() and (repo / ".team/config.json").exists(), "the files")
    assert waiter.is_waiting
    team.send("alice", "hello")
    assert waiter.result() == (["hello"], None)


@pytest.mark.usefixtures("quick_polls")
def test_branch_moved_by_git_alone_is_noticed(team: Team, repo: Path, waiting: Callable[[], Waiter]) -> None:
    git(repo.parent, "clone", "-q", str(repo), "clone")
    Team.init(repo.parent / "clone")
    with Team(repo.parent / "clone") as there:
        there.add("From afar")
    waiter = waiting()
    git(repo, "fetch", "-q", str(repo.parent / "clone"), "gitteam:gitteam")
    assert waiter.result() == ([], 1)


@pytest.mark.usefixtures("quick_polls")
def test_waiting_goes_on_while_the_branch_is_checked_out(team: Team, repo: Path, waiting: Callable[[], Waiter]) -> None:
    def sweep(change: Change) -> None:
        change.write(".tasks/done/0001-0099/1-old.md", TASK.replace("pending", "completed").encode())
        change.story.tell("swept", "one")

    team.ledger.change("user", sweep)
    waiter = waiting()
    git(repo, "worktree", "add", "-q", str(repo.parent / "look"), "gitteam")
    with (repo / ".tasks/done/0001-0099/1-old.md").open("a") as f:
        f.write("an afterthought\n")
    looks = waiter.looks
    until(lambda: waiter.looks > looks + 2 or not waiter.is_waiting, "some polls")
    git(repo, "worktree", "remove", "--force", str(repo.parent / "look"))
    team.send("alice", "hello")
    assert waiter.result() == (["hello"], None)


# -- no inotify at all: in a user namespace with limits of its own ----------------------------------


def limited(repo: Path, limit: str, value: int, *words: str) -> subprocess.Popen[str]:
    """A process for which inotify ends after so many instances or watches."""
    script = f'echo {value} > /proc/sys/user/{limit} && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", *words]
    return subprocess.Popen(command, cwd=repo, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        probe = limited(tmp_path_factory.mktemp("probe"), "max_inotify_instances", 0, "true")
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if probe.wait() != 0:
        pytest.skip("no user namespace with inotify limits of its own can be made here")


LIMITS = [("max_inotify_instances", 0), ("max_inotify_watches", 0), ("max_inotify_watches", 3)]


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(("limit", "value"), LIMITS)
def test_without_inotify_it_polls_and_says_so_once(limit: str, value: int, team: Team, repo: Path) -> None:
    words = (sys.executable, "-m", "gitteam", "wait", "--as", "alice", "--json", "--timeout", "60")
    waiting = limited(repo, limit, value, *words)
    time.sleep(2 * watch.FAST_POLL)  # let it poll: it must not speak again
    assert waiting.poll() is None, waiting.communicate()
    (repo / ".tasks/urgent.md").write_text(TASK)
    out, err = waiting.communicate(timeout=TIMEOUT)
    assert waiting.returncode == 0, err
    assert json.loads(out)["task"]["id"] == 1
    assert err.count("no file events") == 1
    assert len(err.strip().splitlines()) == 1


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(("limit", "value"), LIMITS)
def test_failed_watch_leaves_no_thread_and_no_file_behind(limit: str, value: int, team: Team, repo: Path) -> None:
    code = (
        "import gc, os, threading\nfrom gitteam import Team\nfrom gitteam.watch import Watch\n"
        "team = Team('.')\n"
        "with Watch(team.place) as watch: assert watch.trouble, 'no trouble'\n"
        "for thread in threading.enumerate()[1:]: thread.join(5)\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
        "del watch\ngc.collect()\n"
        "names = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')]\n"
        "assert not [n for n in names if os.path.islink(n) and 'inotify' in os.readlink(n)]\n"
    )
    process = limited(repo, limit, value, sys.executable, "-c", code)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err


def test_watch_that_was_closed_leaves_nothing_behind(team: Team) -> None:
    def held() -> int:
        return sum("inotify" in os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if _is_link(n))

    before = held(), threading.active_count()
    for _ in range(10):
        with pytest.raises(NothingToDo):
            team.wait("alice", timeout=0)
    assert (held(), threading.active_count()) == before


def _is_link(name: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{name}")


# -- idling ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_polls")
def test_readers_do_not_wake(team: Team, repo: Path, waiting: Callable[[], Waiter]) -> None:
    team.claim(team.add("Held").id, by="bob")
    team.tasks()
    waiter = waiting()
    looks = waiter.looks
    for _ in range(10):
        for words in (("task",), ("status",), ("inbox", "alice"), ("log",)):
            assert call(repo, *words).code == 0
        (repo / ".tasks/1-held.md").read_bytes()
    assert waiter.looks <= looks + 1  # one for what `add` and `claim` still had on the way


def bad_file(team: Team, repo: Path) -> None:
    (repo / ".tasks/bad.md").write_text("---\nstatus: nonsense\n---\n")


def bad_task(team: Team, repo: Path) -> None:
    (repo / team.add("Was good", role="nobody").path).write_text("---\nstatus: nonsense\n---\n")


def torn_line(team: Team, repo: Path) -> None:
    (repo / ".team/inbox/alice.jsonl").write_text('{"content": "not fini')


def symbolic_link(team: Team, repo: Path) -> None:
    (repo / ".tasks/link.md").symlink_to("nowhere")


def fifo(team: Team, repo: Path) -> None:
    os.mkfifo(repo / ".tasks/pipe.md")


def missing(team: Team, repo: Path) -> None:
    team.add("Other", role="nobody")
    (repo / team.add("Gone", role="nobody").path).unlink()


def packed(team: Team, repo: Path) -> None:
    git(repo, "pack-refs", "--all")


def checked_out(team: Team, repo: Path) -> None:
    git(repo, "worktree", "add", "-q", str(repo.parent / "look"), "gitteam")


def open_for_writing(team: Team, repo: Path) -> None:
    """An editor that keeps its file open."""
    path = repo / team.add("Open", role="nobody").path
    _held.append(path.open("a"))
    team.note(1, "replaced under the editor")


_held: list[Any] = []
STATES = [bad_file, bad_task, torn_line, symbolic_link, fifo, missing, packed, checked_out, open_for_writing]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_waiting_does_not_wake_itself(
    state: Callable[[Team, Path], None], team: Team, repo: Path, waiting: Callable[[], Waiter]
) -> None:
    """Each look may find something out of order again; that must not be what causes the next one."""
    state(team, repo)
    waiter = waiting()
    time.sleep(0.25)  # what is counted are looks in that time, of which a loop would make dozens
    assert waiter.looks <= 5
    while _held:
        _held.pop().close()
    if state is checked_out:
        git(repo, "worktree", "remove", "--force", str(repo.parent / "look"))


def cpu_seconds(pid: int) -> float:
    """Of the process and all its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.long
def test_waiting_uses_no_more_cpu_than_sleeping(team: Team, repo: Path) -> None:
    team.claim(team.add("Held").id, by="bob")
    idle = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    waiting = subprocess.Popen([sys.executable, "-m", "gitteam", "wait", "--as", "alice"], cwd=repo)
    try:
        settled(waiting.pid)
        before = cpu_seconds(idle.pid), cpu_seconds(waiting.pid)
        time.sleep(12)  # two slow polls and more
        after = cpu_seconds(idle.pid), cpu_seconds(waiting.pid)
        assert waiting.poll() is None
        assert (after[1] - before[1]) - (after[0] - before[0]) <= 0.06  # half a percent
    finally:
        for process in (idle, waiting):
            process.kill()
            process.wait()


def settled(pid: int) -> None:
    """Until it has started and uses no more."""
    last = -1.0
    while (now := cpu_seconds(pid)) != last or now == 0:
        last = now
        time.sleep(1)
