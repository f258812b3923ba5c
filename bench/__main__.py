"""Measure, and print one table. A target that is missed is shown there and is no failure."""

import argparse
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

from bench.agents import idling, waking
from bench.measures import claim, commands, contention, growth, mail, wake
from bench.timing import Row, shown
from bench.turns import prefix, turn

OF_THE_LEDGER = (claim, contention, commands, wake, mail, growth)
OF_THE_AGENTS = (waking, idling, prefix, turn)
MEASURES = {measure.__name__: measure for measure in (*OF_THE_LEDGER, *OF_THE_AGENTS)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=MEASURES, help="measure this; may be given several times")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the figures there, too")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="gitteam-bench-", ignore_cleanup_errors=True) as directory:
        scratch = Path(directory)
        _set_environment(scratch)
        try:
            for name in options.only or MEASURES:
                print(f"measuring {name} …", file=sys.stderr)
                rows += MEASURES[name](scratch / name)
        finally:
            print(_table(rows))
    if options.json:
        values = [{**asdict(row), "ratio": row.ratio, "verdict": row.verdict} for row in rows]
        options.json.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def _set_environment(scratch: Path) -> None:
    """git with its defaults; Python with its bytecode kept, as an installed package has it."""
    for key in [key for key in os.environ if key.startswith(("GIT_", "GITTEAM_", "XDG_", "PYTHONDONTWRITE"))]:
        del os.environ[key]
    (scratch / ".gitconfig").write_text("[user]\n\tname = Jane Doe\n\temail = jane@example.com\n")
    os.environ.update(HOME=str(scratch), GIT_CONFIG_NOSYSTEM="1", PYTHONPYCACHEPREFIX=str(scratch / "bytecode"))


def _table(rows: list[Row]) -> str:
    lines = [("measure", "reference", "ours", "reference", "ratio", "target", "", "beside")]
    for row in rows:
        figures = shown(median(row.ours), row.unit), shown(median(row.theirs), row.unit), f"{row.ratio:.2f}"
        lines.append((row.measure, row.reference, *figures, row.target, row.verdict, row.beside))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    form = "  ".join(f"{{:{side}{width}}}" for side, width in zip("<<>>>><<", widths, strict=True))
    where = f"medians, Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()}"
    return "\n".join([*(form.format(*line).rstrip() for line in lines), where])


if __name__ == "__main__":
    main()
