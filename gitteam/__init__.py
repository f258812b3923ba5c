"""A team of agents, scripts and people inside any git repository, with plain files as the only protocol."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gitteam.errors import GitteamError
    from gitteam.records import Member, Message, Task
    from gitteam.team import Team

__all__ = ["GitteamError", "Member", "Message", "Task", "Team", "__version__"]
__version__ = "0.1.0"

_HOMES = {"GitteamError": "errors", "Member": "records", "Message": "records", "Task": "records", "Team": "team"}


def __getattr__(name: str) -> Any:
    # Loaded on first use, so that `gitteam --help` does not pay for what it does not need.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"gitteam.{_HOMES[name]}"), name)
    raise AttributeError(name)
