"""The demo: three teammates move a small REST app to GraphQL, in a fresh repository, on a scripted model.

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
    crew_at_work,
    git,
    make_repository,
    own_environment,
)
from gitteam.errors import BadInput
from gitteam.records import COMPLETED
from gitteam.scripted import Script
from gitteam.team import Team

__all__ = ["DidNotComeAbout", "play"]

_TASKS = (
    '"Analyze the REST endpoints" --role analyst',
    '"Design the GraphQL schema" --role backend --blocked-by 1',
    '"Serve GraphQL beside REST" --role backend --blocked-by 2',
    '"Let the client use GraphQL" --role frontend --blocked-by 3',
)


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
        self._set_up()
        with as_file(files("gitteam.demo") / "script.toml") as path:
            script = Held(Script.load(path), "backend", "edited server.py")
        with Team(self._root) as self._team:
            with crew_at_work(self._team, script, self._diary, self._screen) as server:
                self._screen.heading("The team goes to work")
                self._screen.remark(f"as `gitteam up` shows it; the model here is a script on {server.url}")
                self._decide_about_a_plan()
                self._drop_a_task()
                self._write_in_the_middle_of_work(script)
                self._stop_everybody()
            self._look_at_it()

    # -- act by act -----------------------------------------------------------------------------

    def _set_up(self) -> None:
        self._screen.heading("A small REST app, and a team to move it to GraphQL")
        self._screen.remark(f"in {self._root.resolve()}")
        self._person.types("ls")
        self._person.types("gitteam init", quiet=True)
        for name, option in (("analyst", ""), ("backend", " --plan"), ("frontend", "")):
            self._person.types(f"gitteam member add {name} --role {name}{option}", quiet=True)
        for task in _TASKS:
            self._person.types(f"gitteam task add {task}", quiet=True)
        self._person.types("gitteam task")

    def _decide_about_a_plan(self) -> None:
        self._diary.until("backend submits plan", times=1)
        self._screen.heading("backend has to ask before it changes anything")
        self._act(f'gitteam reject {self._open_plan()} "The client still needs the REST routes: keep them"')
        self._diary.until("backend submits plan", times=2)
        self._act(f"gitteam approve {self._open_plan()}")
        self._diary.until("backend submits plan", times=3)

    def _drop_a_task(self) -> None:
        self._screen.heading("A file dropped into .tasks/ is a task, and wakes somebody who is idle")
        self._act('echo "Say in the README how to run the tests" > .tasks/readme.md')
        self._diary.until(" claims #5")
        self._act(f"gitteam approve {self._open_plan()}")

    def _write_in_the_middle_of_work(self, script: Held) -> None:
        if not script.reached.wait(PATIENCE):
            raise DidNotComeAbout("backend has not got as far as testing its server")
        self._screen.heading("A message is read in the middle of work")
        self._act('gitteam send backend "A wrong query should get a list of errors, please"')
        script.freed.set()
        self._diary.until(" completes #3")
        self._diary.until(" completes #4")
        self._diary.until_so(self._is_quiet, "everybody has done everything and is idle")

    def _stop_everybody(self) -> None:
        self._screen.heading("Everybody is asked to shut down, and answers")
        self._person.types("gitteam stop")

    def _look_at_it(self) -> None:
        self._check()
        self._screen.heading("The app's own tests, and a query")
        self._person.types("python -m unittest")
        self._person.types("""python api.py '{ author(id: "2") { books { title } } }'""")
        self._screen.heading("The work, on branch main")
        self._person.types("git log --oneline main")
        self._screen.heading("The diary, on branch gitteam: the life of one task, and the last of everything")
        self._person.types("git log --oneline --grep='^Team-Task: 2$' gitteam")
        self._person.types("git log --oneline -30 gitteam")
        self._person.types("gitteam doctor")

    # -- parts ----------------------------------------------------------------------------------

    def _act(self, line: str) -> None:
        with self._diary.kept_back():
            self._person.types(line)

    def _open_plan(self) -> str:
        return next(request.id for request in self._team.requests() if request.status == "pending")

    def _is_quiet(self) -> bool:
        return all(m.status == "idle" for m in self._team.members()) and self._is_done()

    def _is_done(self) -> bool:
        tasks = self._team.tasks()
        return len(tasks) == len(_TASKS) + 1 and all(task.status == COMPLETED for task in tasks)

    def _check(self) -> None:
        if not self._is_done():
            raise DidNotComeAbout("not every task is completed")
        if left := git(self._root, "status", "--porcelain"):
            raise DidNotComeAbout(f"not everything is committed: {left.splitlines()[0]}")
