"""The measures. Each makes the boards it needs under `scratch` and yields rows of the table."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from statistics import quantiles

from bench.boards import MEMBERS, board, run
from bench.timing import Row, clock, in_turns, shown, timed, together
from gitteam import Team, moves
from gitteam.change import Change
from gitteam.errors import Conflict, NothingToDo
from gitteam.journal import Replay
from gitteam.records import Task

PROGRAM = str(Path(sys.executable).with_name("gitteam"))
ME, READER = MEMBERS[0], MEMBERS[-1]
LARGE = {"tasks": 10_000, "finished": 9_500, "commits_each": 5}
CONTENDED = 400
SENDERS, TEXTS = MEMBERS[:4], [str(number) for number in range(250)]


def claim(scratch: Path) -> Iterator[Row]:
    durable, fast = board(scratch / "durable", 100), board(scratch / "fast", 100, durability="fast")
    with Team(durable) as ours, Team(fast) as ours_fast, Team(board(scratch.parent / "large", **LARGE)) as ours_large:
        subjects = {"durable": claiming(ours), "fast": claiming(ours_fast), "large": claiming(ours_large)}
        times = in_turns(60, {"git": _committing(scratch / "plain", durable), **subjects})
    yield Row("claim, 100 tasks, durable", "git add + git commit", times["durable"], times["git"], "≤ 0.75")
    yield Row("claim, 100 tasks, fast", "git add + git commit", times["fast"], times["git"], "≤ 0.5")
    yield Row("claim, 10,000 tasks, 9,500 done", "claim, 100 tasks", times["large"], times["durable"], "≤ 1.5")


def claiming(team: Team, member: str = ME) -> Callable[[], float]:
    number = min(task.id for task in team.tasks() if task.ready)
    return timed(partial(team.claim, by=member), after=partial(team.release, number, by=member))


def _committing(path: Path, of: Path) -> Callable[[], float]:
    """A change of one file with git's own commands, in an ordinary repository that tracks the same files."""
    shutil.copytree(of, path, ignore=lambda *_: [".git"])
    run(path, "sh", "-c", "git init -q && git add . && git commit -qm board")
    file = min((path / ".tasks").glob("1-*.md"))

    def commit() -> None:
        file.write_text(re.sub("owner:.*", f"owner: m{clock()}", file.read_text()))
        run(path, "git", "add", "--", str(file))
        run(path, "git", "commit", "-qm", "m1 claims #1")

    return timed(commit)


def contention(scratch: Path) -> Iterator[Row]:
    template, path = board(scratch / "template", CONTENDED), scratch / "race"
    rates: dict[int, list[float]] = {1: [], 16: []}
    waits: list[float] = []
    doubled = faults = 0
    for processes in (1, 16) * 3:
        shutil.copytree(template, path)
        seconds, results = together(path, [(_work, member) for member in MEMBERS[:processes]])
        rates[processes].append(CONTENDED / seconds)
        waits += [wait for _, times in results for wait in times if processes > 1]
        claimed = [number for numbers, _ in results for number in numbers]
        doubled += len(claimed) - len(set(claimed))
        with Team(path) as team:
            faults += len(Replay().run(team.ledger.repo, team.ledger.ref)) + CONTENDED - len(set(claimed))
        shutil.rmtree(path)
    beside = f"wait for the lock p95 {shown(quantiles(waits, n=20)[-1])}, longest {shown(max(waits))}"
    yield Row(f"16 processes claim {CONTENDED} tasks", "one process", rates[16], rates[1], "≥ 0.6", beside, "/s")
    right, beside = 6 * CONTENDED - doubled - faults, f"{doubled} claimed twice, {faults} faults in the history"
    yield Row("each of them claimed once, by the history", "tasks", [right], [6 * CONTENDED], "= 1", beside, "")


def _work(team: Team, member: str) -> tuple[list[int], list[float]]:
    """Claim and complete until nothing is left: what was claimed, and how long each turn was waited for."""
    claimed: list[int] = []
    waits: list[float] = []

    def turn(operation: Callable[[Change], Task]) -> Task:
        asked = clock()

        def noted(change: Change) -> Task:
            waits.append(clock() - asked)  # the lock is ours now, and the files have been looked at
            return operation(change)

        return team.ledger.change(member, noted)

    with suppress(NothingToDo, Conflict):
        while True:
            task = turn(moves.claim)
            claimed.append(task.id)
            turn(partial(moves.complete, number=task.id, claim=task.claim))
    return claimed, waits


