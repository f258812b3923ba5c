"""The one door to git: every command a named function, none of the person's programs run."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from gitteam.errors import BadInput, NoTeam, Refused
from gitteam.layout import Layout, read_ref
from gitteam.objects import Objects, sync_directory
from gitteam.persons_index import PersonsIndex
from gitteam.runner import GitFailed, Process, Runner

OLDEST_GIT = (2, 31)
STALE_REF_LOCK_SECONDS, MAX_STALE_LOCKS = 1.0, 2

# However a person likes their own `git log`, ours is read by a program.
_PLAIN_LOG = (
    "-c", "core.quotePath=false", "-c", "grep.patternType=basic", "-c", "grep.extendedRegexp=false",
    "-c", "trailer.separators=:", "-c", "core.commentChar=#", "-c", "i18n.logOutputEncoding=UTF-8",
)  # fmt: skip
_PLAIN_DIFF = ("--no-color", "--no-ext-diff", "--no-textconv", "-O/dev/null")


class MissingObject(Refused):
    """The history needs an object that is not there."""

    def __init__(self, oid: str):
        self.oid = oid
        super().__init__(f"object {oid} is missing from the repository: run `gitteam doctor`")


class RefMoved(Exception):
    """The branch is no longer where this change began: decide again."""


@dataclass(frozen=True)
class Identity:
    name: str
    email: str

    def line(self, when: float) -> str:
        offset = time.strftime("%z", time.localtime(when)) or "+0000"
        return f"{self.name} <{self.email}> {int(when)} {offset}"


class Repo:
    """One repository, addressed by its git directory. Use it under the ledger's lock or from one thread."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self._git = Runner(layout)
        self._reader: Process | None = None
        self._reading = threading.Lock()
        self._refs: dict[bool, Process] = {}
        self._person: Identity | None = None
        facts = self._facts()
        if facts["bare"] == "true":
            raise NoTeam(f"{layout.common} is a bare repository: gitteam needs a checkout; clone it and work there")
        self.objects = Objects(facts["objects"], 64 if facts["format"] == "sha256" else 40, self._read_object)
        self.index = PersonsIndex(self._git, self.objects.hex_length)

    # -- facts ----------------------------------------------------------------------

    def _facts(self) -> dict[str, str]:
        try:
            # Without a work tree named, or a bare repository would not say so.
            facts = self._git.text(
                "rev-parse", "--is-bare-repository", "--show-object-format", "--git-path", "objects", tree=False
            )
        except GitFailed as e:
            raise NoTeam(f"{self.layout.root}: {e}") from None
        bare, kind, objects = facts.split("\n", 2)
        return {"bare": bare, "format": kind, "objects": os.path.join(self.layout.root, objects)}

    def version(self) -> tuple[int, ...]:
        found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", self._git.text("version"))
        return tuple(int(part or 0) for part in found.groups()) if found else (0,)

    def person(self) -> Identity:
        """Who sits at the keyboard, as git knows them; a login name where git knows nobody."""
        if self._person is None:
            try:
                found = re.match(r"(.*) <(.*)> ", self._git.text("var", "GIT_AUTHOR_IDENT"))
            except GitFailed:
                found = None
            login = re.sub(r"[^\w .-]", "", os.environ.get("USER") or os.environ.get("LOGNAME") or "") or "user"
            self._person = Identity(found[1], found[2]) if found else Identity(login, "user@gitteam.invalid")
        return self._person

    # -- branches -------------------------------------------------------------------

    def check_branch_name(self, name: str) -> str:
        valid = self._git.run("check-ref-format", f"refs/heads/{name}", ok=(0, 1))[0] == 0
        if not valid or name.startswith("-") or name in ("@", "HEAD"):
            raise BadInput(f"{name!r} is no valid branch name")
        return name

    def tip(self, ref: str) -> str | None:
        """The commit a full ref name points at, or None."""
        if value := read_ref(self.layout, ref):
            return value
        status, out = self._git.run("show-ref", "--verify", "--hash", ref, ok=(0, 1, 128))
        return out.decode().strip() if status == 0 else None

    def head_branch(self) -> str | None:
        """The branch checked out in the main checkout, born or not; None when HEAD is detached."""
        status, out = self._git.run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
        return os.fsdecode(out).strip("\n").removeprefix("refs/heads/") if status == 0 else None

    def symbolic(self, ref: str) -> str:
        """What a ref is another name for, or ""."""
        return os.fsdecode(self._git.run("symbolic-ref", "--quiet", ref, ok=(0, 1, 128))[1]).strip("\n")

    def checkouts_of(self, ref: str) -> list[str]:
        """The work trees in which this branch is checked out."""
        heads = {self.layout.root: os.path.join(self.layout.common, "HEAD")}
        linked = os.path.join(self.layout.common, "worktrees")
        for name in os.listdir(linked) if os.path.isdir(linked) else ():
            heads[os.path.join(linked, name)] = os.path.join(linked, name, "HEAD")
        found = []
        for place, head in heads.items():
            try:
                with open(head, encoding="utf-8", errors="replace") as f:
                    text = f.read().strip()
            except OSError:
                continue
            if text == "ref: refs/heads/.invalid":  # reftable: only git knows
                return self._checkouts_by_git(ref)
            if text == "ref: " + ref:
                found.append(place)
        return found

    def _checkouts_by_git(self, ref: str) -> list[str]:
        blocks = self._git.text("worktree", "list", "--porcelain").split("\n\n")
        return [b.split("\n")[0].removeprefix("worktree ") for b in blocks if f"branch {ref}" in b.split("\n")]

    def is_ancestor(self, old: str, new: str) -> bool:
        return self._git.run("merge-base", "--is-ancestor", old, new, ok=(0, 1, 128))[0] == 0

    def move_ref(self, ref: str, new: str, old: str | None, durable: bool, may_be_stale: bool = True) -> None:
        """Point `ref` at `new` if it still is at `old`: the moment at which a change has happened."""
        zero = "0" * len(new)
        lock = os.path.join(self.layout.common, ref + ".lock")
        patience = _Patience()
        while True:
            answer = self._update_ref(f"update {ref} {new} {old or zero}", durable)
            if answer is None or self.tip(ref) == new:
                break
            if self.tip(ref) != old:
                raise RefMoved(ref)
            # Another git is at work beside us, or one was killed and left REF.lock behind. Nobody but us has business
            # with a branch of our own, so a lock on that which stands still is stale.
            held = _identity(lock)
            if patience.is_over(held):
                if held is None or not may_be_stale or patience.ends >= MAX_STALE_LOCKS:
                    raise GitFailed(f"git update-ref: {answer.splitlines()[0]}")
                os.unlink(lock)
            self.objects.rewrite_lost(durable)
            time.sleep(0.01)
        if durable:
            with suppress(FileNotFoundError, NotADirectoryError):  # packed meanwhile, or no files backend
                sync_directory(os.path.dirname(os.path.join(self.layout.common, ref)))

    def warm_up(self, durable: bool) -> None:
        self.person()
        self._ref_process(durable)

    def _ref_process(self, durable: bool) -> Process:
        if durable not in self._refs:
            fsync = "core.fsync=committed" if durable else "core.fsync=none"
            self._refs[durable] = self._git.start("-c", fsync, "update-ref", "-m", "gitteam", "--stdin")
        return self._refs[durable]

    def _update_ref(self, command: str, durable: bool) -> str | None:
        """None when git moved the ref, otherwise what it said. The process stays for the next change."""
        for attempt in (1, 2):
            process = self._ref_process(durable)
            del self._refs[durable]  # kept only if it answers: an answer that nobody read would pass for the next one
            try:
                process.write(f"start\n{command}\ncommit\n".encode())
                if process.line() == b"start: ok" and process.line() == b"commit: ok":
                    self._refs[durable] = process
                    return None
            except (BrokenPipeError, EOFError):
                pass
            said = process.finish(b"")[1].decode(errors="replace").strip()
            if said or attempt == 2:
                return said or "git update-ref died"
        return None

    def delete_ref(self, ref: str, old: str) -> None:
        self._git.run("update-ref", "-d", ref, old)

    # -- history --------------------------------------------------------------------

    def commit(self, tree: str, parent: str | None, author: str, committer: str, message: str, durable: bool) -> str:
        lines = [f"tree {tree}"] + ([f"parent {parent}"] if parent else [])
        lines += [f"author {author}", f"committer {committer}", "", message]
        return self.objects.write(b"commit", "\n".join(lines).encode(errors="surrogateescape"), durable)

    def tree_of(self, commit: str) -> str:
        return self.objects.read(commit)[5 : 5 + self.objects.hex_length].decode()

    def message_of(self, commit: str) -> str:
        return self.objects.read(commit).partition(b"\n\n")[2].decode(errors="replace")

    def parents_of(self, commit: str) -> list[str]:
        head = self.objects.read(commit).partition(b"\n\n")[0].decode(errors="replace")
        return re.findall(r"^parent ([0-9a-f]+)$", head, re.MULTILINE)

    def commits(self, *args: str) -> list[str]:
        return self._git.text("rev-list", *args).split()

    def has(self, oid: str) -> bool:
        return self._git.run("cat-file", "-e", oid, ok=(0, 1, 128))[0] == 0

    def missing_objects(self, ref: str) -> list[str]:
        """Objects that the history of `ref` needs and the repository does not have."""
        out = self._git.run("rev-list", "--objects", "--missing=print", "--end-of-options", ref, ok=(0, 128))[1]
        return [line[1:].decode() for line in out.split(b"\n") if line.startswith(b"?")]

    def tracked_files(self, *paths: str) -> list[str]:
        """What the person's index has under these paths."""
        return [path for path in self._git.text("ls-files", "-z", "--", *paths).split("\0") if path]

    def files_under(self, commit: str, *paths: str) -> list[str]:
        out = self._git.text("ls-tree", "-r", "-z", "--name-only", "--end-of-options", commit, "--", *paths)
        return [path for path in out.split("\0") if path]

    def log(self, *args: str) -> Iterator[str]:
        """`git log` line by line, so that a long history is neither held nor waited for."""
        process = self._git.start(*_PLAIN_LOG, "log", *_PLAIN_DIFF, *args)
        try:
            for line in process.lines():
                yield os.fsdecode(line)
            said = process.finish(b"")[1].decode(errors="replace").strip()
            if process.status:
                raise GitFailed(f"git log: {said.splitlines()[-1] if said else process.status}")
        finally:
            process.kill()  # whoever asked may not have read to the end

    def _read_object(self, oid: str) -> bytes:
        with self._reading:
            for _ in range(2):
                reader, self._reader = self._reader or self._git.start("cat-file", "--batch"), None
                try:
                    reader.write(oid.encode() + b"\n")
                    head = reader.line().split()
                    data = reader.read(int(head[2]) + 1)[:-1] if len(head) == 3 else None
                    self._reader = reader  # kept only if it has answered: see _update_ref
                except (BrokenPipeError, EOFError):
                    reader.kill()
                    continue
                if data is None:
                    break
                return data
        raise MissingObject(oid)

    def merge_lines(self, ours: str, base: str, theirs: str) -> str:
        """Three-way merge of texts; where both changed the same lines, `ours` wins."""
        paths = []
        try:
            for name, text in (("ours", ours), ("base", base), ("theirs", theirs)):
                paths.append(os.path.join(self.layout.state, f"merge-{name}"))
                with open(paths[-1], "w", encoding="utf-8", newline="", errors="surrogateescape") as f:
                    f.write(text)
            return self._git.run("merge-file", "-p", "-q", "--ours", "--", *paths)[1].decode(errors="surrogateescape")
        finally:
            for path in paths:
                os.unlink(path)

    # -- the rest ---------------------------------------------------------------------

    def unfinished_business(self) -> str:
        """What the person is in the middle of, that a commit on their branch would disturb."""
        names = {
            "MERGE_HEAD": "a merge", "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert",
            "rebase-merge": "a rebase", "rebase-apply": "a rebase", "index.lock": "a git command",
        }  # fmt: skip
        for name, what in names.items():
            if os.path.lexists(os.path.join(self.layout.common, name)):
                return what
        return ""

    def pack_in_background(self) -> None:
        """Pack loose objects, twice: the second run removes the loose copies of what the first one packed."""
        words = self._git.command("maintenance", "run", "--quiet", "--task=loose-objects")
        subprocess.Popen(
            ["sh", "-c", '"$@"; "$@"', "gitteam-pack", *words], cwd=self.layout.root, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def close(self) -> None:
        for process in [self._reader, *self._refs.values()]:
            if process:
                process.finish(b"")
        self._reader, self._refs = None, {}


def _identity(path: str) -> tuple[int, int] | None:
    """What tells one file from the next at the same path; an inode number alone may be given again."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_ctime_ns


class _Patience:
    """How long the same thing has stood in the way."""

    def __init__(self) -> None:
        self.ends = 0
        self._seen: tuple[int, int] | None = None
        self._until = time.monotonic() + STALE_REF_LOCK_SECONDS

    def is_over(self, seen: tuple[int, int] | None) -> bool:
        now = time.monotonic()
        if seen == self._seen and now > self._until:
            self.ends += 1
            self._until = now + STALE_REF_LOCK_SECONDS
            return True
        if seen != self._seen:
            self._seen, self._until = seen, now + STALE_REF_LOCK_SECONDS
        return False
