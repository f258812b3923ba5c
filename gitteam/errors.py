"""Everything that can go wrong in an expected way, each with its exit code.

A message is one line: what, why, and the next thing to do. It is phrased where it
is raised and printed in one place (`gitteam.cli.run`).
"""


class GitteamError(Exception):
    """An expected problem. `kind` is its name in JSON, `exit_code` the command's."""

    kind = "failure"
    exit_code = 1


class NoTeam(GitteamError):
    """There is no repository, or no team in it."""

    kind = "no-team"


class Refused(GitteamError):
    """The repository is in a state in which nothing may be written."""

    kind = "refused"


class BadInput(GitteamError):
    """A value does not fit its grammar."""

    kind = "usage"
    exit_code = 2


class NotFound(GitteamError):
    """An id or a name is unknown."""

    kind = "not-found"
    exit_code = 3


class NothingToDo(GitteamError):
    """Nothing can be claimed, or nothing came in time."""

    kind = "nothing"
    exit_code = 3


class Conflict(GitteamError):
    """Somebody else was first, or the present state forbids it."""

    kind = "conflict"
    exit_code = 4


class LockTimeout(GitteamError):
    """Another process has held the lock for too long."""

    kind = "locked"
    exit_code = 5


class ToolFailed(GitteamError):
    """A tool could not do what it was asked; the model is told why."""


class BadFile(Exception):
    """A file a person wrote cannot be read; it is reported and left alone."""

    def __init__(self, reason: str, line: int | None = None):
        self.reason = reason if len(reason) <= 200 else reason[:200] + "…"  # it may quote what somebody wrote
        self.line = line
        super().__init__(f"line {line}: {self.reason}" if line else self.reason)
