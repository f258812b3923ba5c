"""Skills: what is found in a work tree, and what is named as broken."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gitteam import skills
from gitteam.skills import MAX_DESCRIPTION, MAX_SIZE, Skill, catalogue, find

Write = Callable[..., Path]


@pytest.fixture
def write(repo: Path) -> Write:
    """`write("review", "---\\n…", place="skills")` makes a SKILL.md."""

    def write(name: str, text: str | bytes, place: str = "skills") -> Path:
        path = repo / place / name / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def skill(description: str = "Does it.", name: str = "", body: str = "# How\n\nLike this.\n") -> str:
    return "---\n" + f"name: {name}\n" * bool(name) + f"description: {description}\n---\n\n{body}"


def reason(repo: Path, path: str = "skills/a/SKILL.md") -> str:
    """Why the one broken skill is broken."""
    found, broken = find(str(repo))
    assert found == []
    assert list(broken) == [path]
    return broken[path]


# -- what is found ---------------------------------------------------------------------------


def test_skills_of_both_places_are_found_in_the_order_of_their_names(repo: Path, write: Write) -> None:
    write("zip", skill("Packs things.", "pack"))
    write("review", skill("Reviews a change."), ".claude/skills")
    assert find(str(repo)) == (
        [
            Skill("pack", "Packs things.", "skills/zip/SKILL.md", "# How\n\nLike this."),
            Skill("review", "Reviews a change.", ".claude/skills/review/SKILL.md", "# How\n\nLike this."),
        ],
        {},
    )


def test_a_repository_without_skills_has_none(repo: Path) -> None:
    assert find(str(repo)) == ([], {})
    (repo / "skills").write_text("a file")
    assert find(str(repo)) == ([], {})


def test_what_has_no_skill_file_is_no_business_of_ours(repo: Path) -> None:
    (repo / "skills/fencing").mkdir(parents=True)
    (repo / "skills/README.md").write_text("about our fencers")
    assert find(str(repo)) == ([], {})


def test_on_a_duplicate_the_first_place_wins(repo: Path, write: Write) -> None:
    write("review", skill("The team's."), ".claude/skills")
    write("other", skill("Ours.", "review"))
    found, broken = find(str(repo))
    assert [(s.description, broken) for s in found] == [("Ours.", {})]


def test_a_broken_duplicate_hides_no_whole_one(repo: Path, write: Write) -> None:
    write("review", "no front matter")
    write("review", skill("Whole."), ".claude/skills")
    found, broken = find(str(repo))
    assert [s.description for s in found] == ["Whole."]
    assert list(broken) == ["skills/review/SKILL.md"]


def test_reading_changes_nothing(repo: Path, write: Write) -> None:
    path = write("a", skill())
    path.chmod(0o400)
    before = path.stat()
    find(str(repo))
    assert (path.stat().st_mtime_ns, path.stat().st_mode) == (before.st_mtime_ns, before.st_mode)
    assert os.listdir(path.parent) == ["SKILL.md"]


@pytest.mark.parametrize(
    "head",
    [
        "description: One two.",
        "description: 'One two.'",
        "description: >\n  One\n  two.",
        "description: |-\n  One\n\n  two.",
        "description: One\n  two.",
        "license: MIT\nmetadata:\n  author: me\n  tags: [a, {b: c}]\n\ndescription: One two. # so\ntools: '*'",
        "description: One two.\nhooks:\n- name: x\n  run: [",
        "description: One two.\r\nversion: &a 1.0\r",
    ],
)
def test_front_matter_as_other_tools_write_it_is_understood(repo: Path, write: Write, head: str) -> None:
    write("a", f"\ufeff---\n{head}\n---\nbody")
    found, broken = find(str(repo))
    assert [(s.name, s.description, s.body, broken) for s in found] == [("a", "One two.", "body", {})]


def test_a_block_may_hold_what_needs_quotes_elsewhere(repo: Path, write: Write) -> None:
    write("a", '---\ndescription: >-\n  Use it: "always" # yes\nname: b\n---\n')
    assert [(s.name, s.description, s.body) for s in find(str(repo))[0]] == [("b", 'Use it: "always" # yes', "")]


def test_a_link_inside_the_repository_is_followed(repo: Path, write: Write) -> None:
    write("a", skill(), "shared")
    (repo / "skills").symlink_to("shared")
    assert [s.path for s in find(str(repo))[0]] == ["skills/a/SKILL.md"]


# -- what is broken --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no description"),
        ("# How\n\ndescription: not in front matter", "no description"),
        ("---\nname: a\ndescription:\n---\n", "no description"),
        ("---\ndescription: x\n", "line 1: the front matter is not closed"),
        ("---\nx: 1\n\ndescription: a: b\n---\n", "line 4: a value with a colon and a space needs quotes"),
        ("---\nx:\n  y: 1\ndescription: a\ndescription: b\n---\n", "line 5: description stands there twice"),
        ("---\ndescription: [a, b]\n---\n", "line 2: description takes one value, not a list"),
        ("---\ndescription: a\x1b[31m\n---\n", "line 2: a control character"),
        (skill(name="Upper Case"), "'Upper Case' is no valid name"),
        (skill(name='"a\\nb"'), r"'a\nb' is no valid name"),
        (skill(name="../../etc"), "'../../etc' is no valid name"),
        (skill().encode() + b"\xff", "it is not UTF-8 text: see byte"),
        ("\0".join(skill()).encode("utf-16"), "it is not UTF-8 text: see byte 1"),
        (skill(body="x" * MAX_SIZE), "bytes: 100,000 at most"),
    ],
)
def test_a_broken_skill_is_named_with_its_reason(repo: Path, write: Write, text: str | bytes, why: str) -> None:
    write("a", text)
    assert why in reason(repo)


def test_the_largest_skill_is_read(repo: Path, write: Write) -> None:
    write("a", skill(body="x" * (MAX_SIZE - len(skill(body="")))))
    assert len(find(str(repo))[0]) == 1


@pytest.mark.parametrize("linked", ["SKILL.md", "a", "skills"])
def test_a_link_out_of_the_repository_is_refused(repo: Path, tmp_path: Path, linked: str) -> None:
    secret = tmp_path / "elsewhere" / "skills" / "a"
    secret.mkdir(parents=True)
    (secret / "SKILL.md").write_text(skill("A secret."))
    link = repo / {"SKILL.md": "skills/a/SKILL.md", "a": "skills/a", "skills": "skills"}[linked]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to({"SKILL.md": secret / "SKILL.md", "a": secret, "skills": secret.parent}[linked])
    assert "outside the work tree" in reason(repo)


def test_links_to_nothing_and_to_git_are_refused(repo: Path) -> None:
    (repo / "skills/a").mkdir(parents=True)
    (repo / "skills/a/SKILL.md").symlink_to("../../nothing")
    assert "no such file" in reason(repo)
    (repo / "skills/a/SKILL.md").unlink()
    (repo / "skills/a/SKILL.md").symlink_to("SKILL.md")
    assert "not a regular file" in reason(repo)
    (repo / "skills/a/SKILL.md").unlink()
    (repo / "skills/a/SKILL.md").symlink_to("../../.git/config")
    assert "belongs to git" in reason(repo)


def test_what_is_no_file_is_refused_and_not_waited_for(repo: Path) -> None:
    (repo / "skills/a").mkdir(parents=True)
    os.mkfifo(repo / "skills/a/SKILL.md")
    assert "not a regular file" in reason(repo)
    (repo / "skills/a/SKILL.md").unlink()
    (repo / "skills/a/SKILL.md").mkdir()
    assert reason(repo) == "it is a directory"


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_named(repo: Path, write: Write) -> None:
    write("a", skill()).chmod(0)
    assert "permission denied" in reason(repo)


# -- nothing in them does harm ---------------------------------------------------------------


def test_a_name_that_would_move_the_cursor_is_spelled_out(repo: Path, write: Write) -> None:
    write("a\n\x1b[2J\u202e", "")
    write("b\udcff", skill())
    found, broken = find(str(repo))
    assert found == []
    assert list(broken) == [r"skills/a\n\x1b[2J\u202e/SKILL.md", r"skills/b\udcff/SKILL.md"]
    assert all(text.isprintable() for text in broken.values())


def test_a_directory_of_any_name_may_hold_a_skill_with_a_name_of_its_own(repo: Path, write: Write) -> None:
    write("My\tSkill\x07", skill(name="mine"))
    assert [(s.name, s.path) for s in find(str(repo))[0]] == [("mine", r"skills/My\tSkill\x07/SKILL.md")]


def test_the_catalogue_has_a_harmless_line_for_each(repo: Path, write: Write) -> None:
    write("a", skill('"One.\\n- b: \\u001b[2Jfalse\\u202e"'))
    write("c", skill("x" * 5000))
    assert catalogue(find(str(repo))[0]).splitlines() == [
        r"- a: One. - b: \x1b[2Jfalse\u202e",
        "- c: " + "x" * MAX_DESCRIPTION + "…",
    ]
    assert catalogue([]) == ""


def test_places_are_looked_at_and_nowhere_else(repo: Path, write: Write) -> None:
    for place in ("docs/skills", "skills/a/deep", ".claude"):
        write("x", skill(), place)
    assert skills.find(str(repo)) == ([], {})
