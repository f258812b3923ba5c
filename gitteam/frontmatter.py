"""The head of a task file: a strict subset of YAML that keeps every byte it is not told to change.

Hand-written on purpose: YAML libraries turn `no`, `12:30` and `0123` into other
types, and those that write reorder keys and drop comments. What is accepted here,
a YAML tool reads alike; what could be read in two ways is an error with its line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from gitteam.errors import BadFile

Scalar = str | int
Value = Scalar | list[Scalar]

FENCE = "---"
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?:[ \t]+(.*))?\Z")
_ITEM = re.compile(r"[ \t]*-(?:[ \t]+(.*))?\Z")
_INT = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z")
_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\')[ \t]*(?:(?<=[ \t])#.*)?\Z')
_FLOW = re.compile(r"\[(.*)\][ \t]*(?:(?<=[ \t])#.*)?\Z")
_FLOW_ITEM = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'|[^,"\'\[\]{}]*?)\s*(,|\Z)')
_COMMENT = re.compile(r"(?:\A|[ \t]+)#.*")
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_PLAIN = re.compile(r"[^\W\d_](?:[\w ./()+,'!?=&;-]*[\w./()+!?])?\Z")
# Words that YAML tools turn into booleans, null, or (=, y, n) read differently from each other.
_COERCED = frozenset(["y", "n", "yes", "no", "true", "false", "on", "off", "null", "nan", "inf"])


@dataclass(frozen=True)
class Head:
    """The parsed front matter: values by key, and which lines each key takes up."""

    values: dict[str, Value]
    spans: dict[str, tuple[int, int]]
    end: int  # the line number of the closing fence, 0 where there is no front matter

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        if isinstance(value, list):
            raise BadFile(f"{key} takes one value, not a list", self.spans[key][0] + 1)
        return str(value)

    def integer(self, key: str) -> int:
        value = self.values.get(key, 0)
        if value == "":
            return 0
        if not isinstance(value, int):
            raise BadFile(f"{key} takes a whole number, not {value!r}", self.spans[key][0] + 1)
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        value = self.values.get(key, [])
        if value == "":
            return ()
        if isinstance(value, int):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(v, int) for v in value):
            raise BadFile(f"{key} takes a list of task numbers, like [1, 2]", self.spans[key][0] + 1)
        return tuple(dict.fromkeys(int(v) for v in value))


def split(text: str) -> tuple[list[str], int]:
    """The lines with their endings, and the index of the closing fence (0: no front matter)."""
    lines = text.split("\n")
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    if not lines or lines[0].removeprefix("\ufeff").rstrip() != FENCE:
        return lines, 0
    for number in range(1, len(lines)):
        if lines[number].rstrip() == FENCE:
            return lines, number
    raise BadFile("the front matter is not closed: a second line `---` is missing", 1)


def parse(text: str) -> Head:
    lines, end = split(text)
    values: dict[str, Value] = {}
    spans: dict[str, tuple[int, int]] = {}
    key = ""
    for number in range(1, end):
        line = lines[number].rstrip("\r\n").rstrip(" \t")
        if not line or line.lstrip(" \t").startswith("#"):
            continue
        try:
            if item := _ITEM.match(line):
                _add_item(values, key, item[1] or "")
                spans[key] = (spans[key][0], number + 1)
                continue
            key, value = _pair(line)
            if key in values:
                raise BadFile(f"{key} stands there twice")
            values[key] = value
            spans[key] = (number, number + 1)
        except BadFile as e:
            raise BadFile(e.reason, number + 1) from None
    return Head(values, spans, end)


def _pair(line: str) -> tuple[str, Value]:
    match = _KEY.match(line)
    if not match:
        raise BadFile("expected `key: value`")
    return match[1], _value(match[2] or "")


def _add_item(values: dict[str, Value], key: str, raw: str) -> None:
    held = values.get(key)
    if held == "":
        held = values[key] = []
    if not isinstance(held, list):
        raise BadFile("a list item that belongs to no key")
    held.append(_scalar(raw))


def _value(raw: str) -> Value:
    if not raw.startswith("["):
        return _scalar(raw)
    match = _FLOW.match(raw)
    if not match:
        raise BadFile("a list that is not closed: write [1, 2] on one line")
    return _flow(match[1])


def _flow(inner: str) -> list[Scalar]:
    items: list[Scalar] = []
    position = 0
    while inner.strip():
        match = _FLOW_ITEM.match(inner, position)
        if not match or not match[1]:
            raise BadFile(f"cannot read the list [{inner}]")
        items.append(_scalar(match[1]))
        position = match.end()
        if not match[2]:
            break
    return items


def _scalar(raw: str) -> Scalar:
    if _FORBIDDEN.search(raw):
        raise BadFile("a control character in the front matter")
    if raw[:1] in ("'", '"'):
        return _unquote(raw)
    value = _COMMENT.sub("", raw, count=1).rstrip(" \t")
    if not value:
        return ""
    if value[0] in "[]{}&*!|>%@`," or value in ("-", "?", "=") or value[:2] in ("- ", "? ", ": "):
        raise BadFile(f"a value that begins with {value[0]!r} needs quotes")
    if value.endswith(":") or ": " in value or ":\t" in value:
        raise BadFile("a value with a colon and a space needs quotes")
    return int(value) if _INT.match(value) else value


def _unquote(raw: str) -> str:
    match = _QUOTED.match(raw)
    if not match:
        raise BadFile("a quote that is not closed")
    quoted = match[1]
    if quoted[0] == "'":
        return quoted[1:-1].replace("''", "'")
    try:
        text = json.loads(quoted)
        text.encode()
    except (ValueError, UnicodeEncodeError):
        raise BadFile(f"cannot read {quoted[:40]}: inside double quotes the rules of JSON hold") from None
    return str(text)


def dump(value: Value) -> str:
    """A value as it is written: plain where every reader agrees, otherwise JSON-quoted."""
    if isinstance(value, list):
        return f"[{', '.join(dump(v) for v in value)}]"
    if isinstance(value, int) or not value:
        return str(value)
    if _PLAIN.match(value) and value.lower() not in _COERCED:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _FORBIDDEN.sub(lambda m: f"\\u{ord(m[0]):04x}", quoted)


def edit(text: str, changes: dict[str, Value | None]) -> str:
    """`text` with these keys set (None: taken away); every other byte as it was."""
    head = parse(text)
    lines, end = split(text)
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    if not end:
        lines = [FENCE + newline, FENCE + newline, *lines]
        end = 1
    out: dict[int, list[str]] = {}
    added: list[str] = []
    for key, value in changes.items():
        line = [] if value is None else [f"{key}: {dump(value)}".rstrip() + newline]
        if key in head.spans:
            start, stop = head.spans[key]
            out.update({number: [] for number in range(start, stop)})
            out[start] = line if value is None or head.values[key] != value else lines[start:stop]
        else:
            added += line
    kept = [piece for number in range(end) for piece in out.get(number, [lines[number]])]
    return "".join([*kept, *added, *lines[end:]])
