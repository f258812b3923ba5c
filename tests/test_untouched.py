"""The person's repository stays as it is, whatever state it is in, and none of its programs runs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import age, check_everything, git, gitteam, until
from operations import mixed
from program import call
from snapshot import difference, snapshot

from gitteam import Team
from gitteam.change import Change

# -- byte for byte, in every state a checkout can be in -------------------------------------------


@pytest.fixture
def workplace(repo: Path) -> Path:
    """A repository somebody works in: branches, a stash, hooks, staged, changed, untracked and ignored files."""
    (repo / ".gitignore").write_text("*.log\n")
    (repo / "shared.txt").write_text("one\ntwo\nthree\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "second")
    git(repo, "switch", "-qc", "feature")
    (repo / "shared.txt").write_text("one\nfeature\nthree\n")
    git(repo, "commit", "-qam", "on feature")
    git(repo, "switch", "-q", "main")
    (repo / "shared.txt").write_text("one\nmain\nthree\n")
    git(repo, "commit", "-qam", "on main")
    git(repo, "tag", "-am", "a tag", "v1")
    (repo / "README.md").write_text("# stashed\n")
    git(repo, "stash", "-q")
    git(repo, "clone", "-q", "--bare", ".", str(repo.parent / "origin.git"))
    git(repo, "remote", "add", "origin", str(repo.parent / "origin.git"))
    git(repo, "fetch", "-q", "origin")
    git(repo, "worktree", "add", "-q", "-b", "linked", str(repo.parent / "linked"))
    git(repo, "pack-refs")
    hook = repo / ".git/hooks/post-commit"
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o755)
    return repo


def dirty(repo: Path) -> None:
    (repo / "staged.txt").write_text("staged\n")
    git(repo, "add", "staged.txt")
    (repo / "README.md").write_text("# changed\n")
    (repo / "untracked.txt").write_text("untracked\n")
    (repo / "build.log").write_text("ignored\n")


def clean(repo: Path) -> None:
    pass


def merging(repo: Path) -> None:
    git(repo, "merge", "-q", "feature", check=False)
    assert (repo / ".git/MERGE_HEAD").exists()


def rebasing(repo: Path) -> None:
    git(repo, "rebase", "-q", "feature", check=False)
    assert (repo / ".git/rebase-merge").is_dir()


def cherry_picking(repo: Path) -> None:
    git(repo, "cherry-pick", "feature", check=False)
    assert (repo / ".git/CHERRY_PICK_HEAD").exists()


def reverting(repo: Path) -> None:
    git(repo, "revert", "--no-edit", "HEAD~1", check=False)
    assert (repo / ".git/REVERT_HEAD").exists()


def bisecting(repo: Path) -> None:
    git(repo, "bisect", "start", "HEAD", "HEAD~2")


def detached(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach", "HEAD~1")


def locked(repo: Path) -> None:
    dirty(repo)
    for name in ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock"):
        (repo / ".git" / name).write_text("")


def sparse(repo: Path) -> None:
    git(repo, "sparse-checkout", "set", "--no-cone", "/*", "!/shared.txt")


STATES = [clean, dirty, merging, rebasing, cherry_picking, reverting, bisecting, detached, locked, sparse]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_nothing_of_the_persons_changes_while(state: Callable[[Path], None], workplace: Path) -> None:
    state(workplace)
    linked = snapshot(workplace.parent / "linked") if (workplace.parent / "linked/.git").is_dir() else None
    before = snapshot(workplace)
    exclude = (workplace / ".git/info/exclude").read_bytes()
    Team.init(workplace)
    with Team(workplace) as team:
        assert mixed(team, 30, seed=len(state.__name__)) > 15
        check_history(team)
    assert difference(before, snapshot(workplace)) == set()
    assert (workplace / ".git/info/exclude").read_bytes().startswith(exclude)
    assert linked is None or snapshot(workplace.parent / "linked") == linked


def check_history(team: Team) -> None:
    """`check_everything` without git commands that might write to the person's index."""
    from gitteam.journal import Replay

    assert Replay().run(team.ledger.repo, team.ledger.ref) == []


