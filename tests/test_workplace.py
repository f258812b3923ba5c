"""A member's files and environment: what it may read and write, what it may know."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import TIMEOUT, git

from gitteam.errors import ToolFailed
from gitteam.workplace import Workplace, files
from gitteam.workplace.secrets import clean_environment


@pytest.fixture
def place(repo: Path, tmp_path: Path) -> Workplace:
    return Workplace(str(repo), str(tmp_path / "spill"))


def refused(why: str) -> pytest.RaisesExc[ToolFailed]:
    return pytest.raises(ToolFailed, match=why)


# -- reading ---------------------------------------------------------------------------------


def test_lines_are_numbered(place: Workplace, repo: Path) -> None:
    (repo / "a").write_text("one\n\n  three\ttabs \nno end")
    assert place.read("a") == "     1\tone\n     2\t\n     3\t  three\ttabs \n     4\tno end"


def test_a_long_file_says_where_to_go_on(place: Workplace, repo: Path) -> None:
    (repo / "a").write_text("".join(f"line {n}\n" for n in range(1, 2501)))
    assert place.read("a").endswith("  2000\tline 2000\n[500 more lines: go on with offset 2001]")
    assert place.read("a", 2001).endswith("  2500\tline 2500")
    assert place.read("a", 7, 2) == "     7\tline 7\n     8\tline 8\n[2,492 more lines: go on with offset 9]"


def test_an_offset_beyond_the_end_and_an_empty_file_are_told(place: Workplace, repo: Path) -> None:
    (repo / "a").write_text("one\ntwo\n")
    (repo / "empty").touch()
    assert place.read("empty") == "[empty is empty]"
    with refused("a has 2 lines: there is no line 3"):
        place.read("a", 3)
    for offset, limit in ((0, 1), (-1, 1), (1, 0)):
        with refused("from 1"):
            place.read("a", offset, limit)


def test_long_lines_and_wide_files_are_cut(place: Workplace, repo: Path) -> None:
    (repo / "a").write_text("ü" * 2000 + "\n" + "ü" * 2001 + "\n" + "x" * 3_000_000 + "\nend\n")
    lines = place.read("a").splitlines()
    assert lines[0] == "     1\t" + "ü" * 2000
    assert lines[1] == "     2\t" + "ü" * 2000 + "…"
    assert lines[2] == "     3\t" + "x" * 2000 + "…"
    assert lines[3] == "     4\tend"
    (repo / "b").write_text(("y" * 1999 + "\n") * 200)
    shown = place.read("b")
    assert len(shown) < 105_000
    assert shown.endswith("[150 more lines: go on with offset 51]")


def test_a_directory_is_listed(place: Workplace, repo: Path) -> None:
    (repo / "src/deep").mkdir(parents=True)
    (repo / "src/link").symlink_to("deep")
    (repo / "src/b.py").touch()
    assert place.read("src") == "b.py\ndeep/\nlink"
    assert place.read("src/deep") == "[the directory is empty]"
    assert place.read(".") == place.read(str(repo)) == ".git/\nREADME.md\nsrc/"
    for n in range(510):
        (repo / f"src/deep/{n:03}").touch()
    assert place.read("src/deep").splitlines()[-2:] == ["499", "[10 more]"]


def test_binary_files_are_refused_with_their_size(place: Workplace, repo: Path) -> None:
    (repo / "a").write_bytes(b"\x7fELF\0\0\n" * 1000)
    with refused("a is a binary file of 7,000 bytes"):
        place.read("a")


def test_a_file_that_is_not_utf8_can_be_read(place: Workplace, repo: Path) -> None:
    (repo / "a").write_bytes(b"caf\xe9\r\nb\r\n")
    assert place.read("a") == "     1\tcaf\ufffd\n     2\tb"


def test_a_huge_file_is_read_in_parts_without_holding_it(place: Workplace, repo: Path) -> None:
    with open(repo / "a", "w") as f:
        f.writelines(f"{n:09}\n" for n in range(1, 1_200_001))
    assert place.read("a", 1_000_000, 1) == (
        "1000000\t001000000\n[more lines, 12,000,000 bytes in all: go on with offset 1000001]"
    )
    assert place.read("a", 1_200_000) == "1200000\t001200000"
    with refused("too many to edit"):
        place.edit("a", "000000001", "x")


def test_a_line_of_any_length_takes_little_memory(place: Workplace, repo: Path) -> None:
    with open(repo / "a", "w") as f:
        for _ in range(60):
            f.write("x" * 1_000_000)
        f.write("\nend\n")
    tracemalloc.start()
    try:
        assert place.read("a", 2) == "     2\tend"
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_what_is_no_file_is_refused_without_waiting(place: Workplace, repo: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(repo / "a")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(os.path.relpath(repo / "a"))
    elif os.geteuid() == 0:
        os.mknod(repo / "a", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    else:
        pytest.skip("only root makes devices")
    for act in (lambda: place.read("a"), lambda: place.write("a", "x"), lambda: place.edit("a", "x", "y")):
        with refused("a is not a regular file"):
            act()


def test_what_is_not_there_is_told(place: Workplace) -> None:
    with refused("cannot read nothing/here: there is no such file"):
        place.read("nothing/here")
    with refused("cannot edit nothing: there is no such file"):
        place.edit("nothing", "a", "b")
    with refused("cannot read README.md/x: a part of it is not a directory"):
        place.read("README.md/x")


# -- writing ---------------------------------------------------------------------------------


def test_a_new_file_is_written_with_its_directories(place: Workplace, repo: Path) -> None:
    assert place.write("src/deep/a.py", "one\ntwo\n") == "wrote 2 lines to src/deep/a.py"
    assert (repo / "src/deep/a.py").read_bytes() == b"one\ntwo\n"
    assert place.write("b", "x") == "wrote 1 line to b"
    assert os.listdir(repo / "src/deep") == ["a.py"]


def test_a_file_nobody_read_is_not_overwritten(place: Workplace, repo: Path) -> None:
    with refused(r"README.md exists already, and you have not read it: read it first"):
        place.write("README.md", "mine")
    with refused("read it first"):
        place.edit("README.md", "project", "mine")
    assert (repo / "README.md").read_text() == "# project\n"
    place.read("README.md")
    place.write("README.md", "mine")
    place.write("README.md", "mine again")  # what one wrote oneself is known
    place.edit("./README.md", "again", "for ever")  # under whatever name
    assert (repo / "README.md").read_text() == "mine for ever"


def test_a_stale_write_after_another_member_s_is_refused(place: Workplace, repo: Path, tmp_path: Path) -> None:
    other = Workplace(str(repo), str(tmp_path / "other"))
    place.read("README.md")
    other.read("README.md")
    other.write("README.md", "# PROJECT\n")  # of the same length
    for act in (lambda: place.write("README.md", "x"), lambda: place.edit("README.md", "P", "x")):
        with refused("somebody changed README.md since you read it: read it again"):
            act()
    place.read("README.md")
    place.edit("README.md", "PROJECT", "ours")
    with refused("somebody changed"):
        other.edit("README.md", "PROJECT", "theirs")
    assert (repo / "README.md").read_text() == "# ours\n"


def test_a_change_by_hand_is_seen_even_with_the_same_time_and_size(place: Workplace, repo: Path) -> None:
    place.read("README.md")
    before = os.stat(repo / "README.md")
    with open(repo / "README.md", "r+") as f:
        f.write("# PROJECT\n")
    os.utime(repo / "README.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    with refused("somebody changed"):
        place.write("README.md", "x")


def test_a_file_that_was_only_touched_has_not_changed(place: Workplace, repo: Path) -> None:
    place.read("README.md")
    os.utime(repo / "README.md", (1, 1))
    place.write("README.md", "x")


def test_a_file_somebody_removed_is_not_brought_back_blindly(place: Workplace, repo: Path) -> None:
    place.read("README.md")
    (repo / "README.md").unlink()
    with refused("somebody removed README.md"):
        place.write("README.md", "x")
    with refused("no such file"):
        place.read("README.md")
    place.write("README.md", "x")


def test_of_many_edits_at_once_none_is_lost(repo: Path, tmp_path: Path) -> None:
    (repo / "a").write_text("0\n")

    def add(member: int) -> None:
        place, done = Workplace(str(repo), str(tmp_path / str(member))), 0
        while done < 10:
            line = place.read("a").split("\t")[1]
            try:
                place.edit("a", line, str(int(line) + 1))
                done += 1
            except ToolFailed as e:
                assert "somebody changed" in str(e)  # noqa: PT017

    with ThreadPoolExecutor() as pool:
        list(pool.map(add, range(4)))
    assert (repo / "a").read_text() == "40\n"
    assert sorted(os.listdir(repo)) == [".git", "README.md", "a"]


def test_readers_see_the_old_file_or_the_new_one(place: Workplace, repo: Path) -> None:
    texts, seen, over = ["a" * 300_000, "b" * 300_000], set(), threading.Event()
    place.write("a", texts[0])

    def look() -> None:
        while not over.is_set():
            seen.add((repo / "a").read_text())

    watcher = threading.Thread(target=look)
    watcher.start()
    for n in range(40):
        place.write("a", texts[n % 2])
    over.set()
    watcher.join()
    assert seen <= set(texts)


def test_the_mode_of_a_file_is_kept(place: Workplace, repo: Path) -> None:
    (repo / "a.sh").write_text("#!/bin/sh\n")
    (repo / "a.sh").chmod(0o750)
    place.read("a.sh")
    place.write("a.sh", "#!/bin/sh\necho\n")
    place.edit("a.sh", "echo", "exit")
    assert stat.S_IMODE((repo / "a.sh").stat().st_mode) == 0o750
    (repo / "a.sh").chmod(0o444)
    with refused("a.sh is read-only"):
        place.write("a.sh", "")


def test_a_write_that_fails_leaves_nothing_behind(
    place: Workplace, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    place.read("README.md")
    monkeypatch.setattr(os, "rename", full)
    with refused("cannot write README.md: no space left on device"):
        place.write("README.md", "x")
    assert sorted(os.listdir(repo)) == [".git", "README.md"]


def test_what_cannot_be_a_file_is_refused(place: Workplace, repo: Path) -> None:
    (repo / "src").mkdir()
    for path in (".", "src", "src/", "new/"):
        with refused("is a directory"):
            place.write(path, "x")
    with refused("src is a directory"):
        place.edit("src", "a", "b")
    with refused("not a directory"):
        place.write("README.md/a", "x")
    with refused("not valid Unicode"):
        place.write("a", "\ud800")


def test_a_directory_kept_locked_is_told(place: Workplace, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_LOCK_PATIENCE", 0.05)
    fd = os.open(repo, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        with refused("keeps its directory locked"):
            place.write("a", "x")
    finally:
        os.close(fd)
    place.write("a", "x")


# -- editing ---------------------------------------------------------------------------------


@pytest.fixture
def text(place: Workplace, repo: Path) -> Path:
    (repo / "a").write_text("".join(f"line {n}\n" for n in range(1, 21)))
    place.read("a")
    return repo / "a"


def test_an_edit_shows_the_lines_around_it(place: Workplace, text: Path) -> None:
    shown = place.edit("a", "line 9\n", "nine\nand a half\n")
    assert shown.splitlines() == [
        "edited a:", "     6\tline 6", "     7\tline 7", "     8\tline 8", "     9\tnine", "    10\tand a half",
        "    11\tline 10", "    12\tline 11", "    13\tline 12",
    ]  # fmt: skip
    assert "line 8\nnine\nand a half\nline 10\n" in text.read_text()


def test_an_edit_of_the_end_shows_no_line_beyond_it(place: Workplace, text: Path) -> None:
    assert place.edit("a", "line 20\n", "").splitlines()[-1] == "    19\tline 19"
    assert place.edit("a", "line 19\n", "end").splitlines()[-1] == "    19\tend"
    assert place.edit("a", "line 1\n", "").splitlines()[1:] == [f"{n:6}\tline {n + 1}" for n in range(1, 5)]


def test_a_passage_that_is_there_more_than_once_is_refused_with_its_lines(place: Workplace, text: Path) -> None:
    with refused("old_text is in a 2 times: lines 2, 12; take in more of what is around it"):
        place.edit("a", "2\n", "x")
    with refused("11 times: lines 1, 10, 11, 12, 13, 14, 15, 16, 17, 18, …;"):
        place.edit("a", "line 1", "x")


def test_a_passage_that_is_not_there_is_refused_with_a_hint(place: Workplace, text: Path) -> None:
    with refused("old_text was not found in a: read the file again"):
        place.edit("a", "line 99", "x")
    with refused("only with other whitespace"):
        place.edit("a", "line  3\n\tline 4", "x")
    with refused("old_text is empty"):
        place.edit("a", "", "x")
    with refused("nothing to change"):
        place.edit("a", "line 3", "line 3")
    with refused("not valid Unicode"):
        place.edit("a", "line 3\n", "\udcff")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "b", "x\ny", "a\r\nx\r\ny\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\nc\r\n"),
        ("a\nb\nc\r\n", "a\nb", "x\ny", "x\ny\nc\r\n"),
        ("a\nb\n", "b", "x\ny", "a\nx\ny\n"),
        ("a.b(c)*\n", "a.b(c)*", r"\1\g<0>", "\\1\\g<0>\n"),
        ("\ufeffa\n", "a", "b", "\ufeffb\n"),
    ],
)  # fmt: skip
def test_an_edit_keeps_the_line_ends(place: Workplace, repo: Path, before: str, old: str, new: str, after: str) -> None:
    (repo / "a").write_bytes(before.encode())
    place.read("a")
    place.edit("a", old, new)
    assert (repo / "a").read_bytes() == after.encode()


def test_bytes_that_are_not_utf8_survive_an_edit(place: Workplace, repo: Path) -> None:
    (repo / "a").write_bytes(b"caf\xe9\nold\n\xff\n")
    place.read("a")
    assert "caf\ufffd" in place.edit("a", "old", "new")
    assert (repo / "a").read_bytes() == b"caf\xe9\nnew\n\xff\n"


# -- confinement -----------------------------------------------------------------------------


def attempts(place: Workplace, path: str, why: str) -> None:
    for act in (lambda: place.read(path), lambda: place.write(path, "x"), lambda: place.edit(path, "a", "b")):
        with refused(why):
            act()


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "src/../../secret", "..", "/", "out/secret", "file"])
def test_nothing_outside_the_work_tree_is_reached(place: Workplace, repo: Path, path: str) -> None:
    (repo.parent / "secret").write_text("a")
    (repo / "out").symlink_to("..")
    (repo / "file").symlink_to("../secret")
    attempts(place, path, "outside the work tree")
    assert (repo.parent / "secret").read_text() == "a"


def test_a_link_to_a_place_outside_that_is_not_there_makes_nothing(place: Workplace, repo: Path) -> None:
    (repo / "link").symlink_to("../new")
    with refused("outside"):
        place.write("link", "x")
    assert not (repo.parent / "new").exists()


def test_a_neighbour_whose_name_begins_alike_is_outside(place: Workplace, repo: Path) -> None:
    (repo.parent / "project-two").mkdir()
    attempts(place, "../project-two/a", "outside")


def test_links_inside_are_followed_and_stay_links(place: Workplace, repo: Path) -> None:
    (repo / "link").symlink_to("README.md")
    assert place.read("link") == "     1\t# project"
    place.write("link", "x\n")
    assert (repo / "link").is_symlink()
    assert (repo / "README.md").read_text() == "x\n"


def test_absolute_paths_and_other_names_of_the_root_are_taken(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(repo)
    place = Workplace(str(tmp_path / "alias"), str(tmp_path / "spill"))
    for path in (repo / "README.md", tmp_path / "alias/README.md"):
        assert place.read(str(path)) == "     1\t# project"


@pytest.mark.parametrize("path", [".git/config", ".git", ".GIT/config", "sub/.git/hooks/x", "link/config", "./.git/x"])
def test_git_s_own_files_are_left_alone(place: Workplace, repo: Path, path: str) -> None:
    (repo / "link").symlink_to(".git")
    attempts(place, path, "belongs to git: use git commands")


@pytest.mark.parametrize("path", [".team/team.json", ".tasks/1-one.md", ".Team/x", ".tasks", "board/x", "a/../.team/x"])
def test_the_team_s_files_are_left_to_its_tools(place: Workplace, repo: Path, path: str) -> None:
    (repo / ".tasks").mkdir()
    (repo / "board").symlink_to(".tasks")
    attempts(place, path, "belongs to the team: use the task and message tools")


def test_git_s_files_are_guarded_wherever_the_repository_is(place: Workplace, repo: Path) -> None:
    git(repo, "init", "-q", "--separate-git-dir", str(repo / "gitdir"))
    attempts(place, ".git", "belongs to git")
    (repo / "gitdir").rename(repo / "moved")
    (repo / ".git").unlink()
    (repo / ".git").symlink_to("moved")
    attempts(place, "moved/config", "belongs to git")


def test_a_repository_inside_is_guarded_under_its_name(place: Workplace, repo: Path) -> None:
    (repo / "sub/real").mkdir(parents=True)
    (repo / "sub/.git").symlink_to("real")
    attempts(place, "sub/.git/config", "belongs to git")


def test_a_work_tree_inside_git_s_directory_is_a_work_tree(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", ".git/trees/alice")
    place = Workplace(str(repo / ".git/trees/alice"), str(repo / ".git/spill"))
    assert place.read("README.md") == "     1\t# project"
    kept = place.run("seq 1 20000").partition("all of it is in ")[2].partition(" …]")[0]
    assert place.read(kept, limit=1).startswith("     1\t1\n")
    with refused("outside"):
        place.write(kept, "x")
    with refused("outside"):
        place.read("../../config")


@pytest.mark.parametrize(
    ("path", "why"),
    [("", "empty"), ("a\0b", "NUL"), ("a" * 256, "too long"), ("a/" * 2500 + "b", "too long"), ("\ud800", "Unicode")],
    ids=["empty", "nul", "long name", "long path", "surrogate"],
)
def test_a_path_that_is_none_is_refused(place: Workplace, path: str, why: str) -> None:
    attempts(place, path, why)


def test_a_link_put_in_after_the_check_is_not_followed(place: Workplace, repo: Path) -> None:
    (repo.parent / "secret").write_text("secret")
    (repo / "src").mkdir()
    (repo / "src/secret").write_text("mine")
    directory, file = files.resolve(str(repo), "src/secret"), files.resolve(str(repo), "README.md")
    shutil.rmtree(repo / "src")
    (repo / "src").symlink_to("..")
    (repo / "README.md").unlink()
    (repo / "README.md").symlink_to("../secret")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"), directory.opened():
        pass
    with refused("not a regular file"), file.opened():
        pass


def test_links_that_lead_in_a_circle_are_refused(place: Workplace, repo: Path) -> None:
    (repo / "a").symlink_to("b")
    (repo / "b").symlink_to("a")
    with pytest.raises(ToolFailed):
        place.read("a")
    with pytest.raises(ToolFailed):
        place.write("a", "x")


# -- secrets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CONFIG", "CLAUDECODE", "AWS_PROFILE", "GIT_DIR",
        "GITTEAM_AS", "OPENAI_API_KEY", "openai_api_key", "APIKEY", "KEY", "DEPLOY_KEYS", "SSH_KEY2", "GITHUB_TOKEN",
        "npm_config__authToken", "CLIENT_SECRET", "SECRETS_FILE", "PGPASSWORD", "DB_PASSWD", "DB_PASS", "MYSQL_PWD",
        "GOOGLE_APPLICATION_CREDENTIALS", "SSH_AUTH_SOCK", "HTTP_AUTH", "SESSION_COOKIE", "PRIVATE_REPO", "SSH_ASKPASS",
        "GPG_PASSPHRASE", "OAUTH2_ID", "PGPASSFILE", "XAUTHORITY",
    ],
)  # fmt: skip
def test_a_variable_that_may_hold_a_secret_is_dropped(name: str) -> None:
    assert name not in clean_environment({name: "x"})


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "PWD", "OLDPWD", "LANG", "KEYBOARD_LAYOUT", "KEYMAP", "MONKEY_PATCH", "XDG_RUNTIME_DIR", "USER",
        "TOKENIZERS_PARALLELISM", "AUTHOR", "COMPASS", "VIRTUAL_ENV", "DISPLAY", "GITHUB_ACTIONS", "PRIVATEER",
    ],
)  # fmt: skip
def test_a_variable_people_need_is_kept(name: str) -> None:
    assert clean_environment({name: "x"})[name] == "x"


def test_an_address_with_a_password_is_dropped_whatever_its_name() -> None:
    given = {
        "DATABASE_URL": "postgres://me:pw@db/x",
        "P": "see http://:pw@proxy",
        "OK": "http://db:80/a@b",
        "S": "ssh://git@h",
    }
    assert {"DATABASE_URL", "P"}.isdisjoint(clean_environment(given))
    assert {"OK", "S"} <= set(clean_environment(given))


def test_a_command_gets_no_secret_and_asks_nobody(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hidden")
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    found = dict(line.split("=", 1) for line in place.run("env").splitlines())
    assert "sk-hidden" not in found.values()
    assert "GIT_DIR" not in found
    assert {k: found[k] for k in ("GIT_TERMINAL_PROMPT", "GIT_PAGER", "PAGER", "TERM")} == {
        "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "PAGER": "cat", "TERM": "dumb",
    }  # fmt: skip
    assert place.run("git rev-parse --show-toplevel").strip() == place.root


# -- the key in /proc ------------------------------------------------------------------------

HIDING = """
import json, os, subprocess, sys
from gitteam.workplace.secrets import hide_key_from_proc

