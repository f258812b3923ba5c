"""The team in a repository, for Python programs; the commands are thin over this.

    from gitteam import Team

    team = Team(".")
    task = team.add("Design the schema", blocked_by=[1])
    team.claim(by="alice")
    with team.take("alice") as messages:
        ...          # the messages leave the inbox when this block ends without an exception

Every method that changes something is one commit and has returned only when that
commit is made. `by` is who acts: a member's name, or `user`, the person.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from gitteam import layout, liveness, mail, moves, requests, roster
from gitteam.board import Board
from gitteam.checkpoint import Checkpoint, CheckpointFile, differences
from gitteam.errors import BadFile, BadInput, LockTimeout, NothingToDo, Refused
from gitteam.layout import USER, read_ref
from gitteam.lock import LOCK_TIMEOUT
from gitteam.records import Member, Message, Task
from gitteam.requests import Request
from gitteam.roster import Config, read_config
from gitteam.status import Status, gather
from gitteam.tree import Standing

# What writes, waits or reads the history is loaded by the methods that need it: most commands only look.
if TYPE_CHECKING:
    from gitteam.change import Change
    from gitteam.journal import Entry
    from gitteam.ledger import Ledger
    from gitteam.setup import Made
    from gitteam.watch import Watch

T = TypeVar("T")


class Team:
    """The team of the repository that `path` is in. Safe to share between threads."""

    def __init__(self, path: str | os.PathLike[str] = ".", lock_timeout: float = LOCK_TIMEOUT):
        self.place = layout.find(os.fspath(path))
        self._lock_timeout = lock_timeout
        self._ledger: Ledger | None = None
        self._mutex = threading.Lock()
        if not os.path.exists(self.place.branch):
            from gitteam import setup

            setup.adopt_tracked_board(self.place)
        self.branch, self.tracked = layout.read_branch(self.place)
        layout.refuse_foreign_directories(self.place)
        self.warnings: list[str] = []  # why the last reading may not show the newest state
        self._note = CheckpointFile(self.place.checkpoint)

    @staticmethod
    def init(path: str | os.PathLike[str] = ".", name: str | None = None, branch: str | None = None) -> Made:
        """Make a team in a repository, or find the one that is there."""
        from gitteam import setup

        return setup.init(layout.find(os.fspath(path)), name, branch)

    @property
    def ledger(self) -> Ledger:
        """The only writer."""
        with self._mutex:
            if self._ledger is None:
                from gitteam.ledger import Ledger

                self._ledger = Ledger(self.place, self._lock_timeout)
            return self._ledger

    def close(self) -> None:
        """End the git processes that are kept for the next change."""
        if self._ledger:
            self._ledger.close()

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def change(self, by: str, operation: Callable[[Change], T]) -> T:
        """Make one commit of what the operation does. It may run more than once: see gitteam.ledger."""

        def checked(change: Change) -> T:
            change.config.member(by)
            try:
                return operation(change)
            except BadFile as e:
                raise BadInput(f"this text cannot be stored: {e.reason}") from None
            except UnicodeEncodeError:
                raise BadInput("this text cannot be stored: it is not UTF-8") from None

        return self.ledger.change(by, checked)

    # -- reading: from the files, after hand edits are taken in -----------------------------

    def _files(self) -> Standing:
        return self.look()[0]

    def look(self) -> tuple[Standing, Board]:
        """The files as they stand and the board in them. git is asked only if something differs from the note."""
        self.warnings = []
        if found := self._current():
            return found
        return self._as_noted(is_certain=self._sync())

    def _sync(self, also: Sequence[str] = ()) -> bool:
        """Take in what can be taken in; where nothing can be written, reading goes on with a warning."""
        try:
            self.ledger.sync(also)
        except (LockTimeout, Refused) as e:
            self.warnings.append(str(e))
        except OSError as e:
            self.warnings.append(f"cannot write here ({e.strerror}): showing what is on disk")
        else:
            return True
        return False

    def _as_noted(self, is_certain: bool = False) -> tuple[Standing, Board]:
        note = self._note.read() or Checkpoint()
        files = Standing(self.place, note, lambda oid: self.ledger.repo.objects.read(oid), is_certain)
        return files, Board(files, files.troubles)

    def _current(self) -> tuple[Standing, Board] | None:
        """What the files show, if nobody has changed anything since they were noted and nobody has died."""
        note = self._note.read()
        if not note or note.missing or read_ref(self.place, f"refs/heads/{self.branch}") != note.commit:
            return None
        if not os.path.isdir(self.place.at(layout.TASKS)):
            return None
        changed, gone, renewed = differences(self.place, note)
        if changed or gone or None in renewed.values() or _has_asides(self.place.aside):
            return None
        files, board = self._as_noted(is_certain=True)
        return None if not all(liveness.holds(self.place, task) for task in board.held()) else (files, board)

    def board(self) -> Board:
        """All tasks together."""
        return self.look()[1]

    def config(self) -> Config:
        """The team's name, settings and roster."""
        return self._config(self._files())

    def _config(self, files: Standing) -> Config:
        try:
            return read_config(files)
        except BadFile:
            return self.ledger.config()  # not on disk: another branch may be checked out

    def tasks(self, finished: bool = False) -> list[Task]:
        """The tasks by id; with `finished` also those swept into done/."""
        board = self.board()
        swept = [board.judged(task) for task in board.swept()] if finished else []
        return sorted([*swept, *board.all()], key=lambda task: task.id)

    def task(self, number: int) -> Task:
        """One task; an unknown id raises NotFound."""
        return self.board().get(number)

    def members(self) -> list[Member]:
        """Who is on the team, by name."""
        return sorted(self.config().members.values(), key=lambda member: member.name)

    def inbox(self, name: str | None = None) -> list[Message]:
        """What is in an inbox; without a name what is meant for the person. Consumes nothing."""
        files = self._files()
        if name is not None:
            self._config(files).member(name)
            return mail.read_inbox(files, name)
        names = [USER] if liveness.current_run(self.place, layout.LEAD) else [USER, layout.LEAD]
        return sorted((m for n in names for m in mail.read_inbox(files, n)), key=lambda m: m.timestamp)

    def status(self) -> Status:
        """Who is there, what needs a person, what cannot be read."""
        files, board = self.look()
        return gather(self.place, self.branch, self._config(files), board, files)

    def log(self, target: int | str | None = None, limit: int = 50) -> Iterator[Entry]:
        """The diary, newest first: all of it, one task's, or one member's."""
        from gitteam import journal

        self.ledger.tip()  # refuses where the branch is gone
        return journal.entries(self.ledger.repo, self.ledger.ref, self.log_options(target), limit)

    def log_options(self, target: int | str | None) -> list[str]:
        """What picks those entries out, as options of `git log`."""
        from gitteam import journal
        from gitteam.change import member_identity

        if isinstance(target, int):
            self.task(target)
        author = ""
        if isinstance(target, str):
            self.config().member(target)
            identity = self.ledger.repo.person() if target == USER else member_identity(target)
            author = identity.email if target == USER else f"^{identity.name} <{identity.email}>"
        return journal.selection(target, author)

    # -- tasks ------------------------------------------------------------------------------

    def add(
        self, subject: str, description: str = "", *, blocked_by: Sequence[int] = (), role: str = "", priority: int = 0,
        by: str = USER,
    ) -> Task:  # fmt: skip
        """Put a task on the board."""
        return self.change(by, lambda c: moves.add(c, subject, description, tuple(blocked_by), role, priority))

    def claim(self, number: int | None = None, *, by: str = USER, run: str = "") -> Task:
        """Take this task, or the next one there is. A claim with a `run` ends with that run: see gitteam.liveness."""
        return self.change(by, lambda c: moves.claim(c, number, run))

    def release(
        self, number: int, reason: str = "", *, by: str = USER, claim: int | None = None, force: bool = False
    ) -> Task:
        """Hand a task back. `claim` refuses if that is no longer the current claim; `force` takes it from anybody."""
        return self.change(by, lambda c: moves.release(c, number, reason, claim, force))

    def done(self, number: int, result: str = "", *, by: str = USER, claim: int | None = None) -> Task:
        """Complete a task, with a result for its notes."""
        return self.change(by, lambda c: moves.complete(c, number, result, claim))

    def note(self, number: int, text: str, *, by: str = USER) -> Task:
        """Write a line under a task's notes."""
        return self.change(by, lambda c: moves.note(c, number, text))

    def block(self, number: int, on: int, *, by: str = USER) -> Task:
        """Make a task wait for another one."""
        return self.change(by, lambda c: moves.block(c, number, on))

    def cancel(self, number: int, reason: str = "", *, by: str = USER) -> Task:
        """Take a task off the board; it stays in the history."""
        return self.change(by, lambda c: moves.cancel(c, number, reason))

    # -- members ----------------------------------------------------------------------------

    def add_member(
        self, name: str, role: str = "", kind: str = "agent", *, prompt: str = "", model: str = "", plan: bool = False,
        by: str = USER,
    ) -> Member:  # fmt: skip
        """Put somebody on the team: an agent, a person, or something external that uses the commands."""
        member = Member(name, role, kind, prompt=prompt, model=model, plan=plan)
        return self.change(by, lambda c: roster.add(c, member))

    def remove_member(self, name: str, *, by: str = USER) -> Member:
        """Take somebody off the team; what they hold goes back to the board, their unread mail with them."""

        def remove(change: Change) -> Member:
            member = roster.remove(change, name, self.is_alive)
            requests.forget(change, name)
            return member

        return self.change(by, remove)

    def is_alive(self, name: str) -> bool:
        """Whether a member of this name is running, here or in another process."""
        return bool(liveness.current_run(self.place, name))

    # -- requests ---------------------------------------------------------------------------

    def requests(self) -> list[Request]:
        """What waits for an answer, and the plans that were approved for work under way."""
        return requests.read_requests(self._files())

    def ask_shutdown(self, name: str, reason: str = "", *, by: str = USER) -> Request:
        """Ask a running member to end; it answers at its next model call."""
        return self.change(by, lambda c: requests.ask_shutdown(c, name, reason))

    def decide_plan(self, request: str, approve: bool, feedback: str = "", *, by: str = USER) -> Request:
        """Approve or reject a member's plan: by the request's id, the beginning of it, or the member's name."""
        return self.change(by, lambda c: requests.decide_plan(c, request, approve, feedback))

    # -- messages ---------------------------------------------------------------------------

    def send(self, to: str, content: str, *, kind: str = "message", by: str = USER) -> list[Message]:
        """Write to somebody, or to `all`; returns what was put into inboxes."""
        return self.change(by, lambda c: mail.send(c, to, content, kind))

    def broadcast(self, content: str, *, by: str = USER) -> list[Message]:
        """Write to everybody but the sender and those shut down."""
        return self.change(by, lambda c: mail.broadcast(c, content))

    @contextmanager
    def take(self, name: str) -> Iterator[list[Message]]:
        """The messages in an inbox, which leave it when the block ends well. At least once, never not at all:
        whoever dies inside the block finds them there again. Two who take from one inbox take turns.
        """
        import filelock

        self.ledger.sync()
        self._config(self._as_noted()[0]).member(name)
        lock = filelock.FileLock(self.place.take_lock(name), fallback_to_soft=False, thread_local=False)
        try:
            lock.acquire(self._lock_timeout, 0.005)
        except filelock.Timeout:
            raise LockTimeout(f"somebody else is taking {name}'s messages: try again") from None
        try:
            self.ledger.sync()
            messages = mail.read_inbox(self._as_noted()[0], name)
            yield messages
            if messages:
                self.ledger.change(name, lambda c: mail.take(c, name, {m.id for m in messages}))
        finally:
            lock.release()

    # -- waiting ----------------------------------------------------------------------------

    def wait(
        self, name: str, timeout: float | None = None, warn: Callable[[str], None] = lambda _: None
    ) -> tuple[list[Message], Task | None]:
        """Block until there is a message for this member or a task they may claim; returns both as they are then."""
        deadline = time.monotonic() + (timeout if timeout is not None else float("inf"))
        self.config().member(name)
        from gitteam.watch import Watch

        said = ""
        with Watch(self.place) as watch:
            self.ledger.warm_up()
            while True:
                if watch.trouble != said:
                    warn(said := watch.trouble)
                found = self._something_for(name, watch)
                if found[0] or found[1]:
                    return found
                left = deadline - time.monotonic()
                if left <= 0:
                    raise NothingToDo(f"nothing came for {name} in {timeout:g} s")
                watch.wait(min(left, self.patience()))

    def _something_for(self, name: str, watch: Watch) -> tuple[list[Message], Task | None]:
        self.take_in_swept(watch)
        files, board = self.look()
        member = self._config(files).member(name)
        task = None if board.held_by(name) else board.next_for(member)
        return mail.read_inbox(files, name), board.judged(task) if task else None

    def take_in_swept(self, watch: Watch) -> list[str]:
        """Take in what was saved in done/, which is looked at only when told to; returns what was in the way."""
        swept, self.warnings = watch.swept_files(), []
        if swept and not self._sync(swept):
            watch.remember(swept)
        return self.warnings

    def patience(self) -> float:
        """A file that is gone has to be looked for again soon: see reconcile.GONE_SECONDS."""
        note = self._note.read()
        return 0.5 if note and note.missing else float("inf")

    def take_in(self, path: str, *, by: str = USER) -> None:
        """Take in a file that was just saved; one in done/ is looked at only when somebody says so."""
        self._config(self._as_noted()[0]).member(by)
        self.ledger.sync(also=[path] if path.startswith(layout.DONE) else (), by=by)


def _has_asides(path: str) -> bool:
    try:
        return bool(os.listdir(path))
    except FileNotFoundError:
        return False
