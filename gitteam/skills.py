"""Skills: instructions in the repository that members are told of by name, and read when they need them.

A skill is a directory with a `SKILL.md`: front matter with a name and a description, then Markdown. Here they
are only read. What cannot be used is named with its reason and left alone.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gitteam import frontmatter
from gitteam.errors import BadFile, ToolFailed
from gitteam.layout import is_name
from gitteam.render import visible
from gitteam.workplace import files

PLACES = ("skills", ".claude/skills")  # on a duplicate the first wins
FILE = "SKILL.md"
MAX_SIZE = 100_000  # bytes
MAX_DESCRIPTION = 1024  # characters

_OURS = re.compile(r"(name|description):")
_BLOCK = re.compile(r"[|>][-+0-9]* *(?:#.*)?\Z")


@dataclass(frozen=True)
class Skill:
    name: str
    description: str  # one line
    path: str  # of its SKILL.md, relative to the work tree
    body: str


def find(root: str) -> tuple[list[Skill], dict[str, str]]:
    """The skills of a work tree in the order of their names, and why others are none, by their paths."""
    skills: dict[str, Skill] = {}
    broken: dict[str, str] = {}
    for place in PLACES:
        for directory in _directories(root, place, broken):
            path = f"{place}/{directory}/{FILE}"
            try:
                skill = _read(root, path, directory)
                skills.setdefault(skill.name, skill)
            except (BadFile, ToolFailed) as e:
                broken[_line(path)] = _line(str(e))
    return [skills[name] for name in sorted(skills)], broken


def catalogue(skills: Iterable[Skill]) -> str:
    """The skills for a system prompt, a line each."""
    return "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)


def _directories(root: str, place: str, broken: dict[str, str]) -> Iterator[str]:
    """The directories that have a SKILL.md; others are no business of ours."""
    try:
        names = sorted(os.listdir(os.path.join(root, place)))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as e:
        broken[place] = (e.strerror or str(e)).lower()
        return
    for name in names:
        if os.path.lexists(os.path.join(root, place, name, FILE)):
            yield name


def _read(root: str, path: str, directory: str) -> Skill:
    text = _text(root, path)
    lines, end = frontmatter.split(text)
    head = frontmatter.parse("".join(_our_lines(lines, end)))
    name, description = head.text("name") or directory, " ".join(head.text("description").split())
    if not is_name(name):
        raise BadFile(f"{name[:60]!r} is no valid name: use a-z, 0-9, '.', '_', '-', at most 40 characters")
    if not description:
        raise BadFile("it has no description: begin it with front matter that has a line `description: …`")
    if len(description) > MAX_DESCRIPTION:
        description = description[:MAX_DESCRIPTION] + "…"
    return Skill(name, visible(description), _line(path), "".join(lines[end + 1 if end else 0 :]).strip("\r\n"))


def _text(root: str, path: str) -> str:
    place = files.resolve(root, path)
    with files.telling("read", path), place.opened() as fd:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise BadFile("it is a directory")
        with open(fd, "rb", closefd=False) as f:
            data = f.read(MAX_SIZE + 1)
    if len(data) > MAX_SIZE:
        raise BadFile(f"it has {max(len(data), found.st_size):,} bytes: {MAX_SIZE:,} at most")
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise BadFile(f"it is not UTF-8 text: see byte {e.start + 1:,}") from None


def _our_lines(lines: list[str], end: int) -> Iterator[str]:
    """The front matter with the keys that matter here, each on one line; the others' lines are empty.

    Other tools know more keys and more of YAML than our reader. That must not make a skill unreadable.
    """
    if not end:
        return
    yield lines[0]
    number = 1
    while number < end:
        following = number + 1
        while following < end and (lines[following][:1] in " \t" or not lines[following].strip()):
            following += 1
        ours = _OURS.match(lines[number])
        yield _joined(lines[number:following]) if ours else "\n"
        yield "\n" * (following - number - 1)
        number = following
    yield lines[end]


def _joined(lines: list[str]) -> str:
    """A key with a value over several lines, on one."""
    first, *rest = (line.strip() for line in lines)
    key, _, raw = first.partition(":")
    more = [line for line in rest if line]
    if _BLOCK.match(raw.strip()):
        return f"{key}: {frontmatter.dump(' '.join(more))}\n"
    return " ".join([first, *more]) + "\n"


def _line(text: str) -> str:
    """Text from a stranger's file names, harmless and on one line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")
