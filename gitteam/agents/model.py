"""The one door to anthropic: ask a model, with every failure sorted into one of four kinds."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2

from gitteam.agents.account import Account, Spent
from gitteam.agents.blocks import Block, Message
from gitteam.agents.credentials import Secrets, checked_key, is_url, without_userinfo
from gitteam.agents.gate import Closed, Gate
from gitteam.errors import BadInput, GitteamError
from gitteam.render import visible

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
FINISHED = ("end_turn", "stop_sequence", "tool_use")
_GARBLED_LIMIT = 3
_COUNTS = {
    "input": "input_tokens", "output": "output_tokens", "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}  # fmt: skip
# A server on this machine is asked directly: no proxy for the rest of the world could reach it.
_NO_PROXY: dict[str, None] = dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]"))


class Hopeless(GitteamError):
    """Trying again will not help: a key, a model, a limit that a person has to see to."""


class Unreachable(Exception):
    """The service is not there, is overloaded, or broke off. It may help to wait."""

    def __init__(self, reason: str, retry_after: float | None = None):
        self.reason, self.retry_after = reason, retry_after
        self.pause = 0.0  # for how long the gate is closed because of it
        super().__init__(reason)


class TooLong(Exception):
    """The conversation does not fit into the model's window."""


class Rejected(Exception):
    """The service does not take this very request, or its answer cannot be read."""


class Garbled(Rejected):
    """An answer that cannot be read; another one may be better."""


@dataclass(frozen=True)
class Ask:
    model: str
    system: str
    tools: list[dict[str, Any]]
    messages: list[Message]
    max_tokens: int
    member: str = ""  # who asks, and for which task, for the account
    task: int = 0
    tokens: int = 0  # of the prompt, if known
    on_text: Callable[[str], None] | None = None  # gets the answer's text as it comes; what it raises ends the call


