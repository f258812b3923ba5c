"""Measure and print one table. A target that is missed is shown, not raised."""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.boards import board
from bench.claims import claim, contention
from bench.commands import commands, growth, wake
from bench.mail import mail
from bench.timing import Row, shown

MEASURES = {
    "claim": claim, "contention": contention, "commands": commands, "wake": wake, "mail": mail, "growth": growth,
}  # fmt: skip
HEADINGS = ("measure", "reference", "ours", "reference", "ratio", "target", "")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=MEASURES, metavar="NAME", help=", ".join(MEASURES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the figures there")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gitteam-bench-", ignore_cleanup_errors=True) as directory:
        rows = _measure(Path(directory), chosen.only or list(MEASURES))
    print(_table(rows))
    if chosen.json:
        chosen.json.write_text(json.dumps([_values(row) for row in rows], indent=2, ensure_ascii=False) + "\n")


def _measure(scratch: Path, names: list[str]) -> list[Row]:
    _clean_environment(scratch)
    large = functools.cache(lambda: board(scratch / "large", 10_000, finished=9_500, commits_each=5))
    rows: list[Row] = []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr)
        (scratch / name).mkdir()
        rows += MEASURES[name](scratch / name, large)
    return rows


def _clean_environment(scratch: Path) -> None:
    """git with its defaults and a known person; Python with its bytecode kept, as an installed package has it."""
    for key in [k for k in os.environ if k.startswith(("GIT_", "GITTEAM_", "XDG_"))]:
        del os.environ[key]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    (scratch / "home").mkdir()
    (scratch / "home" / ".gitconfig").write_text("[user]\n\tname = Jane Doe\n\temail = jane@example.com\n")
    os.environ.update(
        HOME=str(scratch / "home"), GIT_CONFIG_NOSYSTEM="1", PYTHONPYCACHEPREFIX=str(scratch / "bytecode"),
    )  # fmt: skip


def _table(rows: list[Row]) -> str:
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    lines = []
    for line, beside in zip(cells, ["", *(row.beside for row in rows)], strict=True):
        padded = [text.ljust(w) if i in (0, 1, 6) else text.rjust(w) for i, (text, w) in enumerate(zip(line, widths))]
        lines.append("  ".join([*padded, beside]).rstrip())
    git = subprocess.run(["git", "version"], capture_output=True, text=True, check=True).stdout.split()[2]
    lines.append(f"medians; Python {platform.python_version()}, git {git}, {os.cpu_count()} cores, {platform.platform()}")
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    figures = shown(row.ours, row.unit), shown(row.theirs, row.unit), f"{row.ratio:.2f}"
    return row.measure, row.reference, *figures, row.target, row.verdict


def _values(row: Row) -> dict[str, object]:
    return {**asdict(row), "ratio": row.ratio, "verdict": row.verdict}


if __name__ == "__main__":
    main()
