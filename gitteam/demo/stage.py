"""What the demo plays on: a fresh repository, a shell to type into, a lead at work, a diary to wait for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gitteam import prices, usage
from gitteam.errors import GitteamError
from gitteam.layout import LEAD
from gitteam.scripted import Script, Server
from gitteam.team import Team

if TYPE_CHECKING:
    from gitteam.agents.lead import Lead
    from gitteam.agents.model import Model
    from gitteam.agents.outcome import Outcome
    from gitteam.agents.settings import Settings
    from gitteam.journal import Entry
    from gitteam.scripted.exchange import Answer, Request

PATIENCE = 60.0  # seconds for anything to come about; all of it together takes less
# Whatever the person has configured for all of their repositories does not reach into this one.
_OWN_CONFIG = {
    "user.name": "Sam", "user.email": "sam@example.com", "commit.gpgSign": "false", "core.hooksPath": ".git/hooks",
    "core.autocrlf": "false", "core.excludesFile": "", "core.attributesFile": "",
}  # fmt: skip
# git does not know about NO_COLOR.
_COLORLESS = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "color.ui", "GIT_CONFIG_VALUE_0": "false"}
# The lines shown are run as they stand, wherever gitteam is installed.
_SHELL = 'gitteam() { "$PYTHON" -P -m gitteam "$@"; }; python() { "$PYTHON" "$@"; };\n'


class DidNotComeAbout(GitteamError):
    """The demo stops: something in it did not happen as it should."""


class Screen(Protocol):
    """Whom all of it is shown to."""

    def heading(self, text: str) -> None: ...
    def remark(self, text: str) -> None: ...
    def typed(self, line: str) -> None: ...
    def show(self, entry: Entry) -> None: ...
    def say(self, name: str, text: str) -> None: ...
    def report(self, outcome: Outcome) -> None: ...

    @property
    def hides_output(self) -> bool: ...


@contextmanager
def own_environment() -> Iterator[None]:
    """Neither git's variables nor the person's git configuration are there meanwhile."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    os.environ |= {
        "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PYTHON": sys.executable,
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def make_repository(root: Path) -> None:
    """A repository with the app in it, committed, and an identity of its own."""
    with as_file(files("gitteam.demo") / "app") as app:
        shutil.copytree(app, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    git(root, "init", "-q", "--template=", "-b", "main")
    for key, value in _OWN_CONFIG.items():
        git(root, "config", key, value)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "A small library with a REST server")


def git(root: Path, *words: str) -> str:
    """Run git there; returns its output."""
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    except FileNotFoundError:
        raise GitteamError("git is not installed, or not on the PATH") from None
    if done.returncode:
        raise DidNotComeAbout(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout


class Person:
    """Somebody at a keyboard in that repository."""

    def __init__(self, root: Path, screen: Screen):
        self._root, self._screen = root, screen
        self._environ = {**os.environ, "GIT_PAGER": "cat", **(_COLORLESS if os.environ.get("NO_COLOR") else {})}

    def types(self, line: str, quiet: bool = False) -> None:
        """A command line, shown and really run by a shell; it has to succeed."""
        self._screen.typed(line)
        sys.stdout.flush()
        is_hidden = quiet or self._screen.hides_output
        done = subprocess.run(
            ["sh", "-c", _SHELL + line], cwd=self._root, env=self._environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if is_hidden else None, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode:
            said = f": {done.stdout.strip()}" if is_hidden else ""
            raise DidNotComeAbout(f"`{line}` ended with exit code {done.returncode}{said}")


class Diary:
    """Shows what happens as it happens, and lets one wait for it."""

    def __init__(self, screen: Screen):
        self._screen = screen
        self._sentences: list[str] = []
        self._news = threading.Condition()
        self._kept_back: list[Entry] | None = None
        self.is_over = False

    def show(self, entry: Entry) -> None:
        with self._news:
            if self._kept_back is None:
                self._screen.show(entry)
            else:
                self._kept_back.append(entry)
            self._sentences.append(entry.sentence)
            self._news.notify_all()

    @contextmanager
    def kept_back(self) -> Iterator[None]:
        """What happens meanwhile is shown afterwards: a command's own words come first."""
        with self._news:
            self._kept_back = []
        try:
            yield
        finally:
            with self._news:
                for entry in self._kept_back:
                    self._screen.show(entry)
                self._kept_back = None

    def until(self, sentence: str, times: int = 1) -> None:
        """Wait until something that is told so has happened so many times."""
        self.until_so(lambda: sum(sentence in told for told in self._sentences) >= times, sentence)

    def until_so(self, is_so: Callable[[], bool], what: str) -> None:
        with self._news:
            self._news.wait_for(lambda: is_so() or self.is_over, PATIENCE)
            if not is_so():
                raise DidNotComeAbout(f"this did not come about: {what}")

    def end(self) -> None:
        with self._news:
            self.is_over = True
            self._news.notify_all()


class Held:
    """A script that holds one answer back until the person has had their say."""

    def __init__(self, script: Script, member: str, sees: str):
        self._script, self._member, self._sees = script, member, sees
        self.models = script.models
        self.reached, self.freed = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> Answer | None:
        answer = self._script(request)
        if request.member == self._member and self._sees in request.new_text:
            self.reached.set()
            self.freed.wait(PATIENCE)
        return answer


@contextmanager
def lead_at_work(team: Team, goal: str, script: Held, diary: Diary, screen: Screen) -> Iterator[Server]:
    """A lead and its team, on a scripted model, until it has ended; whatever goes wrong, nobody is left."""
    from gitteam.agents.crew import Crew
    from gitteam.agents.lead import Lead, Voice
    from gitteam.agents.settings import read_settings

    settings = read_settings(team.config().settings)
    with Server(script) as server, _scripted_model(team, server, settings) as model:
        crew = Crew(team, [], model, settings, screen.say, diary.show)
        voice = Voice(screen.say, lambda text: screen.say(LEAD, text), lambda name, role: True)
        lead = Lead(team, crew, model, settings, voice)
        thread = threading.Thread(target=_live, args=(lead, goal, diary), name="gitteam-demo")
        thread.start()
        try:
            yield server
            thread.join(PATIENCE)
        finally:
            script.freed.set()
            crew.ask_to_stop()
            thread.join()
            crew.finish()
    used = next(iter(usage.sums(usage.read(team.place), "team")), None)
    outcome = replace(lead.outcome(set()), usage=used)
    screen.report(outcome)
    troubles = [outcome.reason, *crew.failures.values(), *server.rejected]
    troubles += [f"no answer for {request.member}" for request in server.unmatched]
    if found := next(filter(None, troubles), ""):
        raise DidNotComeAbout(f"not everything went by the script: {found}")


@contextmanager
def _scripted_model(team: Team, server: Server, settings: Settings) -> Iterator[Model]:
    """As `run` has it, without limits: what is used is written down."""
    from gitteam.agents.account import Account, Limits
    from gitteam.agents.model import KEYS, Model

    account = Account(team.place, prices.load(team.config().settings), Limits())
    model = Model({KEYS[0]: "scripted"}, server.url, settings.stall_timeout, settings.give_up_after, account=account)
    try:
        yield model
    finally:
        model.close()


def _live(lead: Lead, goal: str, diary: Diary) -> None:
    try:
        lead.live(goal)
    finally:
        diary.end()
