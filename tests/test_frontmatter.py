"""The head of a task file: what is accepted, what YAML makes of it, and that editing keeps every other byte."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitteam import frontmatter
from gitteam.errors import BadFile

# Everything that means something in YAML somewhere, the traps among spaces and line ends, and some ordinary letters.
SPICE = "ab:-#\"'[]{},&*!|>%@`?=~\\/ \t01._né\x85\u2028\xa0\ufeff\r\x1b\U0001f600"
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SPICED = st.text(st.sampled_from(SPICE), max_size=8)


def framed(inner: str) -> str:
    return f"---\n{inner}---\nbody\n"


def read(raw: str) -> Any:
    """The value of one line `a: RAW`."""
    return frontmatter.parse(framed(f"a: {raw}\n")).values["a"]


# -- what is read ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("", ""),
        ("plain words", "plain words"),
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("0123", "0123"),
        ("1_000", "1_000"),
        ("1e3", "1e3"),
        ("12:30", "12:30"),
        ("2026-11-18", "2026-11-18"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("null", "null"),
        ("~", "~"),
        ("1234567890123456789012", "1234567890123456789012"),
        ("C# and F#", "C# and F#"),
        ("value # a comment", "value"),
        ("# only a comment", ""),
        ('"quoted: # \\"all\\" the same"', 'quoted: # "all" the same'),
        ('"tab\\there"', "tab\there"),
        ("'it''s'", "it's"),
        ("'7'", "7"),
        ('"no" # really', "no"),
        ("[]", []),
        ("[ ]", []),
        ("[1, 2]", [1, 2]),
        ("[1,2]", [1, 2]),
        ("[a b, 'c, d', \"e]\", 3] # four", ["a b", "c, d", "e]", 3]),
        ("[12:30, 0123]", ["12:30", "0123"]),
        ("a - b", "a - b"),
        ("http://example.com/x", "http://example.com/x"),
    ],
)
def test_values_are_read_as_written_and_never_coerced(raw: str, value: Any) -> None:
    found = read(raw)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("inner", "line", "word"),
    [
        ("a: [1, 2\n", 2, "list"),
        ("a: [1, [2]]\n", 2, "list"),
        ("a: [1,, 2]\n", 2, "list"),
        ("a: [1, 2,]\n", 2, "list"),
        ("a: {b: 1}\n", 2, "quotes"),
        ("a: &anchor x\n", 2, "quotes"),
        ("a: *alias\n", 2, "quotes"),
        ("a: !tag x\n", 2, "quotes"),
        ("a: |\n  text\n", 2, "quotes"),
        ("a: >\n  text\n", 2, "quotes"),
        ("a: @x\n", 2, "quotes"),
        ("a: `x`\n", 2, "quotes"),
        ("a: %x\n", 2, "quotes"),
        ("a: - b\n", 2, "quotes"),
        ("a: b: c\n", 2, "quotes"),
        ("a: b:\n", 2, "quotes"),
        ('a: "open\n', 2, "quote"),
        ("a: 'open\n", 2, "quote"),
        ('a: "x" y\n', 2, "quote"),
        ('a: "\\x41"\n', 2, "JSON"),
        ('a: "\\ud800"\n', 2, "JSON"),
        ('a: "\\ud83d\\ude00"\n', 2, "JSON"),
        ("a: b\x1b[31m\n", 2, "control"),
        ("ok: 1\n\n# fine\na: 1\na: 2\n", 6, "twice"),
        ("ok: 1\n  nested: 2\n", 3, "key: value"),
        ("ok: 1\njust words\n", 3, "key: value"),
        ("a:b\n", 2, "key: value"),
        ("- 1\n", 2, "list item"),
        ("a: 1\n- 2\n", 3, "list item"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused_with_its_line(inner: str, line: int, word: str) -> None:
    with pytest.raises(BadFile) as caught:
        frontmatter.parse(framed(inner))
    assert caught.value.line == line
    assert word in caught.value.reason


@pytest.mark.parametrize(
    "inner",
    [
        "# harmless\rx: 1\n",
        "# harmless\x85x: 1\n",
        "# harmless\u2028x: 1\n",
        "a: ''\n- 1\n",
        'a: ""\n- 1\n',
        "a: [1]\n- 2\n",
        "a:\n - 1\n  - 2\n",
        "a:\tb\n",
        "a: b\tc\n",
        "\ta: b\n",
        "a: [:x]\n",
        "a: [x?y]\n",
        "a: [?x]\n",
        "a: [#]\n",
        "a: [x #]\n",
        "a: [- x]\n",
    ],
)
def test_what_yaml_refuses_or_sees_differently_is_refused_here_too(inner: str) -> None:
    with pytest.raises(BadFile) as caught:
        frontmatter.parse(framed(inner))
    assert caught.value.line


def test_a_head_that_is_not_closed_is_refused_at_line_1() -> None:
    with pytest.raises(BadFile, match="not closed") as caught:
        frontmatter.parse("---\na: 1\n")
    assert caught.value.line == 1


@pytest.mark.parametrize("text", ["", "words\n", "# heading\n---\na: 1\n---\n", " ---\na: 1\n---\n", "----\na: 1\n"])
def test_text_that_does_not_begin_with_a_fence_has_no_head(text: str) -> None:
    assert frontmatter.parse(text) == frontmatter.Head({}, {}, 0)


@pytest.mark.parametrize("items", ["- 1\n- 2\n", "  - 1\n\n  # why\n  - 2\n", "    - 1\n    - 2 # the second\n"])
def test_block_lists_are_read(items: str) -> None:
    head = frontmatter.parse(framed(f"a:\n{items}b: x\n"))
    assert head.values == {"a": [1, 2], "b": "x"}


@pytest.mark.parametrize(
    "text", ["\ufeff---\na: 1\n---\n", "---\r\na: 1\r\n---\r\n", "--- \na: 1 \n---\t\n", "---\na: 1\n---"]
)
def test_byte_order_mark_carriage_returns_and_trailing_blanks_do_not_matter(text: str) -> None:
    assert frontmatter.parse(text).values == {"a": 1}


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda head: head.text("many"), 3),
        (lambda head: head.integer("words"), 2),
        (lambda head: head.integers("words"), 2),
        (lambda head: head.integers("many"), 3),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_line(call: Any, line: int) -> None:
    head = frontmatter.parse(framed("words: a b\nmany: [1, x]\n"))
    with pytest.raises(BadFile) as caught:
        call(head)
    assert caught.value.line == line


def test_missing_and_empty_keys_read_as_nothing() -> None:
    head = frontmatter.parse(framed("empty:\none: 5\n"))
    assert [head.text("empty"), head.text("no")] == ["", ""]
    assert [head.integer("empty"), head.integer("no")] == [0, 0]
    assert [head.integers("empty"), head.integers("no"), head.integers("one")] == [(), (), (5,)]


# -- beside YAML ---------------------------------------------------------------------------------


def spiced_heads() -> st.SearchStrategy[str]:
    begin = st.sampled_from(["a: ", "b: ", "c:", "d:\n- ", "d:\n  - ", "- ", "  - ", "", "# ", "e: [", 'f: "', "g: '"])
    end = st.sampled_from(["", "", "]", '"', "'", " # c", ",", ":"])
    line = st.tuples(begin, SPICED, end).map("".join)
    return st.lists(line, min_size=1, max_size=3).map(lambda lines: "".join(f"{line}\n" for line in lines))


def agree(inner: str) -> None:
    """Whatever is accepted, YAML reads alike: strings as they stand, and what is a number here is that number there."""
    try:
        head = frontmatter.parse(framed(inner))
    except BadFile:
        return
    seen = "".join(frontmatter.split(framed(inner))[0][1 : head.end])
    texts = yaml.load(seen, yaml.BaseLoader) or {}  # strings only
    assert texts == {k: [str(i) for i in v] if isinstance(v, list) else str(v) for k, v in head.values.items()}
    numbers = {k: v for k, v in head.values.items() if isinstance(v, int)}
    if numbers:
        loaded = yaml.safe_load("".join(f"{k}: {texts[k]}\n" for k in numbers))
        assert loaded == numbers


@settings(max_examples=800, deadline=None)
@given(spiced_heads())
@example("a: -0\n")
@example("a: [\xa0]\n")
@example("a: \xa0\n")
def test_yaml_reads_alike_what_is_accepted(inner: str) -> None:
    agree(inner)


@pytest.mark.long
@settings(max_examples=20_000, deadline=None)
@given(spiced_heads())
def test_yaml_reads_alike_what_is_accepted_in_many_more_cases(inner: str) -> None:
    agree(inner)


# -- what is written ------------------------------------------------------------------------------


def written(value: Any) -> tuple[Any, Any]:
    """A value after it was written: as read here, and as YAML with all its coercions reads it."""
    text = frontmatter.edit("", {"a": value})
    assert len(text.splitlines()) == 3
    return frontmatter.parse(text).values["a"], yaml.safe_load(text.split("\n")[1])["a"]


@settings(deadline=None)
@given(STRINGS | SPICED)
@example("no")
@example("12:30")
@example("0123")
@example("2026-11-18")
@example("\ufffe")
@example("line\nbreak")
@example("trailing ")
@example("a: b")
@example("--- x")
def test_any_string_comes_back_as_it_was_written(value: str) -> None:
    here, there = written(value)
    assert here == value
    assert (there or "") == value  # an empty value is null to YAML


@settings(deadline=None)
@given(st.lists(STRINGS | SPICED | st.integers(-(10**17), 10**17), max_size=4))
@example(["a,b"])
@example(["it's"])
@example([""])
@example(["yes", "7", 7])
def test_any_list_comes_back_as_it_was_written(value: list[Any]) -> None:
    assert written(value) == (value, value)


@pytest.mark.parametrize(
    ("value", "text"),
    [("Design the schema", "Design the schema"), ("", ""), (3, "3"), ([1, 2], "[1, 2]"), ("no", '"no"'), ("5", '"5"')],
)
def test_values_are_written_plainly_where_every_reader_agrees(value: Any, text: str) -> None:
    assert frontmatter.dump(value) == text


# -- editing --------------------------------------------------------------------------------------

KEYS = ["status", "owner", "claim", "blockedBy", "mine", "x-y"]
BLOCKS = ["{}: pending", "{}:", "{}: 7", "{}: [1, 2]", "{}:\n- 1\n- 2", '{}: "a: b"', "{}: 'c'"]
BETWEEN = ["", "# a comment", "   ", "  # indented, with: colon"]
BODIES = ["", "text", "text\n", "\n\nstatus: no\n---\n# x\n", "## Notes\n- a\n", "tail without end ---"]
VALUES = st.none() | st.sampled_from(["in_progress", "alice", "", 3, [4, 5], "a # b"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True))
    lines = []
    for key in keys:
        lines += draw(st.lists(st.sampled_from(BETWEEN), max_size=2))
        lines += draw(st.sampled_from(BLOCKS)).format(key).split("\n")
    lines += draw(st.lists(st.sampled_from(BETWEEN), max_size=1))
    text = "\n".join(["---", *lines, "---", draw(st.sampled_from(BODIES))])
    return draw(st.sampled_from(["", "\ufeff"])) + (text.replace("\n", "\r\n") if draw(st.booleans()) else text)


def without(text: str, keys: Any) -> str:
    """The text without the lines of these keys."""
    head, (lines, _) = frontmatter.parse(text), frontmatter.split(text)
    gone = {n for key in keys if key in head.spans for n in range(*head.spans[key])}
    return "".join(line for number, line in enumerate(lines) if number not in gone)


@settings(max_examples=300, deadline=None)
@given(documents(), st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3))
def test_editing_changes_the_named_keys_and_no_other_byte(text: str, changes: dict[str, Any]) -> None:
    before, edited = frontmatter.parse(text), frontmatter.edit(text, changes)
    merged = {**before.values, **changes}
    assert frontmatter.parse(edited).values == {k: v for k, v in merged.items() if v is not None}
    assert without(edited, changes) == without(text, changes)
    order = [key for key in frontmatter.parse(edited).values if key in before.values]
    assert order == [key for key in before.values if key in order]


@settings(deadline=None)
@given(documents())
def test_setting_what_is_there_already_changes_nothing(text: str) -> None:
    assert frontmatter.edit(text, dict(frontmatter.parse(text).values)) == text


def test_a_claim_is_a_diff_of_three_lines() -> None:
    text = "---\nsubject: Design it\nstatus: pending\nowner:\nmine: {0} # kept\n---\nbody\n".replace("{0}", "'x'")
    edited = frontmatter.edit(text, {"status": "in_progress", "owner": "alice", "claim": 1})
    assert edited == text.replace("pending", "in_progress").replace(
        "owner:\nmine: 'x' # kept", "owner: alice\nmine: 'x' # kept\nclaim: 1"
    )


def test_a_comment_on_the_edited_line_stays() -> None:
    text = framed('status: pending # waits for Joe\nsubject: "a # b" # see c\nblockedBy: [1] # d\n')
    edited = frontmatter.edit(text, {"status": "in_progress", "subject": "e", "blockedBy": [1, 2]})
    assert edited == framed("status: in_progress # waits for Joe\nsubject: e # see c\nblockedBy: [1, 2] # d\n")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_new_keys_end_as_the_other_lines_do(newline: str) -> None:
    text = newline.join(["---", "a: 1", "---", ""])
    assert frontmatter.edit(text, {"b": 2}) == newline.join(["---", "a: 1", "b: 2", "---", ""])


def test_a_text_without_a_head_gets_one() -> None:
    assert frontmatter.edit("words\n", {"a": "b"}) == "---\na: b\n---\nwords\n"