@dataclass(frozen=True)
class Reply:
    blocks: list[Block]
    stop_reason: str
    usage: dict[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "\n".join(b["text"] for b in self.blocks if b["type"] == "text").strip()

    @property
    def calls(self) -> list[Block]:
        return [b for b in self.blocks if b["type"] == "tool_use"]

    @property
    def size(self) -> int:
        """How many tokens the conversation has, this reply included."""
        return sum(self.usage.values())


class Model:
    """Shared by all members of a process, which is what makes the gate one gate."""

    def __init__(
        self, credentials: dict[str, str], base_url: str | None, stall_timeout: float, give_up_after: float = 900,
        account: Account | None = None,
    ):  # fmt: skip
        key, token = (checked_key(credentials.get(name, ""), name) for name in KEYS)
        if not key and not token and not base_url:
            raise BadInput(
                "no API key: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL for a server that speaks /v1/messages; "
                "`gitteam demo` needs neither"
            )
        if base_url and not is_url(base_url):
            shown = _line(without_userinfo(base_url))
            raise BadInput(f"ANTHROPIC_BASE_URL is no address: {shown!r}; it looks like http://localhost:11434")
        self.gate = Gate()
        self.account = account  # what the calls are paid from
        self._give_up_after = give_up_after
        self._secrets = Secrets([key, token], base_url)
        self._client = anthropic.Anthropic(
            api_key=key, auth_token=None if key else token or "none", base_url=base_url, max_retries=0,
            timeout=httpx2.Timeout(stall_timeout, connect=10),
            http_client=anthropic.DefaultHttpxClient(mounts=_NO_PROXY),
        )  # fmt: skip

    def close(self) -> None:
        self._client.close()

    def ask(self, ask: Ask, waiting: Callable[[str], None]) -> Reply:
        """One reply. Waits as long as that may help, and says so; the gate's Stopped ends it, and BudgetReached."""
        garbled, began = 0, time.monotonic()
        while True:
            try:
                with self._paid(ask) as spent:
                    return self._through_the_gate(ask, spent, began)
            except Unreachable as e:
                if e.pause < self._patience(began):
                    waiting(f"{e.reason}: trying again in {e.pause:.1f} s")
            except Garbled:
                garbled += 1
                if garbled >= _GARBLED_LIMIT:
                    raise

    def _paid(self, ask: Ask) -> AbstractContextManager[Spent]:
        """Around a single try: one that fails may have been billed too."""
        if self.account is None:
            return nullcontext(Spent())
        tokens = ask.tokens or len(json.dumps([ask.system, ask.tools, ask.messages])) // 3
        return self.account.call(ask.member, ask.task, ask.model, tokens, ask.max_tokens)

    def _through_the_gate(self, ask: Ask, spent: Spent, began: float) -> Reply:
        ticket = self._enter(began)
        try:
            reply = self._once(ask, spent)
        except Unreachable as e:
            e.pause = self.gate.leave_failed(ticket, e.reason, e.retry_after)
            raise
        except BaseException:
            self.gate.leave(ticket)
            raise
        self.gate.leave(ticket)
        return reply

    def _enter(self, began: float) -> int:
        try:
            return self.gate.enter(self._patience(began))
        except Closed as e:
            raise Hopeless(f"{e.reason}; gave up after {_duration(e.pause, began)}") from None

    def _patience(self, began: float) -> float:
        return self._give_up_after - (time.monotonic() - began)

    def _once(self, ask: Ask, spent: Spent) -> Reply:
        with _sorted_failures(ask.model, self._secrets):
            inputs: dict[int, str] = {}
            message: Any = None
            with self._client.messages.stream(
                model=ask.model, max_tokens=ask.max_tokens, system=[{"type": "text", "text": ask.system}],
                tools=ask.tools, messages=ask.messages, cache_control={"type": "ephemeral"},  # type: ignore[arg-type]
            ) as stream:  # fmt: skip
                try:
                    for event in stream:
                        message = stream.current_message_snapshot
                        if event.type != "content_block_delta":
                            continue
                        if event.delta.type == "input_json_delta":
                            inputs[event.index] = inputs.get(event.index, "") + event.delta.partial_json
                        elif event.delta.type == "text_delta" and ask.on_text:
                            ask.on_text(event.delta.text)
                finally:
                    spent.usage = _counted(message.usage) if message else None
            return _reply(message, inputs)


def _reply(message: Any, inputs: dict[int, str]) -> Reply:
    """What has come, if it is whole. `inputs` are those of its calls as they came, by the block's number."""
    if message is None:
        raise Unreachable("the server's answer is not from a Messages API")
    if message.stop_reason is None:
        raise Unreachable("the answer broke off")
    if message.stop_reason in FINISHED:
        for text in filter(None, inputs.values()):
            json.loads(text)  # the SDK takes one that breaks off for whole
    return Reply(_whole([_block(b) for b in message.content]), str(message.stop_reason), _counted(message.usage))


def _counted(usage: Any) -> dict[str, int]:
    """The tokens, as far as the service has said: what is no number is none."""
    said = {ours: getattr(usage, theirs, 0) for ours, theirs in _COUNTS.items()}
    return {ours: number if isinstance(number, int) and number > 0 else 0 for ours, number in said.items()}


def _whole(blocks: list[Block]) -> list[Block]:
    """Without thoughts that led to nothing: the API takes none at the end of a message."""
    while blocks and "thinking" in blocks[-1]["type"]:
        blocks = blocks[:-1]
    return blocks


def _block(block: Any) -> Block:
    """What is sent back in the next request: only what the API takes."""
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type == "tool_use":
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
    found: Block = block.model_dump(exclude_none=True)
    return found


@contextmanager
def _sorted_failures(model: str, secrets: Secrets) -> Iterator[None]:
    try:
        yield
    except anthropic.APIStatusError as e:
        raise _by_status(e, model, secrets) from None
    except anthropic.APIConnectionError as e:
        raise Unreachable(f"cannot reach the API ({_line(secrets.hide(e.__cause__ or e))})") from None
    except httpx2.TransportError as e:
        raise Unreachable(f"the answer broke off ({type(e).__name__})") from None
    except anthropic.AnthropicError as e:
        raise Rejected(_line(secrets.hide(e))) from None
    except (ValueError, AttributeError, AssertionError, LookupError, TypeError, RuntimeError) as e:
        # The SDK reads the stream piece by piece, and this is what it raises over pieces that make no sense.
        raise Garbled(f"the answer cannot be read ({_line(secrets.hide(e))})") from None


def _by_status(error: anthropic.APIStatusError, model: str, secrets: Secrets) -> Exception:
    status, reason = error.status_code, _line(secrets.hide(_reason(error)))
    kind = _error_type(error)
    if status in (401, 403):
        return Hopeless(f"the API refuses the key ({reason}): check ANTHROPIC_API_KEY")
    if status == 404 and kind != "not_found_error":
        url = without_userinfo(error.request.url)
        return Hopeless(f"there is no Messages API at {url} (404): check ANTHROPIC_BASE_URL")
    if status == 404:
        return Hopeless(f"the API knows no model {model!r}: set another with `model` in .team/config.json")
    if status == 402 or "credit balance" in reason or "spend limit" in reason or kind == "billing_error":
        return Hopeless(f"the API's spend limit is reached ({reason})")
    if status == 413 or (status == 400 and ("too long" in reason or "context" in reason)):
        return TooLong(reason)
    if status in (408, 409, 429, 200) or status >= 500:
        busy = "is overloaded" if status == 529 or kind == "overloaded_error" else f"answers {status}, {reason}"
        return Unreachable(f"the API {busy}", _retry_after(error.response.headers.get("retry-after")))
    return Rejected(f"the API does not take the request ({reason})")


def _error_type(error: anthropic.APIStatusError) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    return str(inner.get("type", "")) if isinstance(inner, dict) else ""


def _reason(error: anthropic.APIStatusError) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    text = inner.get("message") if isinstance(inner, dict) else None
    return str(text or error.message)


def _line(text: object) -> str:
    """What somebody else's program says, as a part of one line of ours."""
    return visible(" ".join(str(text).split()))[:200]


def _retry_after(value: str | None) -> float | None:
    """Seconds, from a number or a date; what makes no sense counts as nothing said."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return seconds if 0 <= seconds < 1e9 else None


def _duration(pause: float, began: float) -> str:
    waited = time.monotonic() - began
    return f"{waited:.0f} s" if pause <= 60 else f"{waited:.0f} s, it asks to wait {pause / 60:.0f} min more"