def test_nothing_of_the_persons_changes_over_hundreds_of_operations(workplace: Path) -> None:
    dirty(workplace)
    before = snapshot(workplace)
    Team.init(workplace)
    with Team(workplace) as team:
        assert mixed(team, 250, seed=7) > 120
        check_history(team)
    assert difference(before, snapshot(workplace)) == set()


COMMANDS: list[tuple[str, ...]] = [
    ("init",), ("member", "add", "alice"), ("task", "add", "First"), ("task", "add", "Second", "--blocked-by", "1"),
    ("task",), ("task", "--all"), ("task", "show", "1"), ("task", "claim", "--as", "alice"), ("status",), (),
    ("task", "note", "1", "a note"), ("task", "release", "1", "--as", "alice"), ("task", "claim", "1", "--as", "alice"),
    ("task", "done", "1", "--as", "alice", "-m", "done"), ("send", "alice", "hello"), ("broadcast", "all of you"),
    ("inbox", "alice"), ("wait", "--as", "alice", "--timeout", "5"), ("inbox", "alice", "--take"), ("log",),
    ("log", "1"), ("log", "alice"), ("task", "add", "Third"), ("task", "block", "2", "--by", "3"),
    ("task", "cancel", "3"), ("task", "edit", "2"), ("doctor",), ("doctor", "--repair"), ("member",),
    ("member", "remove", "alice"), ("completion", "bash"), ("uninstall", "--yes"),
]  # fmt: skip


