"""The documentation says what is true: commands as they are, links that lead somewhere, a test behind every MUST.

`python tests/test_docs.py --write` brings docs/commands.md up to date.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from gitteam.cli import cli
from gitteam.cli.common import Shell

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
    context = click.Context(command, parent, info_name=name, terminal_width=100)
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


def test_json_shown_in_the_protocol_is_json() -> None:
    blocks = re.findall(r"^```json\n(.*?)^```$", PROTOCOL.read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        json.loads(block)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/test_docs.py --write")
    COMMANDS.write_text(_commands_page())
