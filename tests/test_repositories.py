"""Every kind of repository: it works there, or refuses with one line and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Result, check_everything, diary, git, gitteam
from program import call
from snapshot import difference, snapshot

from gitteam import Team
from gitteam.journal import Replay


def commit_something(path: Path, name: str = "README.md") -> None:
    (path / name).write_text("# project\n")
    git(path, "add", name)
    git(path, "commit", "-qm", f"add {name}")


def fresh(path: Path, *options: str) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "-q", *options)
    return path


def works_in(path: Path) -> Team:
    """One round of everything, by command and in this process; the team for what a test wants to see beyond."""
    assert gitteam(path, "init").code == 0
    assert call(path, "member", "add", "alice", "--role", "backend").code == 0
    assert gitteam(path, "task", "add", "Design the schema", "--json").json["id"] == 1
    assert call(path, "task", "claim", "--as", "alice", "--json").json["owner"] == "alice"
    assert call(path, "task", "done", "1", "--as", "alice", "-m", "see docs").code == 0
    with Team(path) as team:
        dropped = Path(team.place.at(".tasks/fix-login.md"))
        dropped.write_text("Fix the login page\n")
        assert team.task(2).subject == "Fix the login page"
        assert not dropped.exists()
        assert Path(team.place.at(".tasks/2-fix-login.md")).exists()
        team.send("alice", "hello")
        with team.take("alice") as messages:
            assert [m.content for m in messages] == ["hello"]
        assert "adds #2" in "\n".join(entry.sentence for entry in team.log(2))
        check_everything(team)
    assert call(path, "doctor").code == 0
    return team


def refused(result: Result, code: int, *words: str) -> None:
    """Exactly one line on stderr, nothing on stdout."""
    assert result.code == code, result
    assert result.out == ""
    assert len(result.err.strip().splitlines()) == 1, result
    for word in words:
        assert word in result.err, result


# -- kinds that work ----------------------------------------------------------------------------


def plain(base: Path) -> Path:
    path = fresh(base / "project")
    commit_something(path)
    return path


def sha256(base: Path) -> Path:
    path = fresh(base / "project", "--object-format=sha256")
    commit_something(path)
    return path


def detached(base: Path) -> Path:
    path = plain(base)
    git(path, "checkout", "-q", "--detach")
    return path


def unborn(base: Path) -> Path:
    return fresh(base / "project")


def subdirectory(base: Path) -> Path:
    path = plain(base) / "src" / "deep"
    path.mkdir(parents=True)
    return path


def linked_worktree(base: Path) -> Path:
    git(plain(base), "worktree", "add", "-q", str(base / "linked"))
    return base / "linked"


def submodule(base: Path) -> Path:
    origin, outer = plain(base / "origin"), plain(base / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(origin), "inner")
    return outer / "inner"


def separate_git_dir(base: Path) -> Path:
    path = fresh(base / "project", f"--separate-git-dir={base / 'elsewhere'}")
    commit_something(path)
    return path


def shallow(base: Path) -> Path:
    origin = plain(base / "origin")
    commit_something(origin, "second")
    git(base, "clone", "-q", "--depth=1", f"file://{origin}", "project")
    return base / "project"


def autocrlf(base: Path) -> Path:
    path = plain(base)
    git(path, "config", "core.autocrlf", "true")
    return path


def packed_refs(base: Path) -> Path:
    path = plain(base)
    git(path, "pack-refs", "--all")
    return path


def odd_path(base: Path) -> Path:
    return plain(base / "with space, ünïcode 日本 and 'quotes\"")


def newline_in_path(base: Path) -> Path:
    return plain(base / "two\nlines")


def not_utf8_path(base: Path) -> Path:
    return plain(base / os.fsdecode(b"latin-\xe9"))


def no_template(base: Path) -> Path:
    path = fresh(base / "project", "--template=")
    commit_something(path)
    return path


def separate_objects(base: Path) -> Path:
    origin = plain(base / "origin")
    git(base, "clone", "-q", "--shared", str(origin), "project")
    return base / "project"


KINDS = [
    plain, sha256, detached, unborn, subdirectory, linked_worktree, submodule, separate_git_dir, shallow, autocrlf,
    packed_refs, odd_path, newline_in_path, not_utf8_path, no_template, separate_objects,
]  # fmt: skip


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_team_works_in(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    works_in(path)
    assert git(path, "status", "--porcelain") == ""


def test_sha256_objects_are_sha256(tmp_path: Path) -> None:
    path = sha256(tmp_path)
    works_in(path)
    assert len(git(path, "rev-parse", "gitteam")) == 64


def test_board_of_a_linked_worktree_is_the_main_checkouts(tmp_path: Path) -> None:
    path = linked_worktree(tmp_path)
    works_in(path)
    assert not (path / ".tasks").exists()
    assert call(tmp_path / "project", "task", "--json").json == call(path, "task", "--json").json


def test_submodule_has_a_board_of_its_own(tmp_path: Path) -> None:
    path = submodule(tmp_path)
    works_in(path)
    assert not (path.parent / ".tasks").exists()
    assert git(path.parent, "status", "--porcelain", "--ignore-submodules=none").splitlines() == [
        "A  .gitmodules",
        "A  inner",
    ]


def test_subdirectory_uses_the_board_at_the_top(tmp_path: Path) -> None:
    path = subdirectory(tmp_path)
    works_in(path)
    assert (tmp_path / "project" / ".tasks").is_dir()
    assert not (path / ".tasks").exists()


def test_branch_packed_by_git_keeps_working(team: Team, repo: Path) -> None:
    team.add("first")
    git(repo, "pack-refs", "--all", "--prune")
    assert not (repo / ".git/refs/heads/gitteam").exists()
    assert call(repo, "task", "--json").json[0]["subject"] == "first"
    assert team.add("second").id == 2
    check_everything(team)


def test_crlf_setting_changes_no_byte_of_the_board(tmp_path: Path) -> None:
    path = autocrlf(tmp_path)
    works_in(path)
    assert all(b"\r" not in p.read_bytes() for p in (path / ".tasks").rglob("*.md"))


# -- who the person is --------------------------------------------------------------------------


@pytest.mark.parametrize("login", ["jane", "", "we<ir>d\nname", "\N{SNOWMAN}"])
def test_without_a_git_identity_the_login_name_is_the_author(
    login: str, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repo, "config", "user.useConfigOnly", "true")
    for key in ("user.name", "user.email"):
        git(repo, "config", "--global", "--unset", key)
    monkeypatch.setenv("USER", login)
    monkeypatch.delenv("LOGNAME", raising=False)
    assert call(repo, "init").code == 0
    assert call(repo, "task", "add", "x").code == 0
    assert git(repo, "fsck", "--full", "--strict") == ""
    assert git(repo, "log", "-1", "--format=%ae", "gitteam") == "user@gitteam.invalid"
    if login == "jane":
        assert git(repo, "log", "-1", "--format=%an", "gitteam") == "jane"
    assert call(repo, "doctor").code == 0


def test_person_is_who_git_says_in_this_repository(repo: Path) -> None:
    git(repo, "config", "user.name", "Jay Roe")
    git(repo, "config", "user.email", "jay@example.org")
    Team.init(repo)
    assert git(repo, "log", "-1", "--format=%an <%ae> %cn <%ce>", "gitteam") == (
        "Jay Roe <jay@example.org> Jay Roe <jay@example.org>"
    )


# -- clones -------------------------------------------------------------------------------------


def clone_of(repo: Path) -> Path:
    git(repo.parent, "clone", "-q", str(repo), "clone")
    return repo.parent / "clone"


def test_init_in_a_clone_starts_from_origins_history(team: Team, repo: Path) -> None:
    team.add("first")
    clone = clone_of(repo)
    made = call(clone, "init", "--json").json
    assert made["created"] is False
    assert git(clone, "rev-parse", "gitteam") == git(repo, "rev-parse", "gitteam")
    assert [t["subject"] for t in call(clone, "task", "--json").json] == ["first"]
    assert call(clone, "task", "add", "second", "--json").json["id"] == 2
    assert git(clone, "merge-base", "gitteam", "origin/gitteam") == git(repo, "rev-parse", "gitteam")


def test_init_in_a_clone_writes_no_configuration(team: Team, repo: Path) -> None:
    clone = clone_of(repo)
    before = (clone / ".git/config").read_bytes()
    assert call(clone, "init").code == 0
    assert (clone / ".git/config").read_bytes() == before


def test_origins_branch_that_holds_no_team_is_refused(repo: Path) -> None:
    git(repo, "branch", "gitteam")
    clone = clone_of(repo)
    before = snapshot(clone, exclude=False)
    refused(call(clone, "init"), 4, "gitteam", "--branch")
    assert difference(before, snapshot(clone, exclude=False)) == set()
    assert git(clone, "branch", "--list", "gitteam") == ""


# -- refusals: one line, and nothing has changed ------------------------------------------------


def no_repository(base: Path) -> Path:
    return base


def bare(base: Path) -> Path:
    git(base, "init", "-q", "--bare", "project.git")
    return base / "project.git"


def bare_named_dot_git(base: Path) -> Path:
    git(base, "clone", "-q", "--bare", str(plain(base / "origin")), str(base / "project" / ".git"))
    return base / "project"


def worktree_of_bare(base: Path) -> Path:
    git(base, "clone", "-q", "--bare", str(plain(base / "origin")), "project.git")
    git(base / "project.git", "worktree", "add", "-q", str(base / "linked"), "main")
    return base / "linked"


def worktree_of_bare_named_dot_git(base: Path) -> Path:
    path = bare_named_dot_git(base)
    git(path, "worktree", "add", "-q", str(path / "main"), "main")
    return path / "main"


def broken_link(base: Path) -> Path:
    (base / ".git").write_text("nonsense\n")
    return base


def link_to_nowhere(base: Path) -> Path:
    (base / ".git").write_text("gitdir: /nonexistent/repository\n")
    return base


def empty_git_directory(base: Path) -> Path:
    (base / ".git").mkdir()
    return base


def future_format(base: Path) -> Path:
    path = plain(base)
    git(path, "config", "core.repositoryFormatVersion", "99")
    return path


NO_HOME = [
    no_repository, bare, bare_named_dot_git, worktree_of_bare, worktree_of_bare_named_dot_git, broken_link,
    link_to_nowhere, empty_git_directory, future_format,
]  # fmt: skip


@pytest.mark.parametrize("make", NO_HOME, ids=lambda make: make.__name__)
def test_no_team_can_live_in(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    everything = sorted(str(p) for p in tmp_path.rglob("*"))
    refused(call(path, "init"), 1)
    refused(call(path, "task"), 1)
    assert sorted(str(p) for p in tmp_path.rglob("*")) == everything


@pytest.mark.parametrize(("make", "word"), [(no_repository, "git init"), (bare, "bare"), (bare_named_dot_git, "bare")])
def test_refusal_says_what_is_missing(make: Callable[[Path], Path], word: str, tmp_path: Path) -> None:
    refused(call(make(tmp_path), "init"), 1, word)


def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    refused(call(tmp_path, "-C", "nowhere", "task"), 1, "nowhere")


def link_tasks(path: Path) -> None:
    (path.parent / "outside").mkdir()
    (path / ".tasks").symlink_to(path.parent / "outside")


def link_team(path: Path) -> None:
    (path.parent / "outside").mkdir()
    (path / ".team").symlink_to(path.parent / "outside")


def dangling_link(path: Path) -> None:
    (path / ".tasks").symlink_to("nowhere")


def link_inbox(path: Path) -> None:
    (path.parent / "outside").mkdir()
    (path / ".team").mkdir()
    (path / ".team/inbox").symlink_to(path.parent / "outside")


def tasks_is_a_file(path: Path) -> None:
    (path / ".tasks").write_text("buy milk\n")


def team_is_a_file(path: Path) -> None:
    (path / ".team").write_text("us\n")


def tasks_tracked(path: Path) -> None:
    (path / ".tasks").mkdir()
    commit_something(path, ".tasks/README.md")


def tasks_tracked_and_detached(path: Path) -> None:
    tasks_tracked(path)
    git(path, "checkout", "-q", "--detach")


def tasks_staged(path: Path) -> None:
    (path / ".tasks").mkdir()
    (path / ".tasks/x.md").write_text("x\n")
    git(path, "add", ".tasks")


def branch_of_code(path: Path) -> None:
    git(path, "branch", "gitteam")


def branch_below_branch(path: Path) -> None:
    git(path, "branch", "gitteam/feature")


def branch_is_symbolic(path: Path) -> None:
    git(path, "symbolic-ref", "refs/heads/gitteam", "refs/heads/other")


IN_THE_WAY = [
    (link_tasks, 1, "symbolic link"), (link_team, 1, "symbolic link"), (dangling_link, 1, "symbolic link"),
    (link_inbox, 1, "symbolic link"), (tasks_is_a_file, 1, ".tasks"), (team_is_a_file, 1, ".team"),
    (tasks_tracked, 4, "--branch main"), (tasks_tracked_and_detached, 4, ".tasks"), (tasks_staged, 4, ".tasks"),
    (branch_of_code, 4, "--branch NAME"), (branch_below_branch, 1, "gitteam/feature"),
    (branch_is_symbolic, 4, "gitteam"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "code", "word"), IN_THE_WAY, ids=[row[0].__name__ for row in IN_THE_WAY])
def test_init_refuses_and_leaves_nothing_behind(make: Callable[[Path], None], code: int, word: str, repo: Path) -> None:
    make(repo)
    refs = git(repo, "for-each-ref")
    before = everything(repo)
    refused(call(repo, "init"), code, word)
    assert difference(before, everything(repo)) == set()
    assert git(repo, "for-each-ref") == refs


def everything(repo: Path) -> dict[str, object]:
    found = {str(p): p.read_bytes() for p in repo.rglob("*") if p.is_file() and ".git/objects" not in str(p)}
    return {**found, "directories": sorted(str(p) for p in repo.rglob("*") if p.is_dir() and "objects" not in str(p))}


def test_hint_for_a_detached_head_is_no_nonsense(repo: Path) -> None:
    tasks_tracked_and_detached(repo)
    assert "--branch the" not in call(repo, "init").err


@pytest.mark.parametrize("name", [".tasks", ".team", ".team/inbox", ".tasks/done"])
def test_directory_replaced_by_a_link_later_is_refused(name: str, team: Team, repo: Path, tmp_path: Path) -> None:
    team.add("x")
    outside = tmp_path / "outside"
    (repo / name).rename(outside) if (repo / name).exists() else outside.mkdir()
    (repo / name).symlink_to(outside)
    before = sorted((p.name, p.stat().st_mtime_ns) for p in outside.iterdir())
    refused(call(repo, "task", "add", "y"), 1, "symbolic link")
    assert sorted((p.name, p.stat().st_mtime_ns) for p in outside.iterdir()) == before


# -- names of branches --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["team/board", "a/b/c", "tëam", "team.board", "42", "gitteam2", "refs/heads/x", "@a"])
def test_history_may_be_on_branch(name: str, repo: Path) -> None:
    before = snapshot(repo, branch=name)
    assert call(repo, "init", "--branch", name).code == 0
    assert call(repo, "task", "add", "x").code == 0
    assert len(git(repo, "rev-list", f"refs/heads/{name}").split()) == 2
    assert call(repo, "log", "--json").json[0]["sentence"] == "Jane Doe adds #1: x"
    assert call(repo, "doctor").code == 0
    folders = {f".git/{kind}/{part}" for kind in ("refs/heads", "logs/refs/heads") for part in parents(name)}
    assert difference(before, snapshot(repo, branch=name)) <= folders


def parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:i]) for i in range(1, len(parts))]


@pytest.mark.parametrize(
    "name",
    ["--x", "-x", "a..b", "HEAD", "@", "@{-1}", "a b", "a~1", "a^", "a:b", "x.lock", ".x", "x/", "a//b", "a\\b", "a?b",
     "a*", "[a", "a\nb", "a\x7fb", "../x", "x/.y", "/x", "x." ],
)  # fmt: skip
def test_no_branch_can_be_called(name: str, repo: Path) -> None:
    git(repo, "switch", "-qc", "second")
    git(repo, "switch", "-q", "main")  # so that @{-1} means something
    before = everything(repo)
    refused(call(repo, "init", f"--branch={name}"), 2, "branch name")
    assert difference(before, everything(repo)) == set()


def test_branch_beneath_a_branch_is_refused_in_gits_words(repo: Path) -> None:
    refused(call(repo, "init", "--branch", "main/board"), 1, "refs/heads/main")
    assert call(repo, "init").code == 0


def test_tag_directory_and_remote_of_the_same_name_do_no_harm(repo: Path) -> None:
    commit_something(repo, "gitteam")
    git(repo, "tag", "gitteam")
    git(repo, "tag", "refs/heads/gitteam")
    git(repo, "remote", "add", "gitteam", str(repo))
    assert call(repo, "init").code == 0
    assert call(repo, "task", "add", "x").code == 0
    assert len(call(repo, "log", "--json").json) == 2
    assert call(repo, "doctor").code == 0


def test_git_command_shown_by_log_works_beside_a_directory_of_that_name(repo: Path) -> None:
    (repo / "gitteam").mkdir()
    Team.init(repo)
    done = subprocess.run([script(), "log"], cwd=repo, capture_output=True, text=True, check=True)
    shown = shlex.split(done.stderr.partition("the same with git: ")[2])
    assert shown[0] == "git"
    assert git(repo, *shown[1:]).endswith("Jane Doe starts team project")


def script() -> str:
    """The installed command: `python -m` would import a directory called gitteam from where it stands."""
    return str(Path(sys.executable).parent / "gitteam")


# -- init, again and at once ----------------------------------------------------------------------


def test_second_init_changes_nothing(repo: Path) -> None:
    assert call(repo, "init", "--json").json["created"] is True
    before, tip = everything(repo), git(repo, "rev-parse", "gitteam")
    again = call(repo, "init", "--json")
    assert again.json == {"team": "project", "branch": "gitteam", "created": False, "tracked": False}
    assert git(repo, "rev-parse", "gitteam") == tip
    assert {p for p in difference(before, everything(repo)) if "/.git/gitteam/" not in p} == set()


def test_second_init_on_another_branch_is_refused(repo: Path) -> None:
    Team.init(repo)
    refused(call(repo, "init", "--branch", "other"), 4, "gitteam uninstall")
    assert git(repo, "branch", "--list", "other") == ""


def test_second_init_mends_the_exclude_file(repo: Path) -> None:
    Team.init(repo)
    (repo / ".git/info/exclude").unlink()
    assert git(repo, "status", "--porcelain") != ""
    assert call(repo, "init").code == 0
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("branch", ["gitteam", "main"])
def test_many_inits_at_once_make_one_team(branch: str, repo: Path) -> None:
    words = [sys.executable, "-m", "gitteam", "init", "--branch", branch, "--json"]
    running = [
        subprocess.Popen(words, cwd=repo, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(5)
    ]
    results = [(*process.communicate(), process.returncode) for process in running]
    assert [code for _, _, code in results] == [0] * 5, results
    assert sum(json.loads(out)["created"] for out, _, _ in results) == 1
    assert [line for line in diary(repo, branch) if "starts team" in line] == ["Jane Doe starts team project"]
    assert call(repo, "task", "add", "x").code == 0
    assert call(repo, "doctor").code == 0


def test_init_takes_the_files_that_are_there_as_tasks(repo: Path) -> None:
    (repo / ".tasks").mkdir()
    (repo / ".tasks/7-old.md").write_text("---\nsubject: Old one\nstatus: pending\n---\n")
    (repo / ".tasks/idea.md").write_text("# An idea\n\nwith text\n")
    (repo / ".tasks/picture.png").write_bytes(b"\x89PNG")
    assert call(repo, "init").code == 0
    assert [(t["id"], t["subject"]) for t in call(repo, "task", "--json").json] == [(7, "Old one"), (8, "An idea")]
    assert (repo / ".tasks/picture.png").read_bytes() == b"\x89PNG"


def test_foreign_config_in_dot_team_is_left_alone_and_named(repo: Path) -> None:
    (repo / ".team").mkdir()
    (repo / ".team/config.json").write_text("something else\n")
    assert call(repo, "init").code == 0
    assert (repo / ".team/config.json").read_text() == "something else\n"
    assert [entry["path"] for entry in call(repo, "status", "--json").json["unreadable"]] == [".team/config.json"]
    assert call(repo, "task", "add", "x").code == 0


# -- uninstall ------------------------------------------------------------------------------------

EXCLUDES = [None, b"", b"# mine\n*.o\n", b"*.o", b"*.o\n\n\n", b"/.tasks/\n", b"caf\xe9\r\n"]


@pytest.mark.parametrize(("text", "history"), [*((text, False) for text in EXCLUDES), (None, True), (b"*.o\n", True)])
def test_uninstall_leaves_the_repository_as_it_was_before_init(text: bytes | None, history: bool, repo: Path) -> None:
    exclude = repo / ".git/info/exclude"
    exclude.unlink()
    if text is None:
        exclude.parent.rmdir()
    else:
        exclude.write_bytes(text)
    (repo / "scratch").write_text("untracked\n")
    before = snapshot(repo, exclude=False)
    Team.init(repo)
    with Team(repo) as team:
        team.add_member("alice")
        team.add("x")
        team.send("alice", "hello")
    assert call(repo, "uninstall", "--yes", *(["--history"] if history else [])).code == 0
    rewritten = {".git/info/exclude"} if text is not None else set()  # its bytes are compared beneath
    assert difference(before, snapshot(repo, exclude=False)) <= rewritten
    assert (exclude.read_bytes() if exclude.exists() else None) == text
    assert not (repo / ".git/gitteam").exists()
    assert not (repo / ".tasks").exists()
    assert not (repo / ".team").exists()
    assert bool(git(repo, "branch", "--list", "gitteam")) is not history
    if history:
        assert not (repo / ".git/logs/refs/heads/gitteam").exists()


def test_init_after_uninstall_brings_everything_back(team: Team, repo: Path) -> None:
    team.add("x")
    tip = git(repo, "rev-parse", "gitteam")
    assert call(repo, "uninstall", "--yes").code == 0
    assert call(repo, "init", "--json").json["created"] is False
    assert git(repo, "rev-parse", "gitteam") == tip
    assert call(repo, "task", "--json").json[0]["subject"] == "x"


def test_uninstall_asks_first(team: Team, repo: Path) -> None:
    assert gitteam(repo, "uninstall", stdin="n\n").code != 0
    assert (repo / ".tasks").is_dir()
    assert gitteam(repo, "uninstall", stdin="y\n").code == 0
    assert not (repo / ".tasks").exists()


UNSAVED = {
    ".tasks/diagram.png": b"\x89PNG",
    ".tasks/half.md": b"---\nstatus: bogus\n---\nan hour's work\n",
    ".team/notes.txt": b"ours\n",
    ".tasks/done/old.txt": b"kept\n",
}


@pytest.mark.parametrize("path", UNSAVED)
def test_uninstall_keeps_what_is_in_no_history(path: str, team: Team, repo: Path) -> None:
    team.add("x")
    (repo / path).parent.mkdir(exist_ok=True)
    (repo / path).write_bytes(UNSAVED[path])
    result = call(repo, "uninstall", "--yes")
    assert (repo / path).read_bytes() == UNSAVED[path]
    assert path in result.out + result.err
    assert not (repo / ".tasks/1-x.md").exists()


def test_uninstall_keeps_a_task_whose_text_cannot_be_read(team: Team, repo: Path) -> None:
    task = repo / team.add("x").path
    task.write_text("---\nstatus: bogus\n---\nan hour's work\n")
    result = call(repo, "uninstall", "--yes")
    assert "an hour's work" in task.read_text()
    assert ".tasks/1-x.md" in result.out + result.err


def test_uninstall_takes_the_last_hand_edit_into_the_history(team: Team, repo: Path) -> None:
    task = team.add("x")
    with (repo / task.path).open("a") as f:
        f.write("the last word\n")
    assert call(repo, "uninstall", "--yes").code == 0
    assert "the last word" in git(repo, "show", f"gitteam:{task.path}")


def test_uninstall_where_there_is_no_team_says_so(repo: Path) -> None:
    refused(call(repo, "uninstall", "--yes"), 1, "no team")


# -- the branch taken away ------------------------------------------------------------------------

READING = [("task",), ("status",), ("member",), ("inbox",), ("inbox", "alice"), ()]
WRITING = [("task", "add", "y"), ("send", "alice", "y"), ("member", "add", "carol"), ("inbox", "alice", "--take")]


@pytest.mark.parametrize("words", [*WRITING, ("log",), ("uninstall", "--yes")], ids=" ".join)
def test_with_the_branch_deleted_it_refuses_and_names_the_doctor(
    words: tuple[str, ...], team: Team, repo: Path
) -> None:
    team.add("x")
    git(repo, "branch", "-qD", "gitteam")
    refused(call(repo, *words), 1, "gitteam doctor")
    assert (repo / ".tasks/1-x.md").exists()


def test_doctor_brings_a_deleted_branch_back(team: Team, repo: Path) -> None:
    team.add("x")
    tip = git(repo, "rev-parse", "gitteam")
    git(repo, "branch", "-qD", "gitteam")
    assert call(repo, "doctor").code == 1
    assert call(repo, "doctor", "--repair").code == 0
    assert git(repo, "rev-parse", "gitteam") == tip
    check_everything(team)


# -- the branch checked out somewhere -------------------------------------------------------------


def in_the_main_checkout(repo: Path) -> None:
    git(repo, "switch", "-q", "gitteam")


def in_a_linked_worktree(repo: Path) -> None:
    git(repo, "worktree", "add", "-q", str(repo.parent / "look"), "gitteam")


CHECKOUTS = pytest.mark.parametrize("check_out", [in_the_main_checkout, in_a_linked_worktree])


@CHECKOUTS
def test_writing_refuses_while_the_branch_is_checked_out(
    check_out: Callable[[Path], None], team: Team, repo: Path
) -> None:
    team.add("x")
    check_out(repo)
    tip = git(repo, "rev-parse", "gitteam")
    for words in WRITING:
        refused(call(repo, *words), 1, "checked out", "git log gitteam")
    assert git(repo, "rev-parse", "gitteam") == tip


@CHECKOUTS
def test_reading_works_while_the_branch_is_checked_out(
    check_out: Callable[[Path], None], team: Team, repo: Path
) -> None:
    team.add("x")
    team.send("alice", "hello")
    check_out(repo)
    for words in READING:
        assert call(repo, *words).code == 0
    assert call(repo, "task", "--json").json[0]["subject"] == "x"
    assert call(repo, "inbox", "alice", "--json").json[0]["content"] == "hello"
    assert call(repo, "wait", "--as", "alice", "--timeout", "0").code == 0


def test_after_switching_back_the_files_are_there_again(team: Team, repo: Path) -> None:
    team.add("x")
    git(repo, "switch", "-q", "gitteam")
    git(repo, "switch", "-q", "main")
    assert call(repo, "task", "add", "y", "--json").json["id"] == 2
    assert sorted(p.name for p in (repo / ".tasks").glob("*.md")) == ["1-x.md", "2-y.md"]
    check_everything(team)


# -- settings that change what git prints ---------------------------------------------------------

PRINTING = {
    "grep.patternType": "fixed", "grep.extendedRegexp": "true", "i18n.logOutputEncoding": "ISO-8859-1",
    "trailer.separators": "=", "core.commentChar": "T", "color.ui": "always", "log.decorate": "full",
    "format.pretty": "oneline", "log.date": "iso", "log.follow": "true", "log.showRoot": "false",
    "log.showSignature": "true", "diff.orderFile": "/nonexistent", "log.diffMerges": "combined",
    "log.abbrevCommit": "true", "diff.renames": "copies", "core.quotePath": "true", "diff.noprefix": "true",
}  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board with some history, which the tests beneath only read."""
    repo = fresh(tmp_path_factory.mktemp("printing") / "project")
    git(repo, "config", "user.name", "Jané Doe")
    git(repo, "config", "user.email", "jane@example.com")
    commit_something(repo)
    Team.init(repo)
    with Team(repo) as team:
        team.add_member("alice")
        team.add("Schön")
        team.claim(by="alice")
        team.done(1, by="alice")
    return repo


def everything_git_says(repo: Path) -> object:
    with Team(repo) as team:
        replay = Replay()
        assert replay.run(team.ledger.repo, team.ledger.ref) == []
        diaries = [[e.to_json() for e in team.log(target)] for target in (None, 1, "alice", "user")]
        return diaries, len(replay.ops), set(replay.tasks)


@pytest.mark.parametrize("key", PRINTING)
def test_diary_and_replay_are_the_same_whatever_is_set(key: str, told: Path) -> None:
    before = everything_git_says(told)
    git(told, "config", key, PRINTING[key])
    try:
        after = everything_git_says(told)
    finally:
        git(told, "config", "--unset", key)
    assert after == before


def test_diary_and_replay_see_every_operation(told: Path) -> None:
    diaries, operations, tasks = everything_git_says(told)  # type: ignore[misc]
    assert [len(entries) for entries in diaries] == [5, 3, 2, 3]
    assert (operations, tasks) == (5, {1})