def main():
    keys = hide_key_from_proc()
    look = "tr '\\\\0' '\\\\n' < /proc/$PPID/environ; env; ls -l /proc/$PPID/fd"
    print(json.dumps({
        "keys": keys, "again": hide_key_from_proc(), "argv": sys.argv[1:], "pid": os.getpid(),
        "executable": sys.executable, "stdin": sys.stdin.read(), "left": sorted(k for k in os.environ if "KEY" in k),
        "seen": subprocess.run(look, shell=True, capture_output=True, text=True).stdout,
        "dumpable": __import__("ctypes").CDLL(None).prctl(3, 0, 0, 0, 0),
    }))

if __name__ == "__main__":
    main()
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="there is a /proc on Linux only")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program in the two forms ours has: a package to run with -m, and a script that names its interpreter."""
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding/__init__.py").touch()
    (tmp_path / "hiding/__main__.py").write_text(HIDING)
    (tmp_path / "hider").write_text(f"#!{sys.executable}\n{HIDING}")
    (tmp_path / "hider").chmod(0o755)
    return tmp_path


def hide(program: Path, form: str, *arguments: str, **env: str) -> dict[str, object]:
    start = {
        "module": [sys.executable, "-m", "hiding"], "script": ["./hider"], "found in PATH": ["hider"],
        "python in PATH": [os.path.basename(sys.executable), "-X", "utf8", "hider"],
    }[form]  # fmt: skip
    path = f"{program}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    process = subprocess.Popen(
        [*start, *arguments], cwd=program, env={**os.environ, "PATH": path, **env}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = process.communicate("typed", TIMEOUT)
    assert err == ""
    found: dict[str, object] = json.loads(out)
    assert (found["pid"], found["stdin"]) == (process.pid, "typed")
    return found


@linux_only
@pytest.mark.parametrize("form", ["module", "script", "found in PATH", "python in PATH"])
def test_nobody_finds_the_key_in_proc(program: Path, form: str) -> None:
    arguments = ["", "two words", "--flag=ü", "*", "-m", "'"]
    keys = {"ANTHROPIC_API_KEY": "sk-hidden ü\n", "ANTHROPIC_AUTH_TOKEN": "sk-token"}
    found = hide(program, form, *arguments, OTHER="kept", **keys)
    assert found["keys"] == found["again"] == keys
    assert found["argv"] == arguments
    assert found["left"] == []
    assert found["dumpable"] == 0
    assert os.path.dirname(str(found["executable"])) == os.path.dirname(sys.executable)
    seen = str(found["seen"])
    assert "OTHER=kept" in seen
    assert not [word for word in ("sk-", "memfd") if word in seen]


@linux_only
def test_without_a_key_nothing_happens(program: Path) -> None:
    found = hide(program, "module")
    assert (found["keys"], found["dumpable"]) == ({}, 1)


@linux_only
@pytest.mark.parametrize("number", ["0", "1", "77", "x", "-1", ""])
def test_a_number_inherited_from_somebody_else_is_not_read(program: Path, number: str) -> None:
    assert hide(program, "module", GITTEAM_KEY_FD=number)["keys"] == {}
    keys = {"ANTHROPIC_API_KEY": "sk-hidden"}
    assert hide(program, "module", GITTEAM_KEY_FD=number, **keys)["keys"] == keys