def test_nothing_of_the_persons_changes_by_any_command(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dirty(workplace)
    before = snapshot(workplace, exclude=False)
    monkeypatch.setenv("EDITOR", "true")
    for number, words in enumerate(COMMANDS):
        result = (gitteam if number % 4 == 0 else call)(workplace, *words)
        assert result.code == 0, (words, result)
    assert difference(before, snapshot(workplace, exclude=False)) <= {".git/info/exclude"}  # its time


@pytest.mark.long
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_nothing_of_the_persons_changes_in_a_long_time(state: Callable[[Path], None], workplace: Path) -> None:
    state(workplace)
    before = snapshot(workplace)
    Team.init(workplace)
    with Team(workplace) as team:
        mixed(team, 1000 if state is dirty else 200, seed=3)
    assert difference(before, snapshot(workplace)) == set()


def test_reflogs_of_other_branches_stay(team: Team, repo: Path) -> None:
    before = {p: p.read_bytes() for p in (repo / ".git/logs").rglob("*") if p.is_file()}
    mixed(team, 20)
    after = {p: p.read_bytes() for p in (repo / ".git/logs").rglob("*") if p.is_file()}
    assert {p.name for p in after if after[p] != before.get(p)} == {"gitteam"}


# -- inherited variables ----------------------------------------------------------------------------


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another repository, at which the environment points."""
    path = tmp_path / "other"
    path.mkdir()
    git(path, "init", "-q")
    (path / "f").write_text("f\n")
    git(path, "add", ".")
    git(path, "commit", "-qm", "other")
    return path


def misleading(other: Path) -> dict[str, dict[str, str]]:
    git_dir, stray = other / ".git", str(other.parent / "stray")
    return {
        "GIT_DIR": {"GIT_DIR": str(git_dir)},
        "GIT_DIR and GIT_WORK_TREE": {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(other)},
        "GIT_WORK_TREE": {"GIT_WORK_TREE": str(other)},
        "GIT_COMMON_DIR": {"GIT_COMMON_DIR": str(git_dir)},
        "GIT_INDEX_FILE": {"GIT_INDEX_FILE": str(git_dir / "index")},
        "GIT_OBJECT_DIRECTORY": {"GIT_OBJECT_DIRECTORY": str(git_dir / "objects")},
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(git_dir / "objects")},
        "GIT_QUARANTINE_PATH": {"GIT_QUARANTINE_PATH": stray, "GIT_OBJECT_DIRECTORY": stray},
        "GIT_NAMESPACE": {"GIT_NAMESPACE": "elsewhere"},
        "GIT_CEILING_DIRECTORIES": {"GIT_CEILING_DIRECTORIES": "/"},
        "GIT_DEFAULT_HASH": {"GIT_DEFAULT_HASH": "sha256"},
        "GIT_CONFIG": {"GIT_CONFIG": stray},
        "GIT_CONFIG_COUNT": {
            "GIT_CONFIG_COUNT": "3", "GIT_CONFIG_KEY_0": "core.worktree", "GIT_CONFIG_VALUE_0": str(other),
            "GIT_CONFIG_KEY_1": "core.bare", "GIT_CONFIG_VALUE_1": "true",
            "GIT_CONFIG_KEY_2": "core.hooksPath", "GIT_CONFIG_VALUE_2": stray,
        },
        "GIT_CONFIG_PARAMETERS": {"GIT_CONFIG_PARAMETERS": "'core.bare'='true'"},
        "GIT_LITERAL_PATHSPECS": {"GIT_LITERAL_PATHSPECS": "1"},
        "GIT_ICASE_PATHSPECS": {"GIT_ICASE_PATHSPECS": "1"},
        "GIT_SHALLOW_FILE": {"GIT_SHALLOW_FILE": stray},
        "GIT_REPLACE_REF_BASE": {"GIT_REPLACE_REF_BASE": "refs/heads/"},
        "GIT_NO_REPLACE_OBJECTS": {"GIT_NO_REPLACE_OBJECTS": "0"},
        "GIT_AUTHOR_DATE": {"GIT_AUTHOR_DATE": "nonsense", "GIT_COMMITTER_DATE": "nonsense"},
        "GIT_TRACE": {"GIT_TRACE": stray, "GIT_TRACE2": stray, "GIT_TRACE2_EVENT": stray, "GIT_TRACE_SETUP": stray},
        "GIT_PREFIX": {"GIT_PREFIX": "sub/"},
        "GIT_FLUSH": {"GIT_FLUSH": "0"},
        "GIT_ATTR_NOSYSTEM": {"GIT_ATTR_NOSYSTEM": "nonsense"},
    }  # fmt: skip


VARIABLES = list(misleading(Path("/")))


def a_round(repo: Path, branch: str = "gitteam") -> None:
    """Each kind of git command of ours once."""
    Team.init(repo, branch=branch)
    with Team(repo) as team:
        team.add_member("alice")
        task = team.add("First")
        old = (repo / task.path).read_text()
        team.claim(by="alice")
        (repo / task.path).write_text(old + "saved from a stale buffer\n")
        assert team.task(1).owner == "alice"
        team.done(1, by="alice")
        assert len(list(team.log(1))) == 4
        check_history(team)
    assert call(repo, "doctor").code == 0


@pytest.mark.parametrize("name", VARIABLES)
def test_inherited_variable_does_not_lead_astray(
    name: str, repo: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, there, objects = snapshot(repo), snapshot(other, exclude=False), sorted((other / ".git/objects").rglob("*"))
    with monkeypatch.context() as patch:
        for key, value in misleading(other)[name].items():
            patch.setenv(key, value)
        a_round(repo)
    assert difference(before, snapshot(repo)) == set()
    assert difference(there, snapshot(other, exclude=False)) == set()
    assert sorted((other / ".git/objects").rglob("*")) == objects
    assert not (other.parent / "stray").exists()
    assert git(repo, "log", "-1", "--format=%s", "gitteam") == "alice completes #1: First"
    assert git(repo, "fsck", "--full", "--strict") == ""


def test_command_in_a_misleading_environment_acts_where_it_stands(repo: Path, other: Path) -> None:
    environment = {k: v for values in misleading(other).values() for k, v in values.items()}
    there = snapshot(other, exclude=False)
    for words in (("init",), ("task", "add", "x"), ("task",), ("log",), ("doctor",)):
        result = gitteam(repo, *words, **environment)
        assert result.code == 0, result
    assert git(repo, "rev-list", "--count", "gitteam") == "2"
    assert difference(there, snapshot(other, exclude=False)) == set()


@pytest.mark.parametrize("hook", ["pre-commit", "post-commit", "commit-msg", "prepare-commit-msg", "post-checkout"])
@pytest.mark.parametrize("where", ["project", "linked"])
def test_program_may_be_called_from_a_hook(hook: str, where: str, team: Team, repo: Path) -> None:
    """git sets GIT_DIR, GIT_INDEX_FILE and others for its hooks."""
    git(repo, "worktree", "add", "-q", "-b", "linked", str(repo.parent / "linked"))
    script = repo / ".git/hooks" / hook
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitteam task add "from the hook" >&2\n')
    script.chmod(0o755)
    checkout = repo.parent / where
    (checkout / "README.md").write_text("# changed\n")
    git(checkout, "commit", "-qam", "a change")
    git(checkout, "checkout", "-q", "-b", "another")
    assert [task.subject for task in team.tasks()] == ["from the hook"]
    assert git(checkout, "show", "--stat", "--format=", "HEAD").startswith(" README.md")
    check_everything(team)


# -- replaced objects -------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["", "GIT_NO_REPLACE_OBJECTS"])
def test_git_replace_does_not_change_what_the_board_says(
    variable: str, team: Team, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.add("the truth")
    git(repo, "repack", "-adq")  # so that the object is read through git
    lie = git(repo, "hash-object", "-w", "--stdin", input="---\nsubject: a lie\nstatus: pending\n---\n")
    git(repo, "replace", git(repo, "rev-parse", "gitteam:.tasks/1-the-truth.md"), lie)
    if variable:
        monkeypatch.setenv(variable, "")
    with Team(repo) as fresh:
        reader = fresh.ledger.repo
        assert b"the truth" in reader.objects.read(git(repo, "rev-parse", "gitteam:.tasks/1-the-truth.md"))


# -- programs of the repository ---------------------------------------------------------------------

PROGRAM_KEYS = [
    "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.gitProxy",
    "core.alternateRefsCommand", "core.hooksPath", "sequence.editor", "diff.external", "diff.evil.textconv",
    "diff.evil.command", "merge.evil.driver", "merge.tool", "mergetool.evil.cmd", "difftool.evil.cmd", "gpg.program",
    "gpg.ssh.program", "gpg.x509.program", "gpg.ssh.defaultKeyCommand", "credential.helper", "filter.evil.clean",
    "filter.evil.smudge", "filter.evil.process", "filter.e=vil.process",
    "alias.log", "alias.evil", "alias.update-ref", "alias.cat-file",
    "pager.log", "pager.status", "trailer.evil.command", "trailer.evil.cmd", "uploadpack.packObjectsHook",
    "remote.origin.uploadpack", "remote.origin.receivepack", "remote.origin.vcs", "web.browser", "browser.evil.cmd",
    "man.viewer", "sendemail.smtpServer", "interactive.diffFilter", "submodule.evil.update", "init.templateDir",
    "receive.procReceiveRefs", "hook.evil.command", "imap.tunnel", "instaweb.httpd", "guitool.evil.cmd",
]  # fmt: skip

SWITCHES = {
    "commit.gpgSign": "true", "tag.gpgSign": "true", "push.gpgSign": "true", "log.showSignature": "true",
    "gc.auto": "1", "gc.autoDetach": "false", "maintenance.auto": "true", "maintenance.strategy": "incremental",
    "protocol.ext.allow": "always", "protocol.file.allow": "always", "filter.evil.required": "true",
    "core.untrackedCache": "true", "rerere.enabled": "true", "diff.evil.binary": "true",
    "hook.evil.event": "reference-transaction", "core.useBuiltinFSMonitor": "true", "feature.manyFiles": "true",
    "core.logAllRefUpdates": "always", "core.attributesFile": "~/attributes", "log.diffMerges": "remerge",
}  # fmt: skip

HOOKS = [
    "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
    "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update",
    "proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc",
    "post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-pre-submit", "post-index-change",
]  # fmt: skip


class Canaries:
    """A repository in which everything that can be configured to run leaves a file when it does."""

    def __init__(self, repo: Path):
        self.repo = repo
        self.cage = repo.parent / "canaries"
        self.cage.mkdir()
        self._program = repo.parent / "canary"
        self._program.write_text(f'#!/bin/sh\necho "$0 $@" >> "{self.cage}/$(basename "$0")"\nexit 0\n')
        self._program.chmod(0o755)
        (repo / "odd.txt").write_text("odd\n")
        git(repo, "add", "odd.txt")
        git(repo, "commit", "-qm", "odd")

    def fired(self) -> list[str]:
        return sorted(p.name for p in self.cage.iterdir())

    def reset(self) -> None:
        for path in self.cage.iterdir():
            path.unlink()

    def command(self, name: str) -> str:
        """A program of its own for each key, so that one can see which ran."""
        path = self.repo.parent / f"canary-{name}"
        if not path.exists():
            path.symlink_to(self._program)
        return str(path)

    def hang_hooks(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        for name in HOOKS:
            (directory / name).unlink(missing_ok=True)
            (directory / name).symlink_to(self.command(f"hook-{name}"))

    def config(self) -> str:
        """All keys, as the text of a configuration file."""
        lines = []
        for key in PROGRAM_KEYS:
            value = self.command(key)
            if key.startswith("alias."):
                value = "!" + value
            if key == "core.hooksPath":
                value = str(self.repo.parent / "hooks")
                self.hang_hooks(Path(value))
            lines.append((key, value))
        text = ""
        for key, value in [*lines, *SWITCHES.items()]:
            section, _, name = key.rpartition(".")
            head, _, rest = section.partition(".")
            text += f'[{head} "{rest}"]\n' if rest else f"[{head}]\n"
            text += f'\t{name} = "{value}"\n'
        return text + '[remote "origin"]\n\turl = ext::sh -c false\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'

    def release(self, where: str) -> None:
        """Put the configuration into effect by one of the ways there are."""
        git_dir = self.repo / ".git"
        (git_dir / "info/attributes").write_text(
            "* filter=evil diff=evil merge=evil ident text eol=crlf\nodd.txt filter=e=vil\n"
        )
        (self.repo / "attributes").write_text("* filter=evil\n")
        self.hang_hooks(git_dir / "hooks")
        hostile = self.repo.parent / "hostile"
        hostile.write_text(self.config())
        if where == "config":
            with (git_dir / "config").open("a") as f:
                f.write(self.config())
        elif where == "include":
            git(self.repo, "config", "include.path", str(hostile))
        elif where == "includeIf":
            git(self.repo, "config", f"includeIf.gitdir:{git_dir}.path", str(hostile))
        elif where == "worktree":
            git(self.repo, "config", "extensions.worktreeConfig", "true")
            (git_dir / "config.worktree").write_text(self.config())
        elif where == "global":
            with Path(os.environ["HOME"], ".gitconfig").open("a") as f:
                f.write(self.config())


WAYS = ["config", "include", "includeIf", "worktree", "global"]


@pytest.fixture
def canaries(repo: Path) -> Canaries:
    return Canaries(repo)


def test_canaries_do_fire_for_plain_git(canaries: Canaries, repo: Path) -> None:
    """Otherwise the tests beneath would prove nothing."""
    canaries.release("config")
    (repo / "README.md").write_text("# changed\n")
    for words in (["status"], ["add", "."], ["commit", "-qm", "x"], ["diff"], ["fetch"]):
        git(repo, *words, check=False)
    (repo / ".git/info/attributes").unlink()
    for words in (["commit", "-aqm", "y"], ["commit", "-aqm", "y", "--no-gpg-sign"]):
        git(repo, *words, check=False)
    git(repo, "evil")
    fired = set(canaries.fired())
    assert {"canary-core.fsmonitor", "canary-filter.evil.process", "canary-gpg.program", "canary-alias.evil"} <= fired
    assert {"reference-transaction", "post-index-change", "post-commit", "pre-commit"} <= fired


def everything_the_program_does(repo: Path, branch: str) -> None:
    """All commands, hand edits, a stale save, repairs of everything the doctor repairs, a sweep, and packing."""
    for words in COMMANDS[1:-1]:
        result = call(repo, *words)
        assert result.code == 0, (words, result)
    with Team(repo) as team:
        mixed(team, 40, deletions=False)
        task = team.add("stale")
        old = (repo / task.path).read_text()
        team.claim(task.id)
        (repo / task.path).write_text(old + "saved late\n")
        assert team.task(task.id).owner == "user"
        team.ledger.change("user", lambda change: finish_many(change, team.board().highest))
        team.done(task.id)
        assert (repo / ".tasks/done").is_dir()
        crowd(repo)
        team.add("packs")
        until(lambda: not list((repo / ".git/objects/17").glob("*")), "packing")
    swept = next((repo / ".tasks/done").rglob("*.md"))
    swept.write_text(swept.read_text() + "changed by hand\n")
    (repo / ".git/info/exclude").unlink(missing_ok=True)
    git_quietly(repo, "update-ref", f"refs/heads/{branch}", f"refs/heads/{branch}~1")
    assert call(repo, "doctor").code == 1
    assert call(repo, "doctor", "--repair").code == 0


def finish_many(change: Change, highest: int) -> None:
    for number in range(highest + 1, highest + 101):
        change.write(f".tasks/{number}-done.md", b"---\nsubject: Done\nstatus: completed\n---\n")
    change.story.tell("added", "a hundred finished tasks")


def git_quietly(repo: Path, *words: str) -> str:
    """A person's git that sets off no canary."""
    return git(repo, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *words)


def crowd(repo: Path) -> None:
    """Enough loose objects in the one directory by which their number is judged."""
    folder = repo / ".git/objects/17"
    names, number = [], 0
    size = len(git_quietly(repo, "rev-parse", "HEAD"))
    hasher = hashlib.sha256 if size == 64 else hashlib.sha1
    while len(names) < 30:
        number += 1
        data = b"crowd %d" % number
        if hasher(b"blob %d\0" % len(data) + data).hexdigest().startswith("17"):
            names.append(repo.parent / f"crowd-{number}")
            names[-1].write_bytes(data)
    git_quietly(repo, "hash-object", "-w", "--no-filters", "--", *map(str, names))
    assert len(list(folder.iterdir())) >= 30


BRANCHES = pytest.mark.parametrize("branch", ["gitteam", "main"])


@pytest.mark.parametrize("way", WAYS)
@BRANCHES
def test_no_canary_fires_that_is_set_by(way: str, branch: str, canaries: Canaries, repo: Path) -> None:
    canaries.release(way)
    age(repo / ".git/index")  # so that git does not trust its entries and looks into the files
    a_round(repo, branch)
    assert call(repo, "uninstall", "--yes").code == 0
    assert canaries.fired() == []


@BRANCHES
def test_no_canary_fires_whatever_the_program_does(
    branch: str, canaries: Canaries, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    canaries.release("config")
    assert call(repo, "init", "--branch", branch).code == 0
    everything_the_program_does(repo, branch)
    assert call(repo, "uninstall", "--yes").code == 0
    assert canaries.fired() == []


def test_no_canary_fires_by_command(canaries: Canaries, repo: Path) -> None:
    canaries.release("config")
    for words in COMMANDS[:-1:4]:
        gitteam(repo, *words, EDITOR="true", PAGER=canaries.command("PAGER"), GIT_PAGER=canaries.command("GIT_PAGER"))
    assert canaries.fired() == []


VARIABLES_THAT_RUN = [
    "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_SSH",
    "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND", "PAGER",
]  # fmt: skip


def test_no_canary_fires_from_the_environment(canaries: Canaries, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES_THAT_RUN:
        monkeypatch.setenv(name, canaries.command(name))
    a_round(repo)
    assert canaries.fired() == []


TRANSPORTS = {
    "ssh": "ssh://host/x", "ext": "ext::{canary}", "file": "file:///{origin}", "helper": "canary::x", "git": "git://host/x",
}  # fmt: skip


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_missing_object_is_not_fetched_through_a_program(
    transport: str, team: Team, repo: Path, canaries: Canaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a partial clone git fetches by itself what is missing, by whatever program the configuration names."""
    team.add("x")
    team.close()
    lost = git(repo, "rev-parse", "gitteam:.tasks/1-x.md")
    commit = git(repo, "rev-parse", "gitteam~1")
    for oid in (lost, commit):
        (repo / ".git/objects" / oid[:2] / oid[2:]).unlink()
    (repo / ".git/gitteam/checkpoint").unlink()
    (repo / ".tasks/1-x.md").unlink()
    url = TRANSPORTS[transport].format(canary=canaries.command("ext"), origin=repo)
    settings = {
        "core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true",
        "remote.origin.url": url, "remote.origin.uploadpack": canaries.command("uploadpack"),
        "core.sshCommand": canaries.command("ssh"), "core.gitProxy": canaries.command("proxy"),
        "protocol.allow": "always", f"protocol.{transport}.allow": "always",
    }  # fmt: skip
    for key, value in settings.items():
        git(repo, "config", key, value)
    helpers = repo.parent / "bin"
    helpers.mkdir()
    (helpers / "git-remote-canary").symlink_to(canaries.command("helper"))
    monkeypatch.setenv("PATH", f"{helpers}:{os.environ['PATH']}")
    for words in (("doctor",), ("task",), ("log",), ("task", "add", "y"), ("doctor", "--repair")):
        call(repo, *words)
    assert canaries.fired() == []


def test_promisor_canary_does_fire_for_plain_git(team: Team, repo: Path, canaries: Canaries) -> None:
    for key, value in {
        "core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://host/x", "core.sshCommand": canaries.command("ssh"),
    }.items():  # fmt: skip
        git(repo, "config", key, value)
    git(repo, "cat-file", "-e", "1" * 40, check=False)
    assert canaries.fired() == ["canary-ssh"]


def test_no_config_is_written(repo: Path) -> None:
    home = Path(os.environ["HOME"], ".gitconfig").read_bytes()
    config = (repo / ".git/config").read_bytes()
    a_round(repo)
    assert (repo / ".git/config").read_bytes() == config
    assert Path(os.environ["HOME"], ".gitconfig").read_bytes() == home
    assert json.dumps(sorted(os.listdir(os.environ["HOME"]))) == '[".gitconfig"]'


def test_environment_of_the_process_stays(repo: Path) -> None:
    """A program that uses the package must not find its own environment changed."""
    code = (
        "import os, sys; before = dict(os.environ); from gitteam import Team; Team.init('.')\n"
        "team = Team('.'); team.add('x'); team.close()\n"
        "sys.exit(repr({k: v for k, v in os.environ.items() if before.get(k) != v}) if os.environ != before else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repo, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
