"""Text that is shown: hidden characters are spelled out, everything else stays."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitteam.render import visible

BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
ZERO_WIDTH = "\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2064\ufeff\U000e0001\U000e0041"


def is_hidden(char: str) -> bool:
    """What moves the cursor, ends a line, reverses the order or cannot be printed, by Unicode's own tables."""
    return unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(char) in BIDI


HIDDEN = [c for c in map(chr, range(sys.maxunicode + 1)) if is_hidden(c) and c not in "\n\t"] + [*ZERO_WIDTH]


def test_every_hidden_character_is_spelled_out() -> None:
    assert len(HIDDEN) > 2000
    assert [hex(ord(c)) for c in HIDDEN if not (visible(c).isascii() and visible(c).isprintable())] == []


def test_different_hidden_characters_look_different() -> None:
    assert len({visible(c) for c in HIDDEN}) == len(set(HIDDEN))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb", "a\\rb"),
        ("a\x9b2J", "a\\x9b2J"),
        ("user\u202etxt.exe", "user\\u202etxt.exe"),
        ("pay\u200bpal", "pay\\u200bpal"),
        ("\ud83d", "\\ud83d"),
    ],
)
def test_what_would_fool_a_terminal_is_shown_as_text(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text", ["", "plain", "two\nlines\tand a tab", "grüße, 日本語, العربية, e\u0301, 🎉", "C:\\x1b"]
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@given(st.text())
def test_what_was_made_visible_once_stays(text: str) -> None:
    assert visible(visible(text)) == visible(text)
