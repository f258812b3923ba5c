"""The documentation says what is true: commands as they are, links that lead somewhere, a test behind every MUST.

`python tests/test_docs.py --write` brings docs/commands.md up to date.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from conftest import Run, git, gitteam
from faults import needs_strace

from gitteam import Team
from gitteam.cli import cli
from gitteam.cli.common import Shell
from gitteam.errors import BadFile, BadInput, Conflict, GitteamError, NotFound
from gitteam.roster import parse_config

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
COMMANDS, PROTOCOL = DOCS / "commands.md", DOCS / "protocol.md"

_HEAD = """\
# The commands

What `--help` says, for every command. Made by `python tests/test_docs.py --write`; a test holds that it is up to date.
What `--json` prints and what the exit codes mean is in [protocol.md](protocol.md#8-commands-for-programs).
"""


# -- docs/commands.md ---------------------------------------------------------------------------


def _contexts(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Every command with its full name, in the order `--help` lists them."""
    context = click.Context(command, parent, info_name=name, terminal_width=100, **command.context_settings)
    yield context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            yield from _contexts(command.get_command(context, child), child, context)  # type: ignore[arg-type]


def _commands_page() -> str:
    sections = [
        f"## {context.command_path}\n\n```text\n{context.get_help().rstrip()}\n```\n"
        for context in _contexts(cli, "gitteam")
    ]
    return "\n".join([_HEAD, *sections])


def test_commands_page_is_up_to_date() -> None:
    assert COMMANDS.read_text() == _commands_page(), "run `python tests/test_docs.py --write`"


# -- links ----------------------------------------------------------------------------------------

PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")),
        *DOCS.glob("*.md"),
    ]
)


