"""The scripted model's server: takes requests as the real API does, and answers by a script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from gitteam.scripted import rules
from gitteam.scripted.caching import PromptCache, prompt_size, tokens
from gitteam.scripted.exchange import Answer, Answerer, Fault, Reply, Request
from gitteam.scripted.forms import Rejected
from gitteam.scripted.listener import Listener
from gitteam.scripted.wire import Outgoing, error, found, outgoing

NO_ANSWER = Reply("(the script has no answer to this)")


class Server:
    """Serves from its making until `close`. A script is a Script, or any function from a Request to an answer.

    `requests` are those the API would have accepted, `unmatched` those of them to which the script had no answer,
    `rejected` the messages of the rejections, `failures` what a function that is the script has raised.
    """

    def __init__(self, script: Answerer, models: Sequence[str] = (), port: int = 0):
        self.requests: list[Request] = []
        self.unmatched: list[Request] = []
        self.rejected: list[str] = []
        self.failures: list[Exception] = []
        self._script, self._models = script, tuple(models) or tuple(getattr(script, "models", ()))
        self._cache = PromptCache()
        self._arrival = threading.Condition()
        self._listener = Listener(port, self._respond)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.port}"

    def wait_for(self, fits: Callable[[Request], bool], timeout: float) -> Request:
        """The first request that fits, come already or still to come."""
        seen = 0

        def arrived() -> Request | None:
            nonlocal seen
            while seen < len(self.requests):
                seen += 1
                if fits(self.requests[seen - 1]):
                    return self.requests[seen - 1]
            return None

        with self._arrival:
            request = self._arrival.wait_for(arrived, timeout)
        if request is None:
            raise TimeoutError(f"no such request came in {timeout} s, only {len(self.requests)} others")
        return request

    def close(self) -> None:
        """End every connection and every thread, also those that wait on purpose."""
        self._listener.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- one request --------------------------------------------------------------------------------

    def _respond(self, path: str, headers: Mapping[str, str], raw: bytes | None) -> Outgoing:
        try:
            rules.check_headers(headers)
            match path.partition("?")[0]:
                case "/v1/messages":
                    return self._message(rules.accepted(raw, self._models))
                case "/v1/messages/count_tokens":
                    body = rules.accepted(raw, self._models, counting=True)
                    return found({"input_tokens": tokens(prompt_size(body))})
                case other:
                    raise Rejected(404, f"there is no POST {other}")
        except Rejected as e:
            with self._arrival:
                self.rejected.append(str(e))
            return error(e.status, str(e))

    def _message(self, body: dict[str, Any]) -> Outgoing:
        with self._arrival:
            request = Request(len(self.requests) + 1, body)
            self.requests.append(request)
            self._arrival.notify_all()
        answer = self._answer(request)
        if isinstance(answer, Fault) and answer.status:
            return outgoing(answer, request, {})  # what is refused is not cached
        return outgoing(answer, request, self._cache.usage(body))

    def _answer(self, request: Request) -> Answer:
        try:
            answer = self._script(request)
        except Exception as e:  # somebody's function: its failure is the client's answer, and kept for the test
            self.failures.append(e)
            return Fault("500", Reply(f"the script failed: {type(e).__name__}: {e}"))
        if answer is None:
            with self._arrival:
                self.unmatched.append(request)
            return NO_ANSWER
        return answer