def mail(scratch: Path) -> Iterator[Row]:
    path = board(scratch / "board", 1, role="clerk")
    seconds, (*_, received) = together(path, [*((_send, name) for name in SENDERS), (_take, READER)])
    sent, taken = set(product(SENDERS, TEXTS)), set(received)
    lost, doubled = len(sent - taken), len(received) - len(taken)
    beside, once = f"{lost} lost, {doubled} doubled, in {shown(seconds)}", len(sent) - lost - doubled
    yield Row("4 × 250 messages to one inbox, taken meanwhile", "sent", [once], [len(sent)], "= 1", beside, "")


def _send(team: Team, sender: str) -> None:
    for text in TEXTS:
        team.send(READER, text, by=sender)


def _take(team: Team, reader: str) -> list[tuple[str, str]]:
    """Take what comes, until the last message of each sender has come, or nothing more does."""
    taken: list[tuple[str, str]] = []
    with suppress(NothingToDo):
        while not {(sender, TEXTS[-1]) for sender in SENDERS} <= set(taken):
            team.wait(reader, timeout=30)
            with team.take(reader) as messages:
                taken += [(message.sender, message.content) for message in messages]
    return taken


def commands(scratch: Path) -> Iterator[Row]:
    subjects = {"click": timed(partial(run, Path.home(), sys.executable, "-c", "import click"))}
    for size in ("100", "1000"):
        task = partial(run, board(scratch / size, int(size)), PROGRAM, "task")
        subjects[f"task, {size}"] = timed(task)
        subjects[f"task add, {size}"] = timed(partial(task, "add", "Answer the letter"))
        subjects[f"task claim, {size}"] = timed(partial(task, "claim", "--as", ME), partial(task, "release", "1"))
    times, click = in_turns(20, subjects), 'python -c "import click"'
    yield Row("gitteam task, 100 tasks", click, times["task, 100"], times["click"], "≤ 2.5")
    yield Row("gitteam task, 1000 tasks", "the same, 100 tasks", times["task, 1000"], times["task, 100"], "≤ 2")
    for name in ("task add, 100", "task add, 1000", "task claim, 100", "task claim, 1000"):
        yield Row(f"gitteam {name} tasks", click, times[name], times["click"], "≤ 4.5")


def growth(scratch: Path) -> Iterator[Row]:
    small, large = board(scratch / "small", 100), board(scratch.parent / "large", **LARGE)
    for call in ("log", "log 50", "task"):
        times = in_turns(10, {path.name: timed(partial(run, path, PROGRAM, *call.split())) for path in (small, large)})
        yield Row(f"gitteam {call}, 50,000 commits, 10,000 tasks", "100 of each", times["large"], times["small"])


def wake(scratch: Path) -> Iterator[Row]:
    """On a board with nothing for the one who waits, until a file is renamed into it."""
    with Team(board(scratch / "board", 100, role="clerk")) as team:
        times = in_turns(20, {"claim": claiming(team, "user"), "wake": partial(_waking, team)})
    measure, worst = "task file renamed → gitteam wait has printed it", shown(max(times["wake"]))
    yield Row(measure, "claim, 100 tasks, durable", times["wake"], times["claim"], "≤ 5", f"worst {worst}")


def _waking(team: Team) -> float:
    root = Path(team.place.root)
    draft, words = root / "draft.md", [PROGRAM, "wait", "--as", ME, "--timeout", "60"]
    draft.write_text("Answer the letter\n")
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as waiting:
        assert waiting.stdout
        _until_asleep(waiting.pid, root / ".tasks")
        start = clock()
        draft.rename(root / ".tasks" / "letter.md")
        line = waiting.stdout.readline()
        seconds = clock() - start
    team.cancel(int(line.split()[1]))
    return seconds


def _until_asleep(pid: int, directory: Path) -> None:
    """Until the process watches the directory and none of its threads has run for a while."""
    watch, now = b"ino:%x " % directory.stat().st_ino, b""
    for _ in range(200):
        before, now = now, run(Path(f"/proc/{pid}"), "sh", "-c", "cat fdinfo/* task/*/schedstat || true")
        if watch in now and now == before:
            return
        time.sleep(0.1)
    raise RuntimeError("gitteam wait does not come to rest")