def _prose(text: str) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    """What a link may name within a page: its headings, spelled as the usual viewers do."""
    headings = re.findall(r"^#+ +(.+)$", _prose(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _broken(page: Path) -> Iterator[str]:
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", _prose(page.read_text()))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert list(_broken(page)) == []


# -- README.md --------------------------------------------------------------------------------------


def _typed(text: str) -> list[list[str]]:
    """The gitteam commands a transcript shows, each as words, up to a pipe or the like."""
    found = []
    for line in re.findall(r"^\s*\$ (gitteam\b.*)$", text, re.MULTILINE):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        end = next((n for n, word in enumerate(words) if set(word) <= set("|&;<>()")), len(words))
        found.append(words[1:end])
    return found


def _parse(words: list[str]) -> None:
    """Parse a command line as the program would, without running it."""
    context = cli.make_context("gitteam", list(words), obj=Shell(None, False))
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        context = command.make_context(name, rest, parent=context)


def test_commands_in_the_readme_are_real() -> None:
    typed = _typed((ROOT / "README.md").read_text())
    assert typed, "the README shows no `$ gitteam …`"
    for words in typed:
        if words and not {"-h", "--help", "--version"}.intersection(words):
            _parse(words)


@pytest.mark.parametrize("line", ["gitteam taks", "gitteam task add", "gitteam task claim x", "gitteam send --to a b"])
def test_a_command_that_is_none_would_be_noticed(line: str) -> None:
    with pytest.raises(click.UsageError):
        _parse(_typed(f"$ {line} | cat  # why")[0])


# -- docs/protocol.md ---------------------------------------------------------------------------------

_TAG = re.compile(r"- \[([A-Z][0-9]+)\] ")
_TEST = re.compile(r"(tests/test_\w+\.py)::(test_\w+)")
_PROOF = re.compile(rf"\({_TEST.pattern}(?:,\s+{_TEST.pattern})*\)\Z")


def _statements() -> list[str]:
    """The paragraphs and list items of the protocol, each in one line."""
    blocks = re.split(r"\n\s*\n|\n(?=- )", _prose(PROTOCOL.read_text()))
    return [" ".join(block.split()) for block in blocks if block.strip() and not block.lstrip().startswith("|")]


def _musts() -> list[str]:
    return [s for s in _statements() if re.search(r"\bMUST\b", s) and "RFC 2119" not in s]


@cache
def _tests_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_protocol_has_statements() -> None:
    assert len(_musts()) > 50


@pytest.mark.parametrize("statement", _musts(), ids=lambda s: (_TAG.match(s) or ["", "untagged"])[1])
def test_every_must_has_a_tag_and_a_test_that_exists(statement: str) -> None:
    assert _TAG.match(statement), "a MUST stands in a list item that begins with a tag"
    assert _PROOF.search(statement), "a MUST ends with the test that holds it"
    for path, name in _TEST.findall(statement):
        assert name in _tests_in(path), f"{path} has no {name}"


def test_tags_are_used_once_and_in_order() -> None:
    tags = [match[1] for s in _statements() if (match := _TAG.match(s))]
    for letter in dict.fromkeys(tag[0] for tag in tags):
        numbers = [int(tag[1:]) for tag in tags if tag[0] == letter]
        assert numbers == sorted(set(numbers)), f"tags {letter}"


# -- what it shows is what there is --------------------------------------------------------------------

_SHOWN = re.compile(r"^`gitteam ([^`\n]* --json)`.*?^```json\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_DIFFERS = {"since", "timestamp", "time", "commit"}  # from one time to the next


def _alike(value: Any, key: str = "") -> Any:
    """A value without what differs from one time to the next; of that the type is left."""
    if isinstance(value, dict):
        return {k: _alike(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_alike(v) for v in value]
    return type(value) if key in _DIFFERS or (key == "id" and isinstance(value, str)) else value


def test_json_shown_in_the_protocol_is_what_is_printed(tmp_path: Path) -> None:
    """The commands of section 8, typed one after the other."""
    shop = tmp_path / "shop"
    git(tmp_path, "init", "-q", str(shop))
    shown = _SHOWN.findall(PROTOCOL.read_text())
    assert len(shown) > 10
    for line, block in shown:
        result = gitteam(shop, *shlex.split(line))
        assert _alike(json.loads(result.out or result.err)) == _alike(json.loads(block)), line


def test_exit_codes_shown_in_the_protocol_are_those_of_the_errors() -> None:
    rows = re.findall(r"^\| ([0-9]+) \|([^|]*)\|", PROTOCOL.read_text(), re.MULTILINE)
    shown = {(kind, int(code)) for code, kinds in rows for kind in re.findall(r"`([\w-]+)`", kinds)}
    kinds = [GitteamError, *GitteamError.__subclasses__()]
    assert shown == {*((e.kind, e.exit_code) for e in kinds), ("system", 1), ("bug", 1)}


def test_events_listed_are_those_there_are() -> None:
    listed = re.search(r"^Events: (.*?)\.\n", PROTOCOL.read_text(), re.DOTALL | re.MULTILINE)
    assert listed
    events = set(re.findall(r"`(\w+)`", listed[1]))
    source = "".join(path.read_text() for path in (ROOT / "gitteam").rglob("*.py"))
    assert events >= set(re.findall(r'\.tell\(\s*"(\w+)"', source))
    assert [event for event in events if f'"{event}"' not in source] == []


# -- small facts that are tested nowhere else ------------------------------------------------------------


def test_a_second_task_is_refused_while_one_is_held(team: Team) -> None:
    team.add("One")
    team.add("Two")
    team.claim(1, by="alice")
    with pytest.raises(Conflict, match="alice has #1 already"):
        team.claim(2, by="alice")


def test_sender_is_who_acts(team: Team, run: Run) -> None:
    run("send", "bob", "hi", "--as", "alice")
    run("send", "bob", "hi")
    assert [m.sender for m in team.inbox("bob")] == ["alice", "user"]


def test_sending_to_a_stranger_lists_the_names(team: Team) -> None:
    with pytest.raises(NotFound, match="alice, bob"):
        team.send("zed", "hi")


def test_text_that_comes_too_late_and_cannot_be_read_is_left_beside_the_task(team: Team, repo: Path) -> None:
    team.add("One")
    path = repo / ".tasks" / "1-one.md"
    with open(path, "r+") as late:
        team.claim(1, by="alice")  # the file this editor has open is no longer the one that stands there
        late.write("---\nhalf")
        late.truncate()
    assert team.task(1).owner == "alice"
    assert [p.read_text() for p in path.parent.glob("1-one.md.rescued-*")] == ["---\nhalf"]


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("a", True), ("7of9", True), ("a.b_c-d", True), ("a" * 40, True), ("a" * 41, False), ("", False),
        ("Alice", False), ("-a", False), (".a", False), ("a b", False), ("a/b", False), ("é", False), ("a\n", False),
    ],
)  # fmt: skip
def test_what_is_a_name(name: str, valid: bool, team: Team) -> None:
    with nullcontext() if valid else pytest.raises(BadInput):
        assert team.add_member(name, role=name or "x").name == name


@pytest.mark.parametrize(("value", "durable"), [("full", True), ("fast", False), (None, True)])
def test_durability_is_full_or_fast(value: str | None, durable: bool) -> None:
    settings = {} if value is None else {"durability": value}
    assert parse_config(json.dumps({"name": "shop", "settings": settings}).encode()).durable is durable
    with pytest.raises(BadFile, match="durability"):
        parse_config(b'{"name": "shop", "settings": {"durability": "slow"}}')


@needs_strace
@pytest.mark.parametrize(("durability", "forced"), [("full", True), ("fast", False)])
def test_nothing_is_forced_to_the_disk_when_fast(durability: str, forced: bool, team: Team, tmp_path: Path) -> None:
    team.add("One")
    config = Path(team.place.at(".team/config.json"))
    config.write_text(config.read_text().replace('"settings": {}', f'"settings": {{"durability": "{durability}"}}'))
    assert team.config().settings == {"durability": durability}
    calls = tmp_path / "calls"
    trace = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,sync,syncfs", "-o", calls]
    subprocess.run(
        [*trace, sys.executable, "-m", "gitteam", "task", "note", "1", "so"], cwd=team.place.root, check=True
    )
    assert bool(re.search(r"sync\w*\(", calls.read_text())) is forced


def test_edit_in_a_members_name_is_authored_by_the_member(team: Team, repo: Path, run: Run, tmp_path: Path) -> None:
    team.add("One")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "more words" >> "$1"\n')
    editor.chmod(0o755)
    assert run("task", "edit", "1", "--as", "alice", EDITOR=str(editor)).code == 0
    assert git(repo, "log", "-1", "--format=%ae %s", "gitteam") == "alice@gitteam.invalid alice edits #1: One"


@pytest.fixture
def lively(team: Team, repo: Path) -> Path:
    """A repository in which most of what can happen has happened, by command and by hand."""
    team.add("One")
    team.add("Two", blocked_by=[1])
    team.claim(1, by="alice")
    team.note(1, "half way", by="bob")
    team.send("bob", "hello", by="alice")
    with team.take("bob"):
        pass
    team.done(1, "all of it", by="alice")
    team.cancel(2)
    for name in ("three", "four"):
        (repo / ".tasks" / f"{name}.md").write_text(f"{name}\n")
    (repo / ".team" / "inbox" / "alice.jsonl").write_text('{"content": "by hand"}\n')
    team.tasks()
    (repo / ".tasks" / "3-three.md").write_text("---\nsubject: three\nstatus: in_progress\nowner: bob\n---\n")
    team.release(3, by="alice", force=True)
    team.remove_member("bob")
    return repo


def _trailers(repo: Path, key: str) -> list[list[str]]:
    """The values of a trailer in each commit, oldest first."""
    form = f"--format=%(trailers:key={key},valueonly,separator=%x20)."
    return [line[:-1].split() for line in git(repo, "log", "--reverse", form, "gitteam").splitlines()]


def test_every_commit_has_one_op_and_one_event(lively: Path) -> None:
    ops, events = _trailers(lively, "Team-Op"), _trailers(lively, "Team-Event")
    assert len(ops) > 12
    assert {len(op) for op in ops} == {len(event) for event in events} == {1}
    assert len({op for [op] in ops}) == len(ops)


def test_task_is_named_exactly_where_one_is_concerned(lively: Path) -> None:
    told = git(lively, "log", "--reverse", "--format=%s", "gitteam").splitlines()
    named = dict(zip(told, _trailers(lively, "Team-Task"), strict=True))
    assert named["alice claims #1: One"] == ["1"]
    assert named["bob notes on #1: half way"] == ["1"]
    assert named["alice writes to bob: hello"] == []
    assert [tasks for line, tasks in named.items() if line.startswith("Jane Doe adds #3")] == [[]]  # and #4
    assert named["Jane Doe gives bob #3: three"] == ["3"]


def test_author_is_who_acted_and_committer_the_person(lively: Path) -> None:
    found = git(lively, "log", "--format=%s\t%an <%ae>\t%cn <%ce>", "gitteam").splitlines()
    people = {line.split("\t")[0]: line.split("\t")[1:] for line in found}
    jane = "Jane Doe <jane@example.com>"
    assert people["alice claims #1: One"] == ["alice <alice@gitteam.invalid>", jane]
    assert people["Jane Doe adds #1: One"] == [jane, jane]
    assert people["Jane Doe gives bob #3: three"] == [jane, jane]


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/test_docs.py --write")
    COMMANDS.write_text(_commands_page())
