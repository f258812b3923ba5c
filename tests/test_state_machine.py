"""A team driven at random, by commands and by hand, beside a small model of the board that says what must follow."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from faults import new_board, sound
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gitteam import Team, reconcile
from gitteam.errors import Conflict, NotFound, NothingToDo

PENDING, HELD, COMPLETED, CANCELLED, FAILED = "pending", "in_progress", "completed", "cancelled", "failed"
FINISHED = (COMPLETED, CANCELLED)
State = tuple[str, str, int]  # status, owner, claim


@dataclass
class Item:
    """What the model knows of one task."""

    subject: str
    status: str = PENDING
    owner: str = ""
    claim: int = 0
    priority: int = 0
    blocked_by: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # of the description
    notes: list[str] = field(default_factory=list)
    versions: dict[State, tuple[str, int]] = field(default_factory=dict)  # the last text of each state; its lines

    @property
    def state(self) -> State:
        return self.status, self.owner, self.claim

    def become(self, status: str, owner: str) -> None:
        self.claim += status == HELD
        self.status, self.owner = status, owner


class Model:
    """The rules of the board, without files, locks or history."""

    def __init__(self) -> None:
        self.tasks: dict[int, Item] = {}
        self.members = {"alice", "bob"}
        self.mail: dict[str, list[str]] = {}

    def add(self, item: Item, number: int | None = None) -> int:
        number = number or max(self.tasks, default=0) + 1
        self.tasks[number] = item
        return number

    def held_by(self, name: str) -> list[int]:
        return [n for n, item in self.tasks.items() if (item.status, item.owner) == (HELD, name)]

    def is_blocked(self, item: Item) -> bool:
        return any(self.tasks[n].status != COMPLETED for n in item.blocked_by)

    def may_claim(self, number: int, name: str) -> bool:
        item = self.tasks[number]
        return item.status == PENDING and item.owner in ("", name) and not self.is_blocked(item)

    def next_for(self, name: str) -> int | None:
        ready = [n for n in self.tasks if self.may_claim(n, name)]
        return min(self.held_by(name) or ready, key=lambda n: (-self.tasks[n].priority, n), default=None)

    def may_end(self, number: int, name: str) -> bool:
        """Whether this name may complete, cancel or hand back a task that somebody may have."""
        item = self.tasks[number]
        return item.status not in FINISHED and (name == "user" or (item.status, item.owner) == (HELD, name))

    def waits_for(self, number: int, other: int) -> bool:
        """Whether a task waits for another, through any number of others."""
        open_blockers = [] if self.tasks[number].status in FINISHED else self.tasks[number].blocked_by
        return number == other or any(self.waits_for(n, other) for n in open_blockers)

    def wish(self, number: int, status: str, owner: str) -> None:
        """Status and owner written into the file by hand."""
        item = self.tasks[number]
        if (status, owner, item.claim) in item.versions:
            return  # it stood so once: a stale text, not a wish
        if status == HELD:
            taken = item.status == HELD or self.may_claim(number, owner)
            if taken and owner in self.members and not set(self.held_by(owner)) - {number}:
                item.become(HELD, owner)
        else:
            item.become(status, owner if status == PENDING else owner or item.owner)


NAMES = st.sampled_from(["alice", "bob", "user"])
ANY = st.integers(min_value=0, max_value=1000)  # which of the tasks there are


def some_task(machine: Machine) -> bool:
    return bool(machine.model.tasks)


def some_file(machine: Machine) -> bool:
    return bool(machine.files())


class Machine(RuleBasedStateMachine):
    """The team and the model, always in the same state."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="gitteam-machine-"))
        self.model = Model()
        self.serial = 0
        self._patience, reconcile.GONE_SECONDS = reconcile.GONE_SECONDS, 0.0  # a deleted file counts at once

    @initialize(tasks=st.integers(0, 3))
    def begin(self, tasks: int) -> None:
        self.root = new_board(self.directory / "project")
        self.team = Team(self.root)
        for _ in range(tasks):
            self.add([], 0)

    def teardown(self) -> None:
        try:
            if hasattr(self, "team"):
                self.team.close()
                sound(self.root)
        finally:
            reconcile.GONE_SECONDS = self._patience
            shutil.rmtree(self.directory)

    # -- helpers ----------------------------------------------------------------------------------

    def word(self, kind: str) -> str:
        self.serial += 1
        return f"{kind}{self.serial}x"

    def pick(self, index: int) -> int:
        numbers = sorted(self.model.tasks)
        return numbers[index % len(numbers)]

    def files(self) -> dict[int, Path]:
        """The files of the tasks that are not put away."""
        return {int(re.match(r"\d+", path.name)[0]): path for path in (self.root / ".tasks").glob("[0-9]*.md")}  # type: ignore[index]

    def pick_file(self, index: int) -> tuple[int, Path]:
        files = sorted(self.files().items())
        return files[index % len(files)]

    def attempt(self, allowed: bool, operation: Callable[[], object], error: type[Exception] = Conflict) -> bool:
        if allowed:
            operation()
        else:
            with pytest.raises(error):
                operation()
        return allowed

    def acts(self, name: str) -> bool:
        return name == "user" or name in self.model.members

    # -- by command ---------------------------------------------------------------------------------

    @rule(blockers=st.lists(ANY, max_size=2), priority=st.integers(0, 2))
    def add(self, blockers: list[int], priority: int) -> None:
        chosen = list(dict.fromkeys(self.pick(b) for b in blockers)) if self.model.tasks else []
        subject = self.word("subject")
        task = self.team.add(subject, blocked_by=chosen, priority=priority)
        assert task.id == self.model.add(Item(subject, priority=priority, blocked_by=chosen))

    @rule(name=NAMES)
    def claim_next(self, name: str) -> None:
        if not self.acts(name):
            return
        held, expected = self.model.held_by(name), self.model.next_for(name)
        self.attempt(expected is not None, lambda: self.team.claim(by=name), NothingToDo)
        if expected and not held:
            self.model.tasks[expected].become(HELD, name)

    @precondition(some_task)
    @rule(index=ANY, name=NAMES)
    def claim(self, index: int, name: str) -> None:
        number, held = self.pick(index), self.model.held_by(name)
        if not self.acts(name):
            return
        allowed = number in held or (self.model.may_claim(number, name) and not held)
        if self.attempt(allowed, lambda: self.team.claim(number, by=name)) and number not in held:
            self.model.tasks[number].become(HELD, name)

    @precondition(some_task)
    @rule(index=ANY, name=NAMES, force=st.booleans())
    def release(self, index: int, name: str, force: bool) -> None:
        number = self.pick(index)
        if not self.acts(name):
            return
        item = self.model.tasks[number]
        allowed = item.status != PENDING and (force or self.model.may_end(number, name))
        if self.attempt(allowed, lambda: self.team.release(number, by=name, force=force)):
            item.become(PENDING, "")

    @precondition(some_task)
    @rule(index=ANY, name=NAMES, stale=st.booleans())
    def done(self, index: int, name: str, stale: bool) -> None:
        number = self.pick(index)
        if not self.acts(name):
            return
        item, note = self.model.tasks[number], self.word("result")
        allowed = self.model.may_end(number, name) and not stale
        claim = item.claim - 1 if stale else None
        if self.attempt(allowed, lambda: self.team.done(number, note, by=name, claim=claim)):
            item.become(COMPLETED, item.owner or name)
            item.notes.append(note)

    @precondition(some_task)
    @rule(index=ANY, name=NAMES)
    def cancel(self, index: int, name: str) -> None:
        number = self.pick(index)
        if not self.acts(name):
            return
        item = self.model.tasks[number]
        allowed = item.status not in FINISHED and (item.status != HELD or self.model.may_end(number, name))
        if self.attempt(allowed, lambda: self.team.cancel(number, by=name)):
            item.become(CANCELLED, item.owner)

    @precondition(some_task)
    @rule(index=ANY)
    def note(self, index: int) -> None:
        number, text = self.pick(index), self.word("note")
        self.team.note(number, text)
        self.model.tasks[number].notes.append(text)

    @precondition(some_task)
    @rule(index=ANY, other=ANY)
    def block(self, index: int, other: int) -> None:
        number, on = self.pick(index), self.pick(other)
        item = self.model.tasks[number]
        allowed = item.status not in FINISHED and not self.model.waits_for(on, number)
        if self.attempt(allowed, lambda: self.team.block(number, on)) and on not in item.blocked_by:
            item.blocked_by.append(on)

    @rule(name=st.sampled_from(["carol", "alice", "bob"]))
    def add_member(self, name: str) -> None:
        if self.attempt(name not in self.model.members, lambda: self.team.add_member(name)):
            self.model.members.add(name)

    @rule(name=st.sampled_from(["carol", "alice", "bob"]))
    def remove_member(self, name: str) -> None:
        if self.attempt(name in self.model.members, lambda: self.team.remove_member(name), NotFound):
            self.model.members.remove(name)
            self.model.mail.pop(name, None)
            for number in self.model.held_by(name):
                self.model.tasks[number].become(PENDING, "")

    @rule(to=NAMES, name=NAMES)
    def send(self, to: str, name: str) -> None:
        text = self.word("message")
        if self.attempt(self.acts(to) and self.acts(name), lambda: self.team.send(to, text, by=name), NotFound):
            self.model.mail.setdefault(to, []).append(text)

    @rule(name=NAMES)
    def take(self, name: str) -> None:
        def taking() -> None:
            with self.team.take(name) as messages:
                assert [m.content for m in messages] == self.model.mail.get(name, [])

        if self.attempt(self.acts(name), taking, NotFound):
            self.model.mail.pop(name, None)

    @rule()
    def open_again(self) -> None:
        self.team.close()
        self.team = Team(self.root)

    # -- by hand --------------------------------------------------------------------------------------

    @rule(own_number=st.booleans(), with_head=st.booleans())
    def drop_a_file(self, own_number: bool, with_head: bool) -> None:
        subject, line = self.word("dropped"), self.word("line")
        number = max(self.model.tasks, default=0) + 3 if own_number else None
        name = f"{number}-{subject}.md" if number else f"{subject}.md"
        text = f"---\nsubject: {subject}\n---\n{line}\n" if with_head else f"# {subject}\n\n{line}\n"
        (self.root / ".tasks" / name).write_text(text)
        self.model.add(Item(subject, lines=[line]), number)

    @precondition(some_file)
    @rule(index=ANY, owner=st.sampled_from(["alice", "bob", "zoe"]))
    def claim_by_hand(self, index: int, owner: str) -> None:
        self.write_a_state(index, HELD, owner)

    @precondition(some_file)
    @rule(
        index=ANY, status=st.sampled_from([PENDING, COMPLETED, CANCELLED]), owner=st.sampled_from(["", "alice", "bob"])
    )
    def end_or_assign_by_hand(self, index: int, status: str, owner: str) -> None:
        self.write_a_state(index, status, owner)

    def write_a_state(self, index: int, status: str, owner: str) -> None:
        number, path = self.pick_file(index)
        if (self.model.tasks[number].status, status) == (CANCELLED, COMPLETED):
            return
        path.write_text(_with_state(path.read_text(), status, owner))
        self.model.wish(number, status, owner)

    @precondition(some_file)
    @rule(index=ANY)
    def write_a_line(self, index: int) -> None:
        number, path = self.pick_file(index)
        line = self.word("line")
        path.write_text(_with_line(path.read_text(), line))
        self.model.tasks[number].lines.append(line)

    @precondition(some_file)
    @rule(index=ANY, which=ANY, edited=st.booleans())
    def save_a_stale_text(self, index: int, which: int, edited: bool) -> None:
        """From an editor that has had the file open since before the last claims and releases."""
        number, path = self.pick_file(index)
        item = self.model.tasks[number]
        old = [version for state, version in item.versions.items() if state != item.state]
        if not old:
            return
        text, lines = old[which % len(old)]
        if edited and lines == len(item.lines):
            item.lines.append(self.word("line"))
            text = _with_line(text, item.lines[-1])
        path.write_text(text)

    @precondition(some_file)
    @rule(index=ANY)
    def delete_a_file(self, index: int) -> None:
        number, path = self.pick_file(index)
        path.unlink()
        item = self.model.tasks[number]
        if item.status not in FINISHED:
            item.become(CANCELLED, item.owner)

    @precondition(some_file)
    @rule()
    def delete_all_files(self) -> None:
        """All of three or more open tasks at once is not meant."""
        numbers = list(self.files())
        for path in self.files().values():
            path.unlink()
        if len([n for n in numbers if self.model.tasks[n].status not in FINISHED]) < 3:
            for number in numbers:
                item = self.model.tasks[number]
                item.become(item.status if item.status in FINISHED else CANCELLED, item.owner)

    @precondition(some_file)
    @rule(index=ANY)
    def rename_a_file(self, index: int) -> None:
        number, path = self.pick_file(index)
        path.rename(path.with_name(f"{number}-{self.word('renamed')}.md"))

    @precondition(some_file)
    @rule(index=ANY, name=NAMES)
    def spoil_and_mend_a_file(self, index: int, name: str) -> None:
        number, path = self.pick_file(index)
        text = path.read_text()
        path.write_text("---\nsubject: spoiled\nstatus: nonsense\n---\n")
        assert str(path.relative_to(self.root)) in self.team.status().unreadable
        task, item = self.team.task(number), self.model.tasks[number]
        assert (task.subject, task.status, task.owner, task.claim, task.ready) == (item.subject, *item.state, False)
        if self.acts(name) and number not in self.model.held_by(name):
            with pytest.raises(Conflict):
                self.team.claim(number, by=name)
        path.write_text(text)

    @precondition(some_task)
    @rule(team_too=st.booleans())
    def clean_everything_away(self, team_too: bool) -> None:
        for name in (".tasks", ".team") if team_too else (".tasks",):
            shutil.rmtree(self.root / name)

    @rule(name=st.sampled_from(["alice", "bob"]), times=st.integers(1, 2))
    def append_a_message(self, name: str, times: int) -> None:
        if name in self.model.members:
            text = self.word("message")
            with open(self.root / f".team/inbox/{name}.jsonl", "a") as f:
                f.write((json.dumps({"content": text}) + "\n") * times)
            self.model.mail.setdefault(name, []).extend([text] * times)

    @rule(name=st.sampled_from(["carol", "alice"]))
    def write_a_member(self, name: str) -> None:
        path = self.root / ".team/config.json"
        config = json.loads(path.read_text())
        config["members"].setdefault(name, {"role": "qa"})
        path.write_text(json.dumps(config))
        self.model.members.add(name)

    # -- what must be so after each step --------------------------------------------------------------

    @invariant()
    def agrees(self) -> None:
        model = self.model
        found = {task.id: task for task in self.team.tasks(finished=True)}
        assert {n: _facts(t) for n, t in found.items()} == {n: _expected(model, i) for n, i in model.tasks.items()}
        for number, item in model.tasks.items():
            task = found[number]
            assert [line for line in item.lines if task.description.count(line) != 1] == [], "lines of the description"
            assert [note for note in item.notes if task.notes.count(note) != 1] == [], "notes"
            item.versions[item.state] = (task.text, len(item.lines))
        assert {m.name for m in self.team.members()} == model.members
        for name in [*model.members, "user"]:
            assert [m.content for m in self.team.inbox(name)] == model.mail.get(name, []), f"mail of {name}"


