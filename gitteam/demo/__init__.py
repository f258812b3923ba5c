"""The demo: from one sentence to a small REST app moved to GraphQL, in a fresh repository, on a scripted model.

Everything but the model's words is real: the SDK and its HTTP, the tools, the files, the commits, the tests.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from gitteam.demo.stage import (
    PATIENCE,
    Diary,
    DidNotComeAbout,
    Held,
    Person,
    Screen,
    git,
    lead_at_work,
    make_repository,
    own_environment,
)
from gitteam.errors import BadInput
from gitteam.records import COMPLETED
from gitteam.scripted import Script
from gitteam.team import Team

__all__ = ["DidNotComeAbout", "play"]

GOAL = "Migrate the app from REST to GraphQL"
_TASKS = 5  # the lead's four, and the one that the person drops in


def play(root: Path, screen: Screen) -> None:
    """All of it; raises DidNotComeAbout where something does not."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise BadInput(f"{root} is not empty: name a new directory")
    with own_environment():
        root.mkdir(parents=True, exist_ok=True)
        make_repository(root)
        Story(root, screen).tell()


class Story:
    def __init__(self, root: Path, screen: Screen):
        self._root, self._screen = root, screen
        self._person = Person(root, screen)
        self._diary = Diary(screen)

    def tell(self) -> None:
        self._screen.heading("A small REST app")
        self._screen.remark(f"in {self._root.resolve()}")
        self._person.types("ls")
        self._screen.heading("One sentence in: the lead looks around, plans, and starts a team")
        self._screen.typed(f'gitteam run "{GOAL}"')
        with as_file(files("gitteam.demo") / "script.toml") as path:
            script = Held(Script.load(path), "backend", "edited server.py")
        Team.init(self._root)  # as `run` does where there is no team
        with Team(self._root) as self._team:
            with lead_at_work(self._team, GOAL, script, self._diary, self._screen) as server:
                self._screen.remark(f"the model is a script on {server.url}; commands run with your rights")
                self._see_the_lead_decide()
                self._drop_a_task()
                self._write_in_the_middle_of_work(script)
                self._see_the_lead_check()
            self._look_at_it()

    # -- act by act -----------------------------------------------------------------------------

    def _see_the_lead_decide(self) -> None:
        self._diary.until("backend submits plan")
        self._screen.heading("backend has to ask before it changes anything; the lead decides")
        self._diary.until("lead rejects backend's plan")
        self._diary.until("lead approves backend's plan", times=2)

    def _drop_a_task(self) -> None:
        self._screen.heading("A file dropped into .tasks/ is a task, and wakes somebody who is idle")
        self._screen.remark("in another terminal")
        self._act('echo "Say in the README how to run the tests" > .tasks/readme.md')
        self._diary.until(" claims #5")

    def _write_in_the_middle_of_work(self, script: Held) -> None:
        if not script.reached.wait(PATIENCE):
            raise DidNotComeAbout("backend has not got as far as testing its server")
        self._screen.heading("A message is read in the middle of work")
        self._act('gitteam send backend "A wrong query should get a list of errors, please"')
        script.freed.set()
        self._diary.until(" completes #3")
        self._diary.until(" completes #4")

    def _see_the_lead_check(self) -> None:
        self._diary.until_so(self._is_quiet, "everybody has done everything and is idle")
        self._screen.heading("The lead runs the tests, asks everybody to shut down, and reports")

    def _look_at_it(self) -> None:
        self._check()
        self._screen.heading("The app's own tests, and a query")
        self._person.types("python -m unittest")
        self._person.types("""python api.py '{ author(id: "2") { books { title } } }'""")
        self._screen.heading("The work, on branch main")
        self._person.types("git log --oneline main")
        self._screen.heading("The diary, on branch gitteam: the life of one task, and the last of everything")
        self._person.types("git log --oneline --grep='^Team-Task: 2$' gitteam")
        self._person.types("git log --oneline -12 gitteam")
        self._screen.heading("What it took; a script costs nothing, a model of that name would have")
        self._person.types("gitteam usage")
        self._person.types("gitteam doctor")

    # -- parts ----------------------------------------------------------------------------------

    def _act(self, line: str) -> None:
        with self._diary.kept_back():
            self._person.types(line)

    def _is_quiet(self) -> bool:
        return all(m.status == "idle" for m in self._team.members()) and self._is_done()

    def _is_done(self) -> bool:
        tasks = self._team.tasks()
        return len(tasks) == _TASKS and all(task.status == COMPLETED for task in tasks)

    def _check(self) -> None:
        if not self._is_done():
            raise DidNotComeAbout("not every task is completed")
        if changed := git(self._root, "status", "--porcelain"):
            raise DidNotComeAbout(f"not everything is committed: {changed.splitlines()[0]}")
        if left := [member.name for member in self._team.members()]:
            raise DidNotComeAbout(f"{left[0]} is still on the team")
