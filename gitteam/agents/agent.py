"""The loop: gather what is new, ask the model, run its tools, repeat, until a piece of work is over."""

from __future__ import annotations

import json
from collections.abc import Callable

from gitteam import layout, mail, requests, roster
from gitteam.agents import compaction, goal, rejected, words
from gitteam.agents.account import BudgetReached
from gitteam.agents.blocks import Block, Message, result, text_block
from gitteam.agents.conversation import Conversation
from gitteam.agents.desk import Desk
from gitteam.agents.envelope import OUTPUT, SUMMARY, envelope, message_text, task_text
from gitteam.agents.gate import Stopped
from gitteam.agents.limits import Circles
from gitteam.agents.model import FINISHED, Ask, Garbled, Model, Rejected, Reply, TooLong
from gitteam.agents.settings import Settings
from gitteam.agents.wake import Bell
from gitteam.change import Change
from gitteam.records import IN_PROGRESS
from gitteam.tools import Toolbox

_PROTOCOL = ("shutdown_request", "plan_approval_response", "shutdown_response", "plan_approval_request")
_CUT_OFF = "not run: your reply was cut off before its end"
_THE_END = "(the end of this piece of work)"
_GO_ON = "Your reply was cut off. Go on from there, in smaller steps."

_STILL_RUNNING = "Your command in the background still goes on. Look at it or stop it; to wait on, end your turn again."
LONGEST_WAIT = 600.0  # seconds for a command in the background, until its member is asked about it


class GaveUp(Exception):
    """This piece of work cannot be brought to an end."""


