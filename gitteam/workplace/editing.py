"""Replacing one passage of a text."""

from __future__ import annotations

import re

from gitteam.errors import ToolFailed
from gitteam.workplace.reading import numbered

_CONTEXT = 3  # lines shown before and after a change
_MAX_SHOWN = 60
_MAX_PLACES = 10


def edited(data: bytes, asked: str, old: str, new: str) -> tuple[bytes, str]:
    """The data with `new` in the place of `old`, and the lines there as the model is shown them."""
    _check(old, new)
    # What is not UTF-8 comes back as it was.
    text = data.decode("utf-8", "surrogateescape")
    found = _find(text, asked, old)
    if "\r" not in old + new and _has_crlf(found[0], text):
        new = new.replace("\n", "\r\n")
    changed = text[: found.start()] + new + text[found.end() :]
    return changed.encode("utf-8", "surrogateescape"), _show(changed, found.start(), len(new))


def _check(old: str, new: str) -> None:
    if not old:
        raise ToolFailed("old_text is empty: give the text to replace, or write the whole file")
    if old == new:
        raise ToolFailed("old_text and new_text are the same: there is nothing to change")
    encode(new)


def encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        raise ToolFailed(f"the text is not valid Unicode: half a surrogate pair at character {e.start}") from None


def _find(text: str, asked: str, old: str) -> re.Match[str]:
    # A text with plain line ends fits a file with either kind of them.
    pattern = "\r?\n".join(re.escape(line) for line in old.split("\n"))
    places = list(re.finditer(pattern, text))
    if not places:
        raise ToolFailed(f"old_text was not found in {asked}{_hint(text, old)}")
    if len(places) > 1:
        lines = ", ".join(str(text.count("\n", 0, place.start()) + 1) for place in places[:_MAX_PLACES])
        more = ", …" if len(places) > _MAX_PLACES else ""
        raise ToolFailed(
            f"old_text is in {asked} {len(places)} times: lines {lines}{more}; take in more of what is around it"
        )
    return places[0]


def _hint(text: str, old: str) -> str:
    bare = "".join(old.split())
    if bare and bare in "".join(text.split()):
        return ", only with other whitespace: copy it exactly, with its indentation and line ends"
    return ": read the file again and copy it exactly"


def _has_crlf(passage: str, text: str) -> bool:
    """Whether a passage has Windows line ends; one without any goes by the whole text."""
    if "\n" in passage:
        return "\r\n" in passage
    return 2 * text.count("\r\n") > text.count("\n")


def _show(text: str, start: int, length: int) -> str:
    lines = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").split("\n")
    first = text.count("\n", 0, start)
    # A line end at the very end begins no line of ours.
    last = first + text.count("\n", start, start + max(0, length - 1))
    shown = range(max(0, first - _CONTEXT), min(len(lines), last + _CONTEXT + 1))
    cut = shown[:_MAX_SHOWN]
    more = [f"[{len(shown) - len(cut)} more lines]"] if len(cut) < len(shown) else []
    return "\n".join([*(numbered(n + 1, lines[n]) for n in cut if n + 1 < len(lines) or lines[n]), *more])
