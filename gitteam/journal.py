"""The history, read back: the diary for people, and a replay that checks every step of it."""

from __future__ import annotations

import codecs
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gitteam import layout
from gitteam.errors import BadFile
from gitteam.records import CANCELLED, COMPLETED, IN_PROGRESS, PENDING, Task, parse_task
from gitteam.repo import Repo

_MOST_AT_ONCE = 1000
_TASK_PATH = re.compile(r"\.tasks/(?:done/[^/]+/)?[^/]+\.md\Z")


@dataclass(frozen=True)
class Entry:
    """One line of the diary."""

    commit: str
    time: int
    author: str
    sentence: str
    event: str
    task: int | None
    email: str = ""  # of the author: names can be taken by others, and are free again

    @property
    def is_by_person(self) -> bool:
        """Whether somebody did it who is no member of a team."""
        return self.email == f"{layout.USER}@gitteam.invalid" or not self.email.endswith("@gitteam.invalid")

    def to_json(self) -> dict[str, object]:
        return {
            "commit": self.commit, "time": self.time, "author": self.author, "sentence": self.sentence,
            "event": self.event, "task": self.task,
        }  # fmt: skip


def selection(target: int | str | None, author: str) -> list[str]:
    """The `git log` options that pick out one task's, one member's, or all of the history."""
    if target is None:
        return []
    return [f"--grep=^Team-Task: {target}$"] if isinstance(target, int) else [f"--author={author}"]


def command(options: list[str], branch: str) -> str:
    return shlex.join(["git", "log", "--oneline", *options, branch, "--"])


def since(repo: Repo, ref: str, seen: str) -> list[Entry]:
    """What the diary has gained since a commit, oldest first. git is not asked: this is done at every event."""
    found: list[Entry] = []
    commit = repo.tip(ref) or ""
    while commit and commit != seen and len(found) < _MOST_AT_ONCE:
        head, _, message = repo.objects.read(commit).decode("utf-8", "replace").partition("\n\n")
        fields = [line.partition(" ")[::2] for line in head.split("\n")]
        trailers = dict(line.partition(": ")[::2] for line in message.rstrip("\n").rpartition("\n\n")[2].split("\n"))
        author, email, when = re.fullmatch(r"(.*) <([^>]*)> (\d+) \S+", dict(fields)["author"]).groups()  # type: ignore[union-attr]
        task = trailers.get("Team-Task", "")
        if "Team-Op" in trailers:
            sentence, event = message.partition("\n")[0], trailers.get("Team-Event", "")
            number = int(task) if task.isdigit() else None
            found.append(Entry(commit, int(when), author, sentence, event, number, email))
        commit = next((value for key, value in fields if key == "parent"), "")
    return found[::-1]


def _trailer(key: str) -> str:
    return f"%(trailers:key={key},valueonly,separator=%x20)"


def entries(repo: Repo, ref: str, options: list[str], limit: int) -> Iterator[Entry]:
    """The diary, newest first."""
    form = "%x09".join(["%H", "%at", "%an", "%ae", _trailer("Team-Event"), _trailer("Team-Task"), "%s"])
    for line in repo.log(*options, f"--max-count={limit}", f"--format={form}", ref, "--"):
        commit, when, author, email, event, task, sentence = line.split("\t", 6)
        yield Entry(commit, int(when), author, sentence, event, int(task) if task.isdigit() else None, email)


@dataclass
class Step:
    """One commit as the replay sees it."""

    commit: str
    parents: int
    author: str
    ops: list[str]
    override: bool
    changes: list[tuple[str, str]] = field(default_factory=list)  # path and the blob it has now, "" when gone