class Agent:
    """One member's loop. `say` is for whoever watches; nothing depends on it."""

    def __init__(
        self, desk: Desk, conversation: Conversation, toolbox: Toolbox, model: Model, settings: Settings, bell: Bell,
        say: Callable[[str], None], system: str, more_news: Callable[[], list[str]] = list,
    ):  # fmt: skip
        self.desk, self.conversation, self.toolbox, self.model = desk, conversation, toolbox, model
        self.settings, self.bell, self.say = settings, bell, say
        self.system, self._more_news = system, more_news
        self.on_text: Callable[[str], None] | None = None  # for whoever wants to read along
        self.last_text = ""
        self._beside = len(json.dumps([system, toolbox.schemas]))  # bytes of every request
        self._asked_about_end = False
        self._warned = False
        self._circles = Circles()

    def work(self) -> None:
        """One piece of work; what it is has been said in the conversation. Raises GaveUp, or Stopped."""
        self.last_text, self._asked_about_end, self._warned, self._circles = "", False, False, Circles()
        try:
            self._take_turns()
        except GaveUp as e:
            self.conversation.end_turn(f"(given up: {e})")
            raise
        self.conversation.end_turn(_THE_END)

    def _take_turns(self) -> None:
        for _ in range(self.settings.max_turns):
            self._gather()
            reply = self._ask()
            if self._is_over(reply):
                return
        raise GaveUp(f"no end after {self.settings.max_turns} turns")

    # -- before a call ------------------------------------------------------------------------

    def _gather(self) -> None:
        """What has happened since the last call, before the next one."""
        if self.desk.stop.is_set():
            raise Stopped
        files, board = self.desk.team.look()
        news = []
        if task := self.desk.task:
            now = board.find(task.id)
            if now is None or (now.status, now.owner, now.claim) != (IN_PROGRESS, self.desk.name, task.claim):
                state = f"{now.status}, {now.owner or 'nobody'} has it" if now else "gone"
                news.append(f"Task #{task.id} is no longer yours: it is {state}. Leave it as it is.")
                self.desk.task = None
            elif now.text != task.text:
                news.append(f"Somebody changed your task:\n{task_text(now)}")
                self.desk.task = now
        messages = [m for m in mail.read_inbox(files, self.desk.name) if m.id not in self.conversation.delivered]
        messages.sort(key=lambda m: m.type not in _PROTOCOL)
        news += [message_text(m, redelivered=m.id in self.conversation.returned) for m in messages]
        news += self._more_news()
        if news:
            self.conversation.tell(*news, delivered=[m.id for m in messages])
            self.desk.shown = set(self.conversation.delivered)

    # -- the call -----------------------------------------------------------------------------

    def _ask(self) -> Reply:
        due = compaction.is_due(self.conversation.tokens(self._beside), self.settings.context_window)
        if due:
            self._compact(due)
        try:
            reply = self._call(self.conversation.messages)
        except TooLong:
            self._compact("summarize")
            reply = self._call_shortened()
        if self.on_text and reply.text:
            self.on_text("\n")  # the next reply is another one
        self.conversation.hear([b for b in reply.blocks if b["type"] != "text" or b["text"].strip()], reply.size)
        self.last_text = reply.text or self.last_text
        self.acknowledge()
        return reply

    def _call(self, messages: list[Message], question: str = "") -> Reply:
        """The model's answer; to a question of ours, nobody reads along."""
        model, tokens = self.desk.member.model or self.settings.model, self.conversation.tokens(self._beside)
        ask = Ask(
            model, self.system, self.toolbox.schemas,
            compaction.with_question(messages, question) if question else messages, self.settings.max_tokens,
            self.desk.name, self.desk.task.id if self.desk.task else 0, tokens + len(question),
            None if question else self.on_text,
        )  # fmt: skip
        try:
            return self.model.ask(ask, self.say)
        except Garbled as e:
            raise GaveUp(str(e)) from None
        except Rejected as e:
            self._start_over(str(e))
            raise GaveUp(str(e)) from None
        except BudgetReached as e:
            if e.whole_team:
                raise
            raise GaveUp(e.reason) from None

    def _start_over(self, reason: str) -> None:
        """Something in the conversation is what is not taken: it would be in the way of all that follows.

        The messages in it come once more. Those that came once more already are what is in the way.
        """
        twice = self.conversation.delivered & self.conversation.returned
        if twice:
            name = self.desk.name
            self.desk.team.change(name, lambda c: rejected.set_aside(c, name, twice, reason))
            self.conversation.forget(sorted(twice))
        anew = compaction.with_question([], self._identity(is_over=True))
        self.conversation.begin_anew(anew, returns=sorted(self.conversation.delivered))

    def _call_shortened(self) -> Reply:
        try:
            return self._call(self.conversation.messages)
        except TooLong as e:
            raise GaveUp(f"the conversation does not fit into the model's window, shortened as it is ({e})") from None

    def acknowledge(self) -> None:
        """The model has read these and has answered: only now they leave the inbox."""
        ids = sorted(self.conversation.delivered)
        if ids:
            self.conversation.save()
            self.desk.team.change(self.desk.name, lambda c: mail.take(c, self.desk.name, set(ids)))
            self.conversation.forget(ids)

    # -- after it -----------------------------------------------------------------------------

    def _is_over(self, reply: Reply) -> bool:
        if reply.stop_reason == "refusal":
            self._answer(reply, _CUT_OFF)
            raise GaveUp("the model refused")
        if reply.stop_reason == "model_context_window_exceeded":
            self._answer(reply, _CUT_OFF)
            self._compact("summarize")
            return False
        if reply.stop_reason in ("tool_use", "end_turn") and reply.calls:
            self._run_tools(reply)
            return self._may_end() if self.desk.ending else self._go_on()
        if reply.stop_reason not in FINISHED and (reply.calls or reply.stop_reason in ("max_tokens", "pause_turn")):
            self._answer(reply, _CUT_OFF)
            self.conversation.tell(_GO_ON)
            return False
        self._answer(reply, _CUT_OFF)
        return self._may_end()

    def _answer(self, reply: Reply, text: str) -> None:
        self.conversation.answer([result(call, text, is_error=True) for call in reply.calls], [])

    def _run_tools(self, reply: Reply) -> None:
        results = self.toolbox.run_all(self.desk, reply.calls)
        read, self.desk.read = self.desk.read, []
        self.conversation.answer(results, [m.id for m in read])
        self._asked_about_end = self._asked_about_end and self.desk.ending == "idle"  # then it has said so again
        found = [self._circles.note(call, outcome) for call, outcome in zip(reply.calls, results, strict=True)]
        if any(found):
            self._warn_or_give_up(next(filter(None, found)))

    def _warn_or_give_up(self, found: str) -> None:
        if self._warned:
            raise GaveUp(f"going round in circles: {found}")
        self._warned = True
        self.conversation.tell(f"You are going round in circles: {found}. Try something else, or hand back.")

    def _go_on(self) -> bool:
        if self.desk.waits_for_approval():
            self._wait_for_decision()
        return False

    def _may_end(self) -> bool:
        """Whether the work is over now that the model is done; what is left open is asked about, once."""
        ending, self.desk.ending = self.desk.ending, ""
        if ending == "stopping":
            self.desk.ending = ending
            return True
        if self.desk.waits_for_approval():
            self._wait_for_decision()
            return False
        if not (question := self._open_question()):
            return True
        if self.desk.task and self.desk.background.is_busy and not self._shutdown_requests():
            self._wait_for_command()
            return False
        if self._asked_about_end:
            return self._end_for_it()
        self._asked_about_end = True
        self.conversation.tell(question)
        return False

    def _shutdown_requests(self) -> list[requests.Request]:
        found = self.desk.team.requests()
        return [r for r in found if (r.kind, r.to, r.status) == (requests.SHUTDOWN, self.desk.name, requests.OPEN)]

    def _open_question(self) -> str:
        if asked := self._shutdown_requests():
            return words.filled("open_request", id=asked[0].id, sender=asked[0].sender)
        return words.filled("open_task", id=self.desk.task.id) if self.desk.task else ""

    def _end_for_it(self) -> bool:
        """It was asked, and said nothing: a task is handed back, and a request to end is granted."""
        if asked := self._shutdown_requests():
            answer = "it had nothing left to say"
            self.desk.team.change(self.desk.name, lambda c: requests.answer_shutdown(c, asked[0].id, True, answer))
            self.desk.ending = "stopping"
            return True
        raise GaveUp(f"ended without finishing: {self.last_text or 'no word'}")

    def _wait_for_decision(self) -> None:
        self.bell.sleep(self.desk.name, self.conversation.delivered, plan=self.desk.work)
        if self.desk.stop.is_set():
            raise Stopped
        if not self.desk.waits_for_approval():
            self.desk.team.change(self.desk.name, self._is_working)
            self._tell_silent_decision()

    def _wait_for_command(self) -> None:
        """Until one in the background has ended, which is a message, or something else happens."""
        found, _ = self.bell.sleep(
            self.desk.name, self.conversation.delivered, plan=self.desk.work, busy=True, timeout=LONGEST_WAIT
        )
        if self.desk.stop.is_set():
            raise Stopped
        if not found:
            self.conversation.tell(_STILL_RUNNING)

    def _tell_silent_decision(self) -> None:
        """Who decides by editing the request's file writes no message."""
        inbox = self.desk.team.inbox(self.desk.name)
        if not any(m.type == "plan_approval_response" and m.id not in self.conversation.delivered for m in inbox):
            approved = self.desk.may_change_things()
            self.conversation.tell(f"Your plan is {'approved' if approved else 'rejected: submit another one'}.")

    def _is_working(self, change: Change) -> None:
        roster.set_status(change, self.desk.name, "working")
        change.story.tell("member", f"{self.desk.name} goes on")

    # -- making room --------------------------------------------------------------------------

    def compact(self) -> None:
        """Tell the conversation so far in short, because somebody asked for it."""
        if self.conversation.messages:
            self._compact("summarize")

    def _compact(self, how: str) -> None:
        before = self.conversation.messages
        if how == "clear":
            after = compaction.without_old_results(before)
            if not compaction.is_worth_it(before, after):
                return
        else:
            after = [{"role": "user", "content": self._new_beginning()}]
        self.say("makes room in its conversation")
        self.conversation.begin_anew(compaction.with_question(after, self._identity()))

    def _identity(self, is_over: bool = False) -> str:
        """Who it is and what it is about; of a piece of work that is over nothing is said."""
        desk, task = self.desk, None if is_over else self.desk.task
        asked = [r for r in desk.team.requests() if r.to == desk.name or not is_over]
        wanted = goal.read(desk.team.place).text if desk.name == layout.LEAD else ""
        return words.identity(desk.team.config(), desk.member, task, asked, wanted)

    def _new_beginning(self) -> list[Block]:
        messages = self.conversation.messages
        texts = [envelope(SUMMARY, self._summary(messages), of="what came before")]
        texts += compaction.newest_results(messages, lambda text: envelope(OUTPUT, text, of="the last call"))
        texts += compaction.newest_texts(messages)
        return [text_block(text) for text in texts]

    def _summary(self, messages: list[Message]) -> str:
        """The model's own summary, of as much as fits."""
        for some in compaction.shrinking(messages):
            try:
                reply = self._call(some, words.prompt("summary"))
            except TooLong:
                continue
            if reply.text:
                return reply.text
        return "(lost: it did not fit any more. Look at the work tree and the board before you go on.)"
