"""One member's life: work, rest, find the next work, and end in order."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from threading import Event

from gitteam import layout, mail, moves, requests, roster
from gitteam.agents import words
from gitteam.agents.account import BudgetReached
from gitteam.agents.agent import Agent, GaveUp
from gitteam.agents.conversation import Conversation
from gitteam.agents.desk import Desk
from gitteam.agents.envelope import OUTPUT, envelope, task_text
from gitteam.agents.gate import Stopped
from gitteam.agents.model import Hopeless, Model
from gitteam.agents.settings import Settings
from gitteam.agents.wake import Bell
from gitteam.change import Change
from gitteam.errors import Conflict, GitteamError, NothingToDo
from gitteam.liveness import Life
from gitteam.records import Task
from gitteam.team import Team
from gitteam.tools import Toolbox, aids, team, work

# After so many pieces of work in a row that were only talk among members, only the lead or the person wakes one.
TALK_LIMIT = 10

OBJECTIONS = 3  # how often in a row a hook can keep a member from going idle

TIMEOUT, ASKED, STOPPED, FAILED = "timeout", "asked", "stopped", "failed"


class Teammate:
    """A member that lives in this process. `live` returns why it ended."""

    toolbox = Toolbox([*work.TOOLS, *team.TOOLS, *aids.TOOLS])

    def __init__(
        self, team: Team, name: str, model: Model, settings: Settings, bell: Bell, stop: Event,
        say: Callable[[str, str], None],
    ):  # fmt: skip
        self.team, self.name, self.model, self.settings = team, name, model, settings
        self.bell, self.stop = bell, stop
        self._tell_watcher = say
        self._talked = 0  # pieces of work in a row that were only talk
        self._interrupted = False  # it has been told something in an earlier life and has not answered
        self._objections = 0  # of hooks, in a row, to its going idle
        self._has_news = False  # it has worked since it last told the lead that it is idle
        self.failure = ""
        self.known: frozenset[str] = frozenset()  # messages it had in its last life that may still be in its inbox

    def live(self) -> str:
        place = self.team.place
        with Life(place, self.name) as life:
            member = self.team.config().member(self.name)
            self.desk = Desk(self.team, member, life.run, self.stop, self.model.account, self._say)
            conversation = Conversation(os.path.join(place.transcripts, f"{self.name}.jsonl"))
            self._interrupted = conversation.is_unanswered
            try:
                self._commit(self._joins)
                self.agent = Agent(
                    self.desk, conversation, self.toolbox, self.model, self.settings, self.bell, self._say,
                    words.system_prompt(self.team.config(), member, self.desk.skills),
                )  # fmt: skip
                return self._days()
            finally:
                self.known = frozenset(conversation.delivered)
                self.desk.close()
                conversation.close()

    @property
    def is_quiet(self) -> bool:
        """Whether it has talked so much that only the lead and the person wake it."""
        return self._talked >= TALK_LIMIT

    def _say(self, text: str) -> None:
        self._tell_watcher(self.name, text)

    def _commit(self, move: Callable[[Change], None]) -> None:
        self.team.change(self.name, move)

    # -- day by day ---------------------------------------------------------------------------

    def _days(self) -> str:
        meant: int | None = None
        try:
            while True:
                if self.stop.is_set():
                    raise Stopped
                if self._find_work(meant) or self._is_kept_busy():
                    meant = None
                    self._work()
                    if self.desk.ending == "stopping":
                        return self._end(ASKED, "asked to")
                    continue
                found, meant = self._rest()
                if not found:
                    return self._end(TIMEOUT, "nothing to do")
        except Stopped:
            return self._end(STOPPED, "the team is stopping")
        except (Hopeless, BudgetReached) as e:
            self.failure = str(e)
            self._end(FAILED, str(e))
            return FAILED

    def _find_work(self, meant: int | None) -> bool:
        """Own open task, then messages, then a task that is ready, then what a restart interrupted.

        What it is goes into the conversation.
        """
        files, board = self.team.look()
        held = board.held_by(self.name)
        inbox = mail.read_inbox(files, self.name)
        self.agent.conversation.keep_delivered({m.id for m in inbox})
        unread = [m for m in inbox if m.id not in self.agent.conversation.delivered]
        senders = {m.sender for m in unread}
        interrupted, self._interrupted = self._interrupted, False
        if not held and unread and not self._ignores(senders):
            return self._talk(senders)
        number = held[0].id if held else meant
        if (number is not None or board.next_for(self.desk.member)) and self._take(number):
            return True
        return interrupted and self._talk(set())

    def _talk(self, senders: set[str]) -> bool:
        self.desk.begin_piece(None)
        self._commit(self._begins)
        self._talked += 1 if senders & self.team.config().members.keys() else -self._talked
        return True

    def _ignores(self, senders: set[str]) -> bool:
        return self.is_quiet and not senders & {layout.LEAD, layout.USER}

    def _take(self, number: int | None) -> bool:
        try:
            task = self.team.change(self.name, lambda c: self._claims(c, number))
        except (Conflict, NothingToDo):
            return False  # somebody else was quicker
        except GitteamError as e:
            self._say(str(e))
            return False
        self.desk.begin_piece(task)
        self.agent.conversation.tell(_handed_over(task))
        self._talked = 0
        return True

    def _work(self) -> None:
        self.bell.leave_to_others(self.name)
        self._has_news = True
        try:
            self.agent.work()
        except GaveUp as e:
            reason = str(e)
            self._commit(lambda c: self._gives_up(c, reason))
        else:
            if self.agent.last_text:
                self._commit(self._reports)
        if self._talked == TALK_LIMIT:
            self._commit(self._falls_silent)

    def _is_kept_busy(self) -> bool:
        """Whether a user's hook wants something done before it goes idle; it is heard so many times in a row."""
        objection = self.desk.objection("TeammateIdle") if self._has_news and self._objections < OBJECTIONS else ""
        self._objections = self._objections + 1 if objection else 0
        if objection:
            self.desk.begin_piece(None)
            self.agent.conversation.tell(envelope(OUTPUT, objection, of="the hook TeammateIdle"))
        return bool(objection)

    def _rest(self) -> tuple[bool, int | None]:
        self._commit(self._idles)
        self._has_news = False
        known = self.agent.conversation.delivered
        return self.bell.sleep(self.name, known, quiet=self.is_quiet, timeout=self.settings.idle_timeout)

    def _end(self, why: str, reason: str) -> str:
        self._commit(lambda c: self._leaves(c, why, reason))
        return why

    # -- moves: each is one commit --------------------------------------------------------------

    def _joins(self, change: Change) -> None:
        member = replace(change.config.members[self.name], status="idle", reason=_idle_reason(change))
        roster.put(change, member)
        change.story.tell("member", f"{self.name} joins")

    def _begins(self, change: Change) -> None:
        roster.set_status(change, self.name, "working", "a message")
        requests.forget_plans(change, self.name)
        change.story.tell("member", f"{self.name} has mail")

    def _claims(self, change: Change, number: int | None) -> Task:
        task = moves.claim(change, number, self.desk.run)
        requests.forget_plans(change, self.name, but=f"{task.id}/{task.claim}")
        roster.set_status(change, self.name, "working")
        return task

    def _reports(self, change: Change) -> None:
        mail.post(change, layout.LEAD, self.agent.last_text, "result")
        change.story.tell("sent", f"{self.name} reports: {mail.preview(self.agent.last_text)}")

    def _gives_up(self, change: Change, reason: str) -> None:
        task = self.desk.task
        if task and any(held.claim == task.claim for held in change.board.held_by(self.name) if held.id == task.id):
            moves.give_up(change, task.id, reason, task.claim)
        mail.post(change, layout.LEAD, f"#{task.id}: {reason}" if task else reason, "error")
        change.story.tell("sent", f"{self.name} reports an error: {mail.preview(reason)}")

    def _falls_silent(self, change: Change) -> None:
        text = f"after {TALK_LIMIT} rounds of talk without a task it answers only the lead and the person"
        mail.post(change, layout.LEAD, f"{self.name}: {text}", "error")
        change.story.tell("sent", f"{self.name} reports: {text}")

    def _idles(self, change: Change) -> None:
        reason = _idle_reason(change)
        roster.set_status(change, self.name, "idle", reason)
        requests.forget_plans(change, self.name)
        if self._has_news:
            mail.post(change, layout.LEAD, f"{self.name} is idle", "idle_notification", {"reason": reason})
            change.story.tell("member", f"{self.name} is idle")
        else:
            change.story.tell("member", f"{self.name} waits")

    def _leaves(self, change: Change, why: str, reason: str) -> None:
        for task in change.board.held_by(self.name):
            moves.release(change, task.id, f"{self.name} stopped: {reason}")
        requests.forget(change, self.name)
        roster.set_status(
            change, self.name, "failed" if why == FAILED else "shutdown", reason if why == FAILED else why
        )
        kind = "error" if why == FAILED else "idle_notification"
        if why in (FAILED, TIMEOUT):
            mail.post(change, layout.LEAD, f"{self.name} ends: {reason}", kind, {"reason": why})
        change.story.tell("member", f"{self.name} {'fails' if why == FAILED else 'leaves'}, {reason}")


def _idle_reason(change: Change) -> str:
    return "awaiting_tasks" if change.board.claimable() or change.board.held() else "awaiting_messages"


def _handed_over(task: Task) -> str:
    again = "\nYou or somebody else began it before: look at what is there already." if task.claim > 1 else ""
    return task_text(task) + again