@dataclass
class Replay:
    """Walks a history from its root and reports every step that cannot have been right."""

    tasks: dict[int, Task] = field(default_factory=dict)
    places: dict[int, set[str]] = field(default_factory=dict)
    holders: dict[str, set[int]] = field(default_factory=dict)
    ops: set[str] = field(default_factory=set)
    foreign: set[int] = field(default_factory=set)  # numbers that a person's own commit brought in
    findings: list[str] = field(default_factory=list)

    def run(self, repo: Repo, ref: str, merges_allowed: bool = False) -> list[str]:
        # Where the branch is not ours alone, only what touches the board concerns us.
        for step in steps(repo, ref, (layout.TEAM, layout.TASKS) if merges_allowed else ()):
            self._commit(step, merges_allowed)
            self._files(repo, step)
        return self.findings

    def _say(self, step: Step, problem: str) -> None:
        self.findings.append(f"{step.commit[:10]}: {problem}")

    def _commit(self, step: Step, merges_allowed: bool) -> None:
        if step.parents > 1 and not merges_allowed:
            self._say(step, "a merge, where every change must be one commit on the last")
        if len(step.ops) > 1:
            self._say(step, "more than one Team-Op")
        for op in step.ops:
            if op in self.ops:
                self._say(step, f"operation {op} is in the history twice")
            self.ops.add(op)

    def _files(self, repo: Repo, step: Step) -> None:
        before: dict[int, Task | None] = {}
        after: dict[int, Task] = {}
        for path, blob in step.changes:
            number = layout.task_id(path.rpartition("/")[2])
            if number is None:
                continue
            before.setdefault(number, self.tasks.get(number))
            held = self.places.setdefault(number, set())
            held.discard(path) if not blob else held.add(path)
            if blob:
                try:
                    after[number] = parse_task(path, repo.objects.read(blob))
                except BadFile as e:
                    if step.ops:
                        self._say(step, f"#{number} cannot be read: {e}")
        for number, old in before.items():
            if old is None and not step.ops:
                self.foreign.add(number)
            if not self.places[number] and number in self.foreign:  # it got another number
                self._set(number, None)
            elif len(self.places[number]) != 1 and step.ops:
                self._say(step, f"#{number} is in {len(self.places[number])} files")
            if new := after.get(number):
                if step.ops:
                    self._transition(step, number, old, new)
                elif old:  # a person's own commit may write any number; the next one of ours goes on from the last
                    new = replace(new, claim=old.claim)
                self._set(number, new)
        if step.ops:
            self._claims(step, before, after)

    def _transition(self, step: Step, number: int, old: Task | None, new: Task) -> None:
        """One task from one commit to the next."""
        status, owner, claim = old.state if old else (PENDING, "", 0)
        taken = new.status == IN_PROGRESS and (status, owner, claim) != new.state
        if new.claim != claim + taken:
            self._say(step, f"#{number} goes from claim {claim} to {new.claim}, {'' if taken else 'not '}being claimed")
        if new.status == COMPLETED and status == CANCELLED:
            self._say(step, f"#{number} completed after it was cancelled")
        actor = step.author.removesuffix("@gitteam.invalid")
        if actor in (step.author, layout.USER, layout.SYSTEM) or step.override:
            return  # a person may do as they like, and so may others who say that they override
        if taken and status != PENDING:
            self._say(step, f"#{number} claimed by {actor} while it was {status}, {owner or 'nobody'} having it")
        if taken and new.owner != actor:
            self._say(step, f"#{number} claimed by {actor} for {new.owner}")
        if new.status == COMPLETED != status and (status, owner) != (IN_PROGRESS, actor):
            self._say(step, f"#{number} completed by {actor}, who did not hold it")
        if status == IN_PROGRESS and new.status in (PENDING, CANCELLED) and owner != actor:
            self._say(step, f"#{number} taken from {owner} by {actor}")

    def _claims(self, step: Step, before: dict[int, Task | None], after: dict[int, Task]) -> None:
        """What a claim needs besides the task itself, seen after the whole commit."""
        for number, new in after.items():
            old = before[number]
            if new.status != IN_PROGRESS or (old and (old.status, old.owner) == (new.status, new.owner)):
                continue
            if others := self.holders[new.owner] - {number}:
                self._say(step, f"#{number} claimed by {new.owner}, who had #{min(others)}")
            waiting = [n for n in new.blocked_by if n not in self.tasks or self.tasks[n].status != COMPLETED]
            if waiting and (not old or old.status == PENDING):
                self._say(step, f"#{number} claimed while it was blocked by #{waiting[0]}")

    def _set(self, number: int, task: Task | None) -> None:
        if (old := self.tasks.pop(number, None)) and old.owner in self.holders:
            self.holders[old.owner].discard(number)
        if task:
            self.tasks[number] = task
            if task.status == IN_PROGRESS:
                self.holders.setdefault(task.owner, set()).add(number)


def steps(repo: Repo, ref: str, paths: tuple[str, ...]) -> Iterator[Step]:
    """Every commit, or every one that touches these paths, oldest first, with the task files it changed."""
    form = "%x01" + "%x09".join(["%H", "%P", "%ae", _trailer("Team-Op"), _trailer("Team-Override")])
    options = [
        "--reverse",
        "--first-parent",
        "--diff-merges=first-parent",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "--root",
        f"--format={form}",
    ]
    step: Step | None = None
    for line in repo.log(*options, ref, "--", *paths):
        if line.startswith("\x01"):
            if step:
                yield step
            commit, parents, author, ops, override = line[1:].split("\t")
            step = Step(commit, len(parents.split()), author, ops.split(), bool(override))
        elif line.startswith(":") and step:
            head, path = line.split("\t", 1)
            if path.startswith('"'):  # git quotes what could not be told apart otherwise
                path = os.fsdecode(codecs.escape_decode(os.fsencode(path[1:-1]))[0])
            if _TASK_PATH.match(path):
                blob = head.split()[3]
                step.changes.append((path, blob if set(blob) != {"0"} else ""))
    if step:
        yield step
