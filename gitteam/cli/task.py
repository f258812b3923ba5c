"""`gitteam task`: the board and what can be done with a task."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator

import click

from gitteam.board import open_first
from gitteam.cli.common import (
    TASK_ID,
    Group,
    Shell,
    acting,
    complete_name,
    complete_task,
    dim,
    fit,
    heading,
    pass_shell,
    person,
    read_text,
    screen_width,
    task_argument,
    visible_line,
    width,
)  # fmt: skip
from gitteam.errors import Conflict, GitteamError
from gitteam.records import COMPLETED, FAILED, FINISHED, IN_PROGRESS, PENDING, STATUSES, Task
from gitteam.render import visible

# How many finished tasks the board shows before it only counts them.
FINISHED_SHOWN = 5


@click.group(cls=Group)
def task() -> None:
    """The board. Without a subcommand: list.

    \b
    gitteam task
    gitteam task add "Design the schema" --blocked-by 1 -d "Types, queries, mutations"
    gitteam task claim --as alice
    gitteam task done 1 --as alice -m "12 endpoints, see docs/rest.md"
    """


@task.command("list")
@click.option("--all", "everything", is_flag=True, help="Also what was finished long ago.")
@click.option("--ready", is_flag=True, help="Only what can be claimed now.")
@click.option("--status", type=click.Choice(STATUSES), help="Only tasks with this status.")
@click.option("--owner", metavar="NAME", shell_complete=complete_name, help="Only this member's tasks.")
@pass_shell
def list_(shell: Shell, everything: bool, ready: bool, status: str | None, owner: str | None) -> None:
    """Show the board: in progress, ready, blocked, done.

    \b
    gitteam task list --ready --json
    """
    tasks = shell.team.tasks(finished=everything)
    chosen = [
        t for t in tasks
        if (not ready or t.ready) and (not status or t.status == status) and (not owner or t.owner == owner)
    ]  # fmt: skip
    filtered = bool(ready or status or owner)
    limit = len(chosen) if everything or filtered else FINISHED_SHOWN
    shell.print(lambda: [t.to_json() for t in chosen], _board(chosen, limit, filtered))


def _board(tasks: list[Task], finished_shown: int, filtered: bool) -> Iterator[str]:
    if not tasks:
        yield "no such task" if filtered else 'no tasks yet: gitteam task add "What has to be done"'
        return
    unfinished = [t for t in tasks if t.status not in FINISHED]
    finished = [t for t in tasks if t.status in FINISHED]
    shown = finished[-finished_shown:] if finished_shown else []
    hidden = len(finished) - len(shown)
    columns = max(len(str(t.id)) for t in tasks)
    longest = max(width(visible_line(t.subject)) for t in tasks)
    section = ""
    screen = screen_width()
    for item in open_first([*unfinished, *shown]):
        if _section(item) != section:
            section = _section(item)
            yield heading(section)
        yield _row(item, columns, longest, screen)
    if hidden:
        yield dim(f"  and {hidden} more finished: gitteam task --all")


def _section(task: Task) -> str:
    if task.status == PENDING:
        return "ready" if task.ready else "blocked"
    return {IN_PROGRESS: "in progress", FAILED: "failed"}.get(task.status, "done")


def _row(task: Task, columns: int, longest: int, screen: int) -> str:
    detail = {IN_PROGRESS: task.owner, COMPLETED: task.owner}.get(task.status, task.reason or task.status)
    if task.ready:
        detail = " ".join(
            [task.role and f"for {task.role}", (task.priority and f"priority {task.priority}") or ""]
        ).strip()
    room = screen - columns - 5
    detail = visible_line(detail).removeprefix("blocked ")[: room // 2]
    subject = fit(task.subject, min(longest, room - len(detail) - 2))
    mark = f"#{task.id}".rjust(columns + 1)
    colored = person(detail) if task.status in (IN_PROGRESS, COMPLETED) and detail else dim(detail)
    return f"  {mark}  {subject}  {colored}" if detail else f"  {mark}  {subject}".rstrip()


def _tell(shell: Shell, task: Task) -> None:
    shell.print(task.to_json(), f"{task.id} {visible_line(task.subject)}")


@task.command()
@click.argument("subject")
@click.option("-d", "--description", default="", help="What exactly; `-` reads it from standard input.")
@click.option(
    "--blocked-by",
    metavar="ID",
    type=TASK_ID,
    multiple=True,
    shell_complete=complete_task,
    help="What has to be done first.",
)
@click.option("--role", default="", help="Only members of this role claim it by themselves.")
@click.option("--priority", type=int, default=0, help="Higher goes first; 0 if not given.")
@acting
@pass_shell
def add(
    shell: Shell, subject: str, description: str, blocked_by: tuple[int, ...], role: str, priority: int, by: str
) -> None:
    """Put a task on the board.

    \b
    gitteam task add "Design the schema" --blocked-by 1 -d "Types, queries, mutations"
    """
    text = read_text(description)
    _tell(shell, shell.team.add(subject, text, blocked_by=blocked_by, role=role, priority=priority, by=by))


@task.command()
@task_argument()
@pass_shell
def show(shell: Shell, number: int) -> None:
    """Show one task.

    \b
    gitteam task show 2
    """
    found = shell.team.task(number)
    shell.print(found.to_json(), _sheet(found))


def _sheet(task: Task) -> Iterator[str]:
    yield heading(f"#{task.id}  {visible_line(task.subject)}")
    status = "ready" if task.ready else task.status.replace("_", " ")
    facts = {
        status: True, f"by {task.owner}": task.owner, visible_line(task.reason): task.reason,
        f"for {task.role}": task.role, f"priority {task.priority}": task.priority,
        f"{task.attempts} failed attempts": task.attempts,
    }  # fmt: skip
    yield "  " + ", ".join(fact for fact, holds in facts.items() if holds)
    yield dim(f"  {visible_line(task.path)}")
    for text in (task.description, task.notes):
        if text:
            yield ""
            yield from (f"  {visible(line)}".rstrip() for line in text.splitlines())


@task.command()
@task_argument()
@acting
@pass_shell
def edit(shell: Shell, number: int, by: str) -> None:
    """Open a task in $EDITOR; what you save is taken in.

    \b
    EDITOR=nano gitteam task edit 2
    """
    shell.team.config().member(by)
    found = shell.team.task(number)
    path = shell.team.place.at(found.path)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise GitteamError(f"set EDITOR to open it, or edit {path} in any program")
    try:
        code = subprocess.run([*shlex.split(editor), path]).returncode
    except (FileNotFoundError, ValueError):
        raise GitteamError(f"cannot run {editor!r}: set EDITOR to your editor") from None
    shell.team.take_in(found.path, by=by)
    if code:
        raise GitteamError(f"{editor} ended with exit code {code}; what it saved is taken in all the same")
    found = shell.team.task(number)
    if trouble := shell.team.board().troubles.get(found.path):
        raise Conflict(f"{found.path}: {trouble}; the task stays as it was until that is mended")
    _tell(shell, found)


@task.command()
@task_argument(required=False)
@acting
@pass_shell
def claim(shell: Shell, number: int | None, by: str) -> None:
    """Take a task: this one, or the next there is. Exit 3: nothing to claim. Exit 4: not yours to claim.

    \b
    gitteam task claim --as alice
    """
    _tell(shell, shell.team.claim(number, by=by))


_fence = click.option("--claim", type=int, metavar="N", help="Only if this still is the current claim.")


@task.command()
@task_argument()
@click.option("-m", "--message", default="", help="Why, for the task's notes; `-` reads standard input.")
@click.option("--force", is_flag=True, help="Also somebody else's, or one that is finished. It is recorded.")
@_fence
@acting
@pass_shell
def release(shell: Shell, number: int, message: str, force: bool, claim: int | None, by: str) -> None:
    """Hand a task back to the board.

    \b
    gitteam task release 2 --as alice -m "needs access to the staging server"
    """
    _tell(shell, shell.team.release(number, read_text(message), by=by, claim=claim, force=force))


@task.command()
@task_argument()
@click.option("-m", "--message", default="", help="The result, for the task's notes; `-` reads standard input.")
@_fence
@acting
@pass_shell
def done(shell: Shell, number: int, message: str, claim: int | None, by: str) -> None:
    """Complete a task.

    \b
    gitteam task done 1 --as alice -m "12 endpoints, see docs/rest.md"
    """
    _tell(shell, shell.team.done(number, read_text(message), by=by, claim=claim))


@task.command(short_help="Write a line under a task's notes.")
@task_argument()
@click.argument("text")
@acting
@pass_shell
def note(shell: Shell, number: int, text: str, by: str) -> None:
    """Write a line under a task's notes; `-` reads it from standard input.

    \b
    gitteam task note 2 "pagination is still open" --as bob
    """
    _tell(shell, shell.team.note(number, read_text(text), by=by))


@task.command()
@task_argument()
@click.option(
    "--by",
    "on",
    metavar="ID",
    type=TASK_ID,
    required=True,
    shell_complete=complete_task,
    help="What has to be done first.",
)
@acting
@pass_shell
def block(shell: Shell, number: int, on: int, by: str) -> None:
    """Make a task wait for another.

    \b
    gitteam task block 3 --by 2
    """
    _tell(shell, shell.team.block(number, on, by=by))


@task.command()
@task_argument()
@click.option("-m", "--message", default="", help="Why, for the task's notes; `-` reads standard input.")
@acting
@pass_shell
def cancel(shell: Shell, number: int, message: str, by: str) -> None:
    """Take a task off the board. It stays in the history.

    \b
    gitteam task cancel 3 -m "the old page stays"
    """
    _tell(shell, shell.team.cancel(number, read_text(message), by=by))
