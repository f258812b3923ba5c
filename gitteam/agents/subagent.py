"""A helper for one question: a conversation of its own, few tools, one answer."""

from __future__ import annotations

from collections.abc import Callable

from gitteam.agents import words
from gitteam.agents.blocks import Message, text_block
from gitteam.agents.desk import Desk
from gitteam.agents.model import Ask, Rejected, Reply, TooLong
from gitteam.errors import BadInput, ToolFailed
from gitteam.tools import Toolbox
from gitteam.tools.team import TOOLS as TEAM_TOOLS
from gitteam.tools.work import TOOLS as WORK_TOOLS

MAX_TURNS = 30
_READING = [tool for tool in [*WORK_TOOLS, *TEAM_TOOLS] if tool.is_safe]
# What each kind is for, and what it can do: the reading kinds have no tool that changes anything.
KINDS = {
    "explore": ("Find out what is asked about the code. You can only read.", Toolbox(_READING)),
    "plan": ("Work out how to do what is asked. You can only read.", Toolbox(_READING)),
    "code": ("Do what is asked.", Toolbox([*WORK_TOOLS, *(t for t in TEAM_TOOLS if t.is_safe)])),
}


def run(desk: Desk, prompt: str, kind: str, ask: Callable[[Ask], Reply], model: str, max_tokens: int) -> str:
    """The answer of a subagent; `ask` is how its calls are made and paid for."""
    if kind not in KINDS:
        raise BadInput(f"kind is one of {', '.join(KINDS)}, not {kind!r}")
    duty, toolbox = KINDS[kind]
    system = words.filled("subagent", kind=kind, name=desk.name, duty=duty)
    said = ""  # in replies that were cut off
    messages: list[Message] = [{"role": "user", "content": [text_block(prompt)]}]
    try:
        for _ in range(MAX_TURNS):
            reply = ask(Ask(model, system, toolbox.schemas, messages, max_tokens, desk.name))
            blocks = [b for b in reply.blocks if b["type"] != "text" or b["text"].strip()]
            if reply.stop_reason == "max_tokens":
                part = "".join(b["text"] for b in blocks if b["type"] == "text")  # with the blank it may end in
                said, messages = said + part, [*messages, *_cut_off(part)]
                continue
            if not reply.calls or reply.stop_reason != "tool_use":
                return said + reply.text or "(no answer)"
            said = ""
            results = toolbox.run_all(desk, reply.calls)
            messages = [*messages, {"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
    except (Rejected, TooLong) as e:
        raise ToolFailed(f"the subagent could not go on: {e}") from None
    raise ToolFailed(f"the subagent came to no end in {MAX_TURNS} turns: ask for less")


def _cut_off(text: str) -> list[Message]:
    """A reply that was too long, without the calls it began, and what it is told about that."""
    go_on = "Your reply was cut off. Go on exactly where it ended, in smaller steps."
    said = text if text.strip() else "(cut off)"
    return [{"role": "assistant", "content": [text_block(said)]}, {"role": "user", "content": [text_block(go_on)]}]
