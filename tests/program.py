"""The program called in this process: the same words, the same output, without the cost of starting Python."""

from __future__ import annotations

import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from conftest import Result

from gitteam import cli


def call(cwd: Path | str, *words: str) -> Result:
    """Like `conftest.gitteam`, in the directory `cwd`, which need not be the current one."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.run(["-C", str(cwd), *words])
    assert "a bug in gitteam" not in err.getvalue(), err.getvalue()
    return Result(subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue()))
