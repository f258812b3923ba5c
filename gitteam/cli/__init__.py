"""The command line. click lives in this package only; every command parses, calls `Team`, and prints."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from gitteam import __version__
from gitteam.cli.common import Shell, dump_json, visible_line
from gitteam.errors import GitteamError

# Loaded when used: most commands need only their own module.
_COMMANDS = {
    "init": "setup", "member": "member", "task": "task", "send": "mail", "broadcast": "mail", "inbox": "mail",
    "wait": "mail", "run": "lead", "chat": "chat", "up": "agents", "join": "agents", "stop": "agents",
    "approve": "agents", "reject": "agents", "demo": "demo", "status": "report", "watch": "watch", "log": "report",
    "usage": "usage", "doctor": "report", "completion": "setup", "uninstall": "setup",
}  # fmt: skip


class _Commands(click.Group):
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in _COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            ctx.fail(f"No such command {args[0]!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        import importlib

        module = importlib.import_module(f"gitteam.cli.{_COMMANDS[name]}")
        command: click.Command = getattr(module, name)
        return command


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-C", "directory", metavar="DIR", help="Act as if started in DIR.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.version_option(__version__, message="gitteam %(version)s")
@click.pass_context
def cli(ctx: click.Context, directory: str | None, as_json: bool) -> None:
    """A team inside any git repository: tasks and messages are plain files, every change is a commit.

    \b
    gitteam init                               make a team here
    gitteam task add "Fix the login page"      put a task on the board
    gitteam task                               look at the board
    gitteam task claim --as alice              take the next task
    git log --oneline gitteam                  read the diary
    """
    ctx.obj = Shell(directory, as_json)
    if ctx.invoked_subcommand is None:
        from gitteam.cli.report import overview

        overview(ctx.obj)


def main(args: list[str] | None = None) -> None:
    words = sys.argv[1:] if args is None else args
    sys.exit(run(words))


def run(words: list[str]) -> int:
    """Run one command; the one place where errors become a line and an exit code."""
    try:
        result = cli.main(words, prog_name="gitteam", standalone_mode=False, color=_color())
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except GitteamError as e:
        return _fail(words, e.kind, str(e), e.exit_code)
    except click.exceptions.NoArgsIsHelpError as e:
        click.echo(e.ctx.get_help() if e.ctx else str(e), err=True)
        return 2
    except click.ClickException as e:
        what = e.format_message().rstrip(".")
        if isinstance(e, click.UsageError) and e.ctx:
            what += f"{' See' if what.endswith('?') else '; see'} `{e.ctx.command_path} --help`"
        return _fail(words, "usage", what, e.exit_code)
    except click.Abort:
        return _interrupted()  # click has ended the line already
    except KeyboardInterrupt:
        click.echo(err=True)
        return _interrupted()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python complains once more while it ends
        return 1
    except OSError as e:
        what = e.strerror or type(e).__name__
        return _fail(words, "system", f"{e.filename}: {what}" if e.filename else what, 1)
    except Exception as e:
        return _fail(
            words, "bug", f"a bug in gitteam: {type(e).__name__}: {e}; the details are in {_save_traceback()}", 1
        )


def _interrupted() -> int:
    # Python remembers an interrupt that passed through an `exec` of a text, as in a lazy import, and dies of it at its
    # very end although it was caught. Any further such text makes it forget.
    eval("0")
    return 130


def _color() -> bool | None:
    """None leaves it to click, which looks whether there is a terminal but not at NO_COLOR."""
    return False if os.environ.get("NO_COLOR") else None


def _fail(words: list[str], kind: str, message: str, code: int) -> int:
    line = visible_line(message)
    if "--json" in words:
        click.echo(dump_json({"error": {"kind": kind, "message": line, "exit": code}}), err=True)
    else:
        click.echo(f"{click.style('gitteam:', fg='red')} {line}", err=True, color=_color())
    return code


def _save_traceback() -> str:
    import tempfile
    import time
    import traceback

    path = os.path.join(tempfile.gettempdir(), f"gitteam-{os.getpid()}-{int(time.time())}.log")
    with open(path, "w", encoding="utf-8") as f:
        traceback.print_exc(file=f)
    return path
