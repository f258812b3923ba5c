"""The lead: a member like the others, with more tools, who turns a goal into a team's finished work.

It sleeps between events. It is woken by its inbox, by what a person does to the board, and
when nothing is going on any more though something is left.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from gitteam import journal, layout, liveness, requests
from gitteam.agents import goal, words
from gitteam.agents.account import BudgetReached
from gitteam.agents.agent import Agent, GaveUp
from gitteam.agents.blocks import text_block
from gitteam.agents.conversation import Conversation
from gitteam.agents.crew import Crew
from gitteam.agents.envelope import OUTPUT, envelope, one_line
from gitteam.agents.gate import Stopped
from gitteam.agents.goal import Goal
from gitteam.agents.lead_desk import LeadDesk
from gitteam.agents.model import Ask, Hopeless, Model, Reply
from gitteam.agents.outcome import Outcome, outcome
from gitteam.agents.settings import Settings
from gitteam.agents.teammate import ASKED
from gitteam.agents.wake import Look, Sleeper, wakes
from gitteam.errors import GitteamError, Refused, ToolFailed
from gitteam.journal import Entry
from gitteam.liveness import Life
from gitteam.records import FINISHED, IN_PROGRESS, PENDING, Member, Task
from gitteam.team import Team
from gitteam.tools import Toolbox, aids
from gitteam.tools import lead as lead_tools
from gitteam.tools import team as team_tools
from gitteam.tools import work as work_tools

ME = Member(layout.LEAD, kind="agent")


@dataclass(frozen=True)
class Voice:
    """How the lead reaches the person who looks on."""

    say: Callable[[str, str], None]
    hear: Callable[[str], None]  # what the lead has said last, at the end of its turn; in a chat it may be nothing
    may_start: Callable[[str, str], bool]  # whether the first teammate may be started


class Interrupted(Exception):
    """The person has heard enough of this answer."""


class _Stop(threading.Event):
    """Set for the lead alone, and whenever everybody is to stop."""

    def __init__(self, of_all: threading.Event):
        super().__init__()
        self._of_all = of_all

    def is_set(self) -> bool:
        return super().is_set() or self._of_all.is_set()


class Lead:
    """The lead of one run. `live` returns when the goal is reached, or nothing more can be done about it."""

    toolbox = Toolbox([*work_tools.TOOLS, *team_tools.TOOLS, *aids.TOOLS, *lead_tools.TOOLS])

    def __init__(self, team: Team, crew: Crew, model: Model, settings: Settings, voice: Voice, stays: bool = False):
        self.team, self.crew, self.model, self.settings, self.voice = team, crew, model, settings, voice
        self._had_team = False  # somebody was started
        self._stays = stays  # it waits for the person when there is nothing left to do
        self._seen = team.ledger.tip()
        self._compact_next = False
        self._interrupted = _Stop(crew.stop)
        self._answering = False
        self._thread: threading.Thread | None = None
        self.on_text: Callable[[str], None] = lambda text: None
        self.on_end: Callable[[], None] = lambda: None
        self.has_ended = False
        self._reminded_of = ""  # the state it was last told about, so that it is told once
        self.failure, self.was_stopped = "", False

    def start(self, wanted: str = "") -> None:
        """Live in a thread of its own."""
        self._thread = threading.Thread(target=self.live, args=(wanted,), name=layout.LEAD, daemon=True)
        self._thread.start()

    def join(self) -> None:
        if self._thread:
            self._thread.join()

    def live(self, wanted: str = "") -> None:
        """Until there is nothing left to do; `failure` says why, if it ended otherwise."""
        try:
            with Life(self.team.place, layout.LEAD) as life:
                self._live(life, wanted)
        except Stopped:
            self.was_stopped, self.failure = True, "it was stopped"
        except GitteamError as e:
            self.failure = str(e)
        except Exception as e:  # in a thread of its own nobody else would hear of it
            self.failure = f"the lead crashed, {type(e).__name__}: {e}; see {self.crew.log_crash()}"
        finally:
            self.has_ended = True
            self.on_end()

    def _live(self, life: Life, wanted: str) -> None:
        place = self.team.place
        conversation = Conversation(os.path.join(place.transcripts, f"{layout.LEAD}.jsonl"))
        desk = LeadDesk(
            self.team, ME, life.run, self._interrupted, self.model.account, self._say, crew=self.crew,
            may_start=self._may_start, ask=self._ask_for_subagent, model=self.settings.model,
            max_tokens=self.settings.max_tokens,
        )  # fmt: skip
        self.agent = Agent(
            desk, conversation, self.toolbox, self.model, self.settings, self.crew.bell, self._say,
            words.lead_prompt(self.team.config(), desk.skills), self._news,
        )  # fmt: skip
        self.agent.on_text = self._read_along
        self.crew.bell.on_look.append(self._look_up)
        try:
            self._take_up(wanted)
            self._turns()
            goal.forget(place)  # from now on the same goal is a new one
        finally:
            self.crew.bell.on_look.remove(self._look_up)
            desk.close()
            conversation.close()

    def _say(self, text: str) -> None:
        self.voice.say(layout.LEAD, text)

    def _may_start(self, name: str, role: str) -> bool:
        may = self.voice.may_start(name, role)
        self._had_team = self._had_team or may
        return may

    def _ask_for_subagent(self, ask: Ask) -> Reply:
        try:
            self._heed_interruption()
            return self.model.ask(replace(ask, on_text=lambda text: self._heed_interruption()), self._say)
        except Interrupted:
            raise ToolFailed("it was stopped") from None

    # -- the goal -----------------------------------------------------------------------------

    def _take_up(self, wanted: str) -> None:
        """Tell a new goal, or go on with the one that was interrupted, and with the team it had."""
        place, known = self.team.place, goal.read(self.team.place)
        if wanted and known.text != wanted:
            known = Goal(wanted)
            goal.write(place, known)
        if known.text and not known.is_told:
            self._tell_goal(f"The person asks:\n{known.text}")
            goal.write(place, replace(known, is_told=True))
        for member in self.team.members():
            if member.kind == "agent" and (member.status, member.reason) != ("shutdown", ASKED):
                self._had_team = True
                self.crew.start(member.name)

    def _tell_goal(self, text: str) -> None:
        """Unless the program ended right after it had."""
        said = self.agent.conversation.messages[-1:]
        if not said or text_block(text) not in said[0]["content"]:
            self.agent.conversation.tell(text)

    def has_open_goal(self) -> bool:
        """Whether an earlier run was interrupted."""
        return bool(goal.read(self.team.place).text)

    # -- turn by turn ---------------------------------------------------------------------------

    def _turns(self) -> None:
        while True:
            if self.agent.conversation.is_unanswered or self._has_mail():
                self._turn()
            if reminder := self._reminder():
                self.agent.conversation.tell(reminder)
                continue
            if self._is_over():
                return
            known, left = self.agent.conversation.delivered, self.crew.seconds_left()
            found, _ = self.crew.bell.sleep(layout.LEAD, known, timeout=left)
            if self.crew.stop.is_set():
                raise Stopped
            if not found:
                raise BudgetReached("the time that was given is over: allow more to go on", whole_team=True)
            if news := self._persons_news():
                self.agent.conversation.tell(*news)

    def _turn(self) -> None:
        self._interrupted.clear()
        self._answering = True
        if self._compact_next:
            self.agent.compact()
            self._compact_next = False
        try:
            self.agent.work()
            self.failure = ""
        except (Interrupted, Stopped) as e:
            if isinstance(e, Stopped) and self.crew.stop.is_set():
                raise
            self._drop("the person stopped this answer")
            self._say("stopped")
        except GaveUp as e:
            self.failure = str(e)
            self._say(f"could not go on: {e}")
        except (Hopeless, BudgetReached) as e:
            if not self._stays:
                raise
            self._drop(f"this could not be answered: {e}")
            self._say(f"could not answer: {e}")
        finally:
            self._answering = False
        if self.agent.last_text or self._stays:
            self.voice.hear(self.agent.last_text)

    def _drop(self, why: str) -> None:
        """What was asked stays without an answer, and is not asked again."""
        self.agent.conversation.end_turn(f"({why})")
        self.agent.acknowledge()

    # -- what the person does while it speaks -------------------------------------------------------

    def is_answering(self) -> bool:
        return self._answering

    def interrupt(self) -> None:
        """Stop the present answer; the conversation goes on."""
        self._interrupted.set()
        self.crew.bell.wake(layout.LEAD)  # it may be waiting in the middle of its work

    def compact_next(self) -> None:
        self._compact_next = True

    def _read_along(self, text: str) -> None:
        self._heed_interruption()
        self.on_text(text)

    def _heed_interruption(self) -> None:
        if self.crew.stop.is_set():
            raise Stopped
        if self._interrupted.is_set():
            raise Interrupted

    def _has_mail(self) -> bool:
        return any(m.id not in self.agent.conversation.delivered and wakes(m) for m in self.team.inbox(layout.LEAD))

    def _news(self) -> list[str]:
        """Before each call."""
        self._heed_interruption()
        return self._persons_news()

    def _persons_news(self) -> list[str]:
        """What people have done to the board since the lead last heard of it."""
        entries = self._unseen()
        self._seen = entries[-1].commit if entries else self._seen
        return [_of_person(entry) for entry in self._of_people(entries)]

    def _unseen(self) -> list[Entry]:
        return journal.since(self.team.ledger.repo, self.team.ledger.ref, self._seen)

    def _of_people(self, entries: list[Entry]) -> list[Entry]:
        return [entry for entry in entries if entry.is_by_person and entry.task]

    # -- when nothing goes on ---------------------------------------------------------------------

    def _look_up(self, look: Look, asleep: list[Sleeper]) -> None:
        """Wake the lead for what comes without a message."""
        if layout.LEAD not in {sleeper.name for sleeper in asleep}:
            return
        if self._of_people(self._unseen()) or (self._is_at_rest() and self._reminded_of != self._state()):
            self.crew.bell.wake(layout.LEAD)

    def _is_at_rest(self) -> bool:
        """Whether nobody works, here or elsewhere, and nobody will without something new."""
        if self._stays or self.crew.running() - self.crew.bell.resting():
            return False
        if self.agent.desk.background.is_busy and not self._is_all_finished():
            return False
        held = [task for task in self.team.board().held() if task.run]
        return not any(liveness.holds(self.team.place, task) for task in held)

    def _is_all_finished(self) -> bool:
        tasks = self.team.tasks(finished=True)
        return bool(tasks) and all(task.status in FINISHED for task in tasks)

    def _state(self) -> str:
        """What there is to be reminded of, in one text."""
        waiting = [r.id for r in self.team.requests() if r.status == requests.OPEN]
        tasks = [f"{task.id}{task.status}" for task in self.team.tasks()]
        return f"{tasks} {waiting} {sorted(self.crew.running())} {self.crew.is_busy()}"

    def _reminder(self) -> str:
        """A word about what the lead seems to have forgotten, once for each state of things."""
        if self._has_mail() or not self._is_at_rest() or self._reminded_of == self._state():
            return ""
        self._reminded_of = self._state()
        left = [_left(task) for task in self.team.tasks() if task.status in (PENDING, IN_PROGRESS)]
        left += [f"plan {r.id} of {r.sender} waits for your decision" for r in self._undecided()]
        if left:
            return words.filled("stuck", left="\n".join(left))
        return words.prompt("finished") if self.crew.running() and self.team.tasks(finished=True) else ""

    def _undecided(self) -> list[requests.Request]:
        return [r for r in self.team.requests() if (r.kind, r.status) == (requests.PLAN, requests.OPEN)]

    def _is_over(self) -> bool:
        if self.crew.is_busy() and not self._is_all_finished():
            return False
        return not self._has_mail() and self._is_at_rest() and self._reminded_of == self._state()

    def outcome(self, before: set[int]) -> Outcome:
        """What became of the tasks that were not finished before the run, or came after."""
        tasks = [task for task in self.team.tasks(finished=True) if task.id not in before]
        return outcome(tasks, self.failure, self.crew.failures, self._had_team)


def _of_person(entry: Entry) -> str:
    """Who did what to which task is ours to say; what follows are words from a file."""
    what, _, words_of_file = entry.sentence.partition(": ")
    told = f"\n{envelope(OUTPUT, words_of_file, of='the diary')}" if words_of_file else ""
    return f"The person did this: {one_line(what)}{told}"


def _left(task: Task) -> str:
    return f"#{task.id} {task.status}{f' ({task.reason})' if task.reason else ''}: {task.subject}"


def refuse_second(team: Team) -> None:
    """One lead at a time: whoever comes second is told who is there."""
    if liveness.current_run(team.place, layout.LEAD):
        raise Refused(f"a lead is at work here already (process {liveness.process_of(team.place, layout.LEAD)})")
