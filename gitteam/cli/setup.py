"""Making a team, removing it, and completion for the shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gitteam import layout, setup
from gitteam.cli.common import Command, Shell, heading, hint, pass_shell, visible_line
from gitteam.errors import GitteamError
from gitteam.team import Team


@click.command(cls=Command)
@click.option("--name", metavar="TEAM", help="The team's name; the directory's, if not given.")
@click.option("--branch", metavar="BRANCH", help="Where the history goes. The branch you are on: files tracked there.")
@pass_shell
def init(shell: Shell, name: str | None, branch: str | None) -> None:
    """Make a team in this repository. Safe to repeat.

    \b
    gitteam init
    gitteam init --branch main      # the board as ordinary tracked files on main
    """
    made = Team.init(shell.directory, name, branch)
    config = made.config
    data = {"team": config.name, "branch": config.branch, "created": made.created, "tracked": made.tracked}
    shell.print(
        data, f"{'started' if made.created else 'found'} team {heading(config.name)}, history on branch {config.branch}"
    )
    if shell.as_json:
        return
    if made.excluded:
        hint(".team/ and .tasks/ are kept out of your branches by .git/info/exclude; nothing else was changed")
    hint("try:")
    for line in ('gitteam task add "Fix the login page"', "gitteam member add alice --role backend", "gitteam"):
        hint(f"  {line}")


@click.command(cls=Command)
@click.option("--history", is_flag=True, help="Delete the branch with the history too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_shell
def uninstall(shell: Shell, history: bool, yes: bool) -> None:
    """Take away everything `init` put here. The branch stays, unless --history.

    \b
    gitteam uninstall
    """
    place = layout.find(shell.directory)
    what = "the board, the inboxes and all of the history" if history else "the board and the inboxes"
    if not yes and (shell.as_json or not _confirmed(f"remove {what} from {visible_line(place.root)}?")):
        raise GitteamError("nothing was removed: say --yes" if shell.as_json else "nothing was removed")
    tracked = layout.read_branch(place)[1]
    branch, kept = setup.uninstall(place, history)
    for path in kept:
        hint(f"left, because it is in no history: {path}")
    left = f"; the history stays on branch {branch}: `git branch -D {branch}` deletes it" if not history else ""
    if tracked:
        left = f" with a commit on {branch}; `git revert HEAD` brings it back"
    shell.print({"removed": True, "branch": None if history else branch, "left": kept}, f"removed{left}")


def _confirmed(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort as e:
        if isinstance(e.__context__, EOFError):  # nobody there to answer
            return False
        raise


@click.command(cls=Command)
@click.argument("shell_name", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell_name: str) -> None:
    """Print a completion script for your shell.

    \b
    eval "$(gitteam completion bash)"
    """
    from gitteam.cli import cli

    kind = get_completion_class(shell_name)
    assert kind is not None
    click.echo(kind(cli, {}, "gitteam", "_GITTEAM_COMPLETE").source())
