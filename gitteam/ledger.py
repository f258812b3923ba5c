"""The only writer: one change, one lock, one commit.

    ledger.change(actor, lambda change: moves.claim(change, 12))

The operation runs under the file lock, on a view of the branch with every hand edit
already taken in, and decides from nothing else. What it wrote becomes one commit;
an exception leaves no trace. It may run more than once: when the branch turns out to
have moved, the whole decision is made anew.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TypeVar

from gitteam import disk, layout, liveness, moves
from gitteam.change import Actor, Change, member_identity
from gitteam.checkpoint import Checkpoint, CheckpointFile, Entry
from gitteam.errors import BadFile, Refused
from gitteam.layout import Layout
from gitteam.lock import file_lock
from gitteam.objects import digest
from gitteam.reconcile import Looked, Reconciliation, Seen, look
from gitteam.repo import RefMoved, Repo
from gitteam.roster import Config, parse_config
from gitteam.tree import Tree

T = TypeVar("T")


class Ledger:
    """The history of one team and the files that show it."""

    def __init__(self, place: Layout, lock_timeout: float):
        self.place = place
        self.branch, self.tracked = layout.read_branch(place)
        self.ref = f"refs/heads/{self.branch}"
        self._lock_timeout = lock_timeout
        self._mutex = threading.RLock()
        self._is_locked = False
        self._note = CheckpointFile(place.checkpoint)
        self._repo: Repo | None = None
        self._commit_id = ""
        self._tree: Tree | None = None
        self._renewed: dict[str, Entry | None] = {}
        self._also: tuple[str, ...] = ()
        self._hand = layout.USER

    @property
    def repo(self) -> Repo:
        if repo := self._repo:
            return repo  # without the mutex: who only reads does not wait for a change under way
        with self._mutex:
            if self._repo is None:
                self._repo = Repo(self.place)
            return self._repo

    @property
    def _standing(self) -> Tree:
        """The files of the commit that the last look found at the tip."""
        assert self._tree is not None, "reconcile comes first"
        return self._tree

    def person(self) -> Actor:
        return Actor(layout.USER, self.repo.person())

    def actor(self, name: str) -> Actor:
        if name == layout.USER:
            return self.person()
        return Actor(name, member_identity(name))

    def config(self) -> Config:
        """The settings as the branch has them now."""
        return self._config(self._tree_at(self.tip()))

    def tip(self) -> str:
        tip = self.repo.tip(self.ref)
        if tip is None:
            raise Refused(f"branch {self.branch} is gone: run `gitteam doctor`")
        return tip

    def noted_commit(self) -> str:
        """The commit the files stand at, as far as anybody has noted."""
        note = self._note.read()
        return note.commit if note else ""

    def missing_files(self) -> set[str]:
        """Task files that were just found gone: see reconcile.GONE_SECONDS."""
        note = self._note.read()
        return set(note.missing) if note else set()

    def restore_swept(self, paths: list[str]) -> None:
        """Put back files of done/ that are gone from disk."""
        with self.locked():
            for path in paths:
                disk.replace(self.place, path, self._tree_at(self._commit_id).read(path), "", durable=False)

    def files(self) -> dict[str, bytes]:
        """All of the board as the branch has it, swept tasks included."""
        tree = self._tree_at(self.tip())
        paths = self.repo.files_under(self.ref, layout.TEAM, layout.TASKS)
        return {path: tree.read(path) or b"" for path in paths}

    def remove_board(self, paths: Iterable[str]) -> None:
        """In tracked mode: the last commit, which takes the board off the branch."""

        def removal(change: Change) -> None:
            for path in paths:
                change.remove(path)
            change.story.tell("uninstalled", f"{change.actor.title} takes the team's files off {self.branch}")

        self.change(layout.USER, removal)

    def put_branch(self, commit: str, old: str | None) -> None:
        """Put the branch back to a commit it was moved away from."""
        with self.locked():
            self.repo.move_ref(self.ref, commit, old, durable=True)

    def forget_note(self) -> None:
        """Take the branch as it is: without a note no absence counts, and an older text never wins."""
        with self.locked():
            self._note.drop()

    # -- changing -----------------------------------------------------------------------

    def change(self, name: str, operation: Callable[[Change], T]) -> T:
        """Run `operation` under the lock in this name and commit what it wrote."""
        with self.locked():
            while True:
                try:
                    result, event = self._attempt(name, operation)
                    break
                except RefMoved:
                    self._tree = None
            self._tidy(event)
            return result

    def sync(self, also: Iterable[str] = (), by: str = layout.USER) -> None:
        """Take in what was done by hand, in the name of `by`, and what dead members left behind.

        `also` are files in done/, which are looked at only when somebody says so.
        """
        with self.locked():
            self._also, self._hand = tuple(also), by
            try:
                self.change(layout.USER, lambda change: None)
            finally:
                self._also, self._hand = (), layout.USER

    def _attempt(self, name: str, operation: Callable[[Change], T]) -> tuple[T, str]:
        """Decide and commit; returns what the operation returned, and what it did."""
        self._check_writable()
        self._reconcile()
        change = self._begin(self.actor(name))
        if any(task.run for task in change.board.held()):
            self._reap()
            change = self._begin(self.actor(name))
        result = operation(change)
        if change.edits:
            self._commit(change)
        return result, change.story.event

    def _tidy(self, event: str) -> None:
        """What follows a change and is no part of it: if it cannot be done now, the next one does it."""
        with suppress(RefMoved, Refused):
            if event in ("completed", "cancelled"):
                self._sweep()
            if any(disk.asides(self.place)):
                self._reconcile()  # somebody wrote to a file while it was being replaced
            return
        self._tree = None

    def _begin(self, actor: Actor) -> Change:
        troubles = (self._note.read() or Checkpoint()).troubles
        return Change(self._standing, self._config(self._standing), troubles, actor, time.time())

    def _config(self, tree: Tree, fallback: Tree | None = None) -> Config:
        try:
            return parse_config(tree.read(layout.CONFIG) or b"")
        except BadFile as e:
            if fallback and fallback.oid(layout.CONFIG):
                return self._config(fallback)  # a person's own commit broke it; it is put back
            raise Refused(
                f"{layout.CONFIG} on branch {self.branch} cannot be read ({e}): run `gitteam doctor`"
            ) from None

    def _reap(self) -> None:
        """Give back what dead members held."""
        change = self._begin(self.actor(layout.SYSTEM))
        moves.reap(change, lambda task: liveness.holds(self.place, task))
        if change.edits:
            self._commit(change)

    def _sweep(self) -> None:
        change = self._begin(self.actor(layout.SYSTEM))
        moves.sweep(change)
        if change.edits:
            self._commit(change)

    def _check_writable(self) -> None:
        if not self.tracked:
            if places := self.repo.checkouts_of(self.ref):
                raise Refused(
                    f"branch {self.branch} is checked out in {places[0]}: switch that to another branch first; "
                    f"`git log {self.branch}` and `git show {self.branch}:PATH` show it without"
                )
            return
        if self.repo.head_branch() != self.branch:
            raise Refused(f"the board is on branch {self.branch}, which is not checked out: `git switch {self.branch}`")
        self.repo.index.free_own_lock()
        if what := self.repo.unfinished_business():
            raise Refused(f"{what} is under way in this checkout: finish or abort it first")

    # -- committing ---------------------------------------------------------------------

    def _commit(self, change: Change) -> None:
        """A change becomes a commit, and then files."""
        self._record(change)
        note = self._note.read() or Checkpoint()
        durable = change.config.durable
        entries = {path: self._bring(path, note.entries.get(path), None, durable) for path in change.edits}
        self._write_note(entries, note.missing, durable)

    def _record(self, change: Change) -> None:
        with self.repo.index.set(blobs(self.repo, change.edits)) if self.tracked else nullcontext():
            self._commit_id, self._tree = record(
                self.repo, self.ref, self._standing, self._commit_id, change, own_branch=not self.tracked
            )
        if self.repo.objects.are_crowded():
            with suppress(OSError):
                self.repo.pack_in_background()

    def _bring(self, path: str, entry: Entry | None, seen: Seen | None, durable: bool) -> Entry | None:
        """Bring one file on disk to what the branch says. `seen` is what was read there, if not what the note says."""
        data, blob = self._standing.read(path), self._standing.oid(path) or ""
        if entry and entry.bad and not seen and self._stays(path):
            return Entry(blob, entry.look, entry.bad)
        if seen and seen.data == data:
            return Entry(blob, disk.settled(seen.look))
        look = disk.replace(self.place, path, data, self._known(path, entry, seen), durable)
        return Entry(blob, look and disk.settled(look)) if data is not None else None

    def _stays(self, path: str) -> bool:
        """What cannot be read stays as it is. An inbox can, but for its last line."""
        place = self.place.at(path)
        if layout.is_inbox(path) and disk.is_regular(place) and os.access(place, os.R_OK):
            return False
        return os.path.lexists(place)

    def _known(self, path: str, entry: Entry | None, seen: Seen | None) -> str:
        """How much of the file that stands there now has been taken in: see disk.Aside."""
        objects = self.repo.objects
        if layout.is_inbox(path):
            data = seen.data if seen else objects.blob(entry.blob) if entry and entry.blob else b""
            return str(len(data))
        return digest(b"blob", seen.data, objects.hex_length) if seen else entry.blob if entry else ""

    def _write_note(self, entries: dict[str, Entry | None], missing: dict[str, float], durable: bool) -> None:
        scanned = {path: e for path, e in entries.items() if not path.startswith(layout.DONE + "/")}
        self._note.write(self._commit_id, {**self._renewed, **scanned}, missing, durable)
        self._renewed = {}

    # -- reconciling ----------------------------------------------------------------------

    def _reconcile(self) -> None:
        """Bring branch and files together: see gitteam.reconcile for how it is decided."""
        note, tip = self._note.read(), self.tip()
        if self._tree is None or self._commit_id != tip:
            self._commit_id, self._tree = tip, self._tree_at(tip)
        looked = look(self.place, note, self._also)
        self._renewed = {**looked.renewed}
        if note and note.commit == tip and not looked and not note.missing and self._directories_stand():
            return
        if note and note.commit != tip and not self.repo.is_ancestor(note.commit, tip):
            raise Refused(
                f"branch {self.branch} was moved back or rewritten (the files stand at {note.commit[:10]}): "
                "run `gitteam doctor`"
            )
        self._take_in(note, tip, looked)

    def _directories_stand(self) -> bool:
        wanted = [layout.TASKS, layout.INBOX, *([layout.DONE] if self._standing.directories(layout.DONE) else [])]
        return all(os.path.isdir(self.place.at(path)) for path in wanted)

    def _take_in(self, note: Checkpoint | None, tip: str, looked: Looked) -> None:
        person = self.actor(self._hand)
        base = self._tree_at(note.commit) if note else Tree(self.repo.objects, None, self.place.root)
        config = self._config(self._standing, base)
        work = Reconciliation(
            self.repo, self.place, self._standing, base, note, tip, config, person.title, time.time(), time.monotonic(),
            looked,
        )  # fmt: skip
        work.take_in()
        before = self._standing
        if work.edits or work.story.sentences:
            change = Change(self._standing, config, {}, person, work.now)
            change.edits, change.story = work.edits, work.story
            self._record(change)
        self._settle(work, before, config.durable)

    def _settle(self, work: Reconciliation, before: Tree, durable: bool) -> None:
        """After the commit: files, then the note, then what was set aside."""
        if self.tracked and work.note and work.note.commit != work.tip:
            # A process may have died between branch and index. Where a person committed, theirs is right already.
            paths = [*before.differing(work.base, layout.TEAM), *before.differing(work.base, layout.TASKS)]
            with self.repo.index.set({path: self._standing.oid(path) for path in paths}):
                pass
        noted = work.note.entries if work.note else {}
        restored = set(work.looked.gone) - set(work.missing)
        if restored:
            self._note.drop()  # or a crash would make a deletion of what is not yet put back
        entries: dict[str, Entry | None] = {}
        for path in {*work.edits, *work.seen, *work.bad, *work.lost, *restored, *work.outdated()}:
            seen, bad = work.seen.get(path), work.bad.get(path)
            if bad and (not seen or seen.data == self._standing.read(path)):
                entries[path] = Entry(self._standing.oid(path) or "", bad.look, bad.bad)
            else:
                known = noted.get(path) or Entry(before.oid(path) or "", None)
                entries[path] = self._bring(path, known, seen, durable)
        for directory in (layout.TASKS, layout.INBOX):
            os.makedirs(self.place.at(directory), exist_ok=True)
        self._write_note(entries, work.missing, durable)
        for aside, known_now in work.asides:
            aside.keep(known_now) if known_now else aside.drop()

    def _tree_at(self, commit: str) -> Tree:
        return Tree(self.repo.objects, self.repo.tree_of(commit), self.place.root)

    # -- the lock ---------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One thread of one process at a time; nested use is one hold."""
        with self._mutex:
            if self._is_locked:
                yield
                return
            with file_lock(self.place, self._lock_timeout):
                self._is_locked = True
                try:
                    yield
                finally:
                    self._is_locked = False

    def warm_up(self) -> None:
        """Do beforehand what the first change would otherwise have to wait for."""
        import filelock  # noqa: F401

        with self._mutex:
            self.repo.warm_up(self.config().durable)

    def close(self) -> None:
        if self._repo:
            self._repo.close()
            self._repo = None


def record(repo: Repo, ref: str, tree: Tree, parent: str | None, change: Change, own_branch: bool) -> tuple[str, Tree]:
    """Objects, then the ref: the moment of truth. Before it nothing happened, after it everything did."""
    durable = change.config.durable
    tree = tree.with_edits(change.edits, durable)
    author, committer = change.actor.identity.line(change.now), repo.person().line(change.now)
    message = change.story.message(os.urandom(8).hex())
    commit = repo.commit(tree.root or "", parent, author, committer, message, durable)
    repo.objects.rewrite_lost(durable)  # a prune beside us may take what no ref reaches yet
    repo.move_ref(ref, commit, parent, durable, may_be_stale=own_branch)
    repo.objects.rewrite_lost(durable)
    repo.objects.forget_fresh()
    return commit, tree


def blobs(repo: Repo, edits: dict[str, bytes | None]) -> dict[str, str | None]:
    """What each file will be as an object."""
    size = repo.objects.hex_length
    return {path: None if data is None else digest(b"blob", data, size) for path, data in edits.items()}
