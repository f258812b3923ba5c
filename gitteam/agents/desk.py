"""What a member has before it while it works: who it is, where it works, and on what."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from gitteam import hooks, layout, mail, requests, skills
from gitteam.agents.account import Account
from gitteam.change import Change
from gitteam.errors import BadInput
from gitteam.hooks import Hooks
from gitteam.records import Member, Message, Task
from gitteam.roster import Config
from gitteam.skills import Skill
from gitteam.team import Team
from gitteam.workplace import Workplace
from gitteam.workplace.background import Background


@dataclass
class Desk:
    """One member's; its tools act through this and nothing else."""

    team: Team
    member: Member
    run: str  # the life its claims are tied to
    stop: threading.Event  # the team is stopping: whatever takes long ends now
    account: Account | None = None  # what its calls are paid from
    warn: Callable[[str], None] = print  # for whoever looks on
    task: Task | None = None  # the one it holds
    piece: str = ""  # this piece of work, where there is no task
    may_wait: bool = True  # False while it is known that no plan of its waits for a decision
    ending: str = ""  # "idle" or "stopping", when a tool has ended the work
    read: list[Message] = field(default_factory=list)  # what read_inbox has shown since the last answer
    shown: set[str] = field(default_factory=set)  # ids the conversation has already

    def __post_init__(self) -> None:
        self.workplace = Workplace(self.team.place.root, self._spill)
        self.background = self._new_background()
        self._warned_of = ""
        self.skills: list[Skill] = skills.find(self.team.place.root)[0]

    @property
    def _spill(self) -> str:
        return os.path.join(self.team.place.outputs, self.name)

    def _new_background(self) -> Background:
        return Background(self.team.place.root, self._spill, self._background_ended)

    def close(self) -> None:
        """Nothing of this member's goes on running."""
        self.background.close()

    def _background_ended(self, command: str, sentence: str) -> None:
        """A word into its own inbox: that wakes it, and is not lost when it dies."""

        def tell(change: Change) -> None:
            mail.post(change, self.name, sentence, "message")
            change.story.tell("sent", f"gitteam tells {self.name}: {mail.preview(sentence)}")

        self.team.ledger.change(layout.SYSTEM, tell)

    @property
    def name(self) -> str:
        return self.member.name

    @property
    def work(self) -> str:
        """What a plan is approved for: this claim of this task, or this piece of work."""
        return f"{self.task.id}/{self.task.claim}" if self.task else self.piece

    def objection(self, event: str, **facts: object) -> str:
        """What a user's hook has against this event, or ""."""
        config = self.team.config()
        found = self._hooks(config)
        if not found.get(event) or not hooks.allowed(self.team.place, found):
            return ""
        payload = {"event": event, "team": config.name, "member": self.name, **facts}
        return hooks.run(found, event, payload, self.team.place.root, self.warn, self.stop)

    def _hooks(self, config: Config) -> Hooks:
        """None where the setting is broken: what is wrong is said once, and keeps nobody from working."""
        try:
            return hooks.parse(config.settings)
        except BadInput as e:
            if str(e) != self._warned_of:
                self._warned_of = str(e)
                self.warn(f"hooks are passed over: {e}")
            return {}

    def totals(self, task: int) -> dict[str, str]:
        """What a task took, for the commit that completes it."""
        return self.account.task_totals(task) if self.account else {}

    def begin_piece(self, task: Task | None) -> None:
        if self.member.plan and self.background.is_busy:
            self._stop_commands()
        self.task, self.piece, self.ending, self.may_wait = task, os.urandom(4).hex(), "", True

    def _stop_commands(self) -> None:
        """An approval is for one piece of work, and so is what was started under it."""
        self.background.close()
        self.background = self._new_background()
        self._background_ended("", "Your commands in the background were stopped: what they were approved for is over.")

    def may_change_things(self) -> bool:
        if not self.member.plan:
            return True
        return requests.is_approved(self.team.requests(), self.name, self.work)

    def waits_for_approval(self) -> bool:
        if self.may_wait:  # asked after every turn, and most members never hand in a plan
            self.may_wait = requests.is_waiting(self.team.requests(), self.name, self.work)
        return self.may_wait