def _facts(task: Any) -> tuple[object, ...]:
    return task.subject, task.status, task.owner, task.claim, list(task.blocked_by), task.priority, task.ready


def _expected(model: Model, item: Item) -> tuple[object, ...]:
    ready = item.status == PENDING and not item.owner and not model.is_blocked(item)
    return item.subject, item.status, item.owner, item.claim, item.blocked_by, item.priority, ready


def _with_state(text: str, status: str, owner: str) -> str:
    """A text with status and owner changed, as a person would in an editor."""
    if not text.startswith("---\n"):
        subject, _, rest = text.removeprefix("# ").partition("\n")
        text = f"---\nsubject: {subject}\n---\n{rest}"
    head, _, rest = text.removeprefix("---\n").partition("---\n")
    head = "".join(line + "\n" for line in head.splitlines() if not re.match("(status|owner):", line))
    return f"---\n{head}status: {status}\nowner: {owner}\n---\n{rest}"


def _with_line(text: str, line: str) -> str:
    body, heading, notes = text.partition("\n## Notes\n")
    return f"{body.rstrip()}\n{line}\n{heading}{notes}"


QUICK = settings(
    max_examples=30, stateful_step_count=20, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip

TestTeamAgainstModel = Machine.TestCase
TestTeamAgainstModel.settings = QUICK


@pytest.mark.long
class TestTeamAgainstModelForLong(Machine.TestCase):  # type: ignore[misc, valid-type, name-defined]
    settings = settings(QUICK, max_examples=80, stateful_step_count=30)
