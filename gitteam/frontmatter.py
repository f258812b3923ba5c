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
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?: +(.*))?\Z")
_ITEM = re.compile(r"( *)-(?: +(.*))?\Z")
_INT = re.compile(r"(?:0|-?[1-9][0-9]{0,17})\Z")
_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\')(?: *(?<= )#.*)?\Z')
_FLOW = re.compile(r"\[(.*)\](?: *(?<= )#.*)?\Z")
_FLOW_ITEM = re.compile(r""" *("(?:[^"\\]|\\.)*+"|'(?:[^']|'')*+'|(?!:)(?:[^,"'\[\]{}?#:]|:(?![ ,]|\Z))*+) *(,|\Z)""")
_COMMENT = re.compile(r"(?:\A|(?<= ))#.*")
# Tabs too: YAML tools disagree about where they may stand.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]")
_PLAIN = re.compile(r"[^\W\d_](?:[\w ./()+,'!?=&;-]*[\w./()+!?])?\Z")
_WORD = re.compile(r"[A-Za-z][\w-]*\Z", re.ASCII)  # what needs no quotes in a list either
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
    key, indent = "", None  # the key that block items may follow, and how far they are indented
    for number in range(1, end):
        line = lines[number].rstrip("\n").removesuffix("\r").rstrip(" ")
        start = line.lstrip(" ")[:1]
        try:
            if not line.isprintable() and _FORBIDDEN.search(line):
                raise BadFile("a control character or a tab in the front matter")
            if not line or start == "#":
                continue
            if start == "-" and (item := _ITEM.match(line)):
                if not key or indent not in (None, item[1]):
                    raise BadFile("a list item that belongs to no key")
                indent = item[1]
                held = values[key]
                values[key] = [*(held if isinstance(held, list) else []), _scalar(item[2] or "")]
                spans[key] = (spans[key][0], number + 1)
                continue
            name, raw = _pair(line)
            if name in values:
                raise BadFile(f"{name} stands there twice")
            values[name] = _value(raw)
            spans[name] = (number, number + 1)
            key, indent = name if raw[:1] in ("", "#") else "", None
        except BadFile as e:
            raise BadFile(e.reason, number + 1) from None
    return Head(values, spans, end)


def _pair(line: str) -> tuple[str, str]:
    match = _KEY.match(line)
    if not match:
        raise BadFile("expected `key: value`")
    return match[1], match[2] or ""


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
    while inner.strip(" "):
        match = _FLOW_ITEM.match(inner, position)
        if not match or not match[1].strip(" "):
            raise BadFile(f"cannot read the list [{inner[:40]}]")
        items.append(_scalar(match[1].rstrip(" ")))
        position = match.end()
        if not match[2]:
            break
    return items


def _scalar(raw: str) -> Scalar:
    if raw[:1] in ("'", '"'):
        return _unquote(raw)
    value = (_COMMENT.sub("", raw, count=1) if "#" in raw else raw).rstrip(" ")
    if not value:
        return ""
    if value[0] in "[]{}&*!|>%@`," or value in ("-", "?", "=") or value[:2] in ("- ", "? ", ": "):
        raise BadFile(f"a value that begins with {value[0]!r} needs quotes")
    if value.endswith(":") or ": " in value:
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
        if not _SURROGATE.search(quoted):
            return str(json.loads(quoted))
    except ValueError:
        pass
    raise BadFile(f"cannot read {quoted[:40]}: inside double quotes the rules of JSON hold")


def dump(value: Value) -> str:
    """A value as it is written: plain where every reader agrees, otherwise JSON-quoted."""
    if isinstance(value, list):
        return f"[{', '.join(dump(v) if isinstance(v, int) or _WORD.match(v) else _quote(v) for v in value)}]"
    if isinstance(value, int) or not value:
        return str(value)
    if _PLAIN.match(value) and value.lower() not in _COERCED:
        return value
    return _quote(value)


def _quote(value: str) -> str:
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
            if value is not None and head.values[key] == value:
                continue
            out.update({number: _comments(lines[number]) for number in range(start + 1, stop)})
            comment = _trailing_comment(lines[start])
            out[start] = [line[0].rstrip() + comment + newline] if line else []
        else:
            added += line
    kept = [piece for number in range(end) for piece in out.get(number, [lines[number]])]
    return "".join([*kept, *added, *lines[end:]])


def _comments(line: str) -> list[str]:
    return [line] if line.lstrip(" ").startswith("#") else []


def _trailing_comment(line: str) -> str:
    """What a person wrote behind a value; it outlives the value."""
    pair = _KEY.match(line.rstrip("\r\n "))
    raw = (pair[2] or "") if pair else ""
    if quoted := _QUOTED.match(raw):
        raw = raw[quoted.end(1) :]
    elif raw.startswith("["):
        raw = raw[raw.rindex("]") + 1 :]
    found = _COMMENT.search(raw)
    return " " + found[0] if found else ""
