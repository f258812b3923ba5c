"""The replay that checks a history: right ones pass, and every kind of wrong one, made by hand, is flagged."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from conftest import git
from faults import call, check_order, new_board, new_repository

from gitteam import layout
from gitteam.journal import Replay
from gitteam.repo import Repo

ALICE, BOB, LEAD, SYSTEM = (f"{name}@gitteam.invalid" for name in ("alice", "bob", "lead", "gitteam"))
JANE = "jane@example.com"
ONE = ".tasks/1-one.md"


def task(status: str = "pending", owner: str = "", claim: int = 0, more: str = "") -> str:
    return f"---\nsubject: One\nstatus: {status}\nowner: {owner}\n" + f"claim: {claim}\n" * bool(claim) + f"{more}---\n"


def held(owner: str, claim: int) -> str:
    return task("in_progress", owner, claim)


@dataclass
class Step:
    """One commit: who, what of the files is different then (None: gone), and its trailers."""

    author: str
    files: dict[str, str | None]
    ops: list[str] | None = None  # one of its own, if not said otherwise
    trailers: list[str] = field(default_factory=list)
    merges: bool = False


def claimed(by: str, number: int, path: str = ONE) -> Step:
    return Step(by, {path: held(by.partition("@")[0], number)})


def released(by: str, number: int) -> Step:
    return Step(by, {ONE: task(claim=number)})


def completed(by: str, owner: str, number: int, **more: list[str]) -> Step:
    return Step(by, {ONE: task("completed", owner, number)}, **more)  # type: ignore[arg-type]


ADDED = Step(JANE, {ONE: task()})
SECOND = Step(JANE, {".tasks/2-two.md": task()})

GOOD: dict[str, list[Step]] = {
    "claimed and completed": [ADDED, claimed(ALICE, 1), completed(ALICE, "alice", 1)],
    "released and claimed again": [ADDED, claimed(ALICE, 1), released(ALICE, 1), claimed(BOB, 2), released(BOB, 2)],
    "taken from the dead": [ADDED, claimed(ALICE, 1), released(SYSTEM, 1), claimed(BOB, 2)],
    "failed": [ADDED, claimed(ALICE, 1), Step(SYSTEM, {ONE: task("failed", "", 1, "attempts: 3\n")})],
    "completed by a person": [ADDED, claimed(ALICE, 1), completed(JANE, "alice", 1)],
    "given to another by a person": [ADDED, claimed(ALICE, 1), Step(JANE, {ONE: held("bob", 2)})],
    "overridden by the lead": [
        ADDED, claimed(ALICE, 1), completed(LEAD, "alice", 1, trailers=["Team-Override: alice"]),
    ],
    "noted by somebody else": [ADDED, claimed(ALICE, 1), Step(BOB, {ONE: held("alice", 1) + "\n## Notes\n\n- hm\n"})],
    "swept": [
        ADDED, claimed(ALICE, 1), completed(ALICE, "alice", 1),
        Step(SYSTEM, {ONE: None, ".tasks/done/0001-0099/1-one.md": task("completed", "alice", 1)}),
    ],
    "renamed": [ADDED, Step(JANE, {ONE: None, ".tasks/1-another.md": task()})],
    "opened again": [
        ADDED, claimed(ALICE, 1), completed(ALICE, "alice", 1), Step(JANE, {ONE: task(claim=1)}), claimed(BOB, 2),
    ],
    "cancelled and opened again": [ADDED, Step(JANE, {ONE: task("cancelled")}), Step(JANE, {ONE: task()})],
    "a new task that somebody has": [Step(JANE, {ONE: held("alice", 1)})],
    "a person's own commit, mended by the next": [
        ADDED, claimed(ALICE, 1), Step(JANE, {ONE: held("bob", 7)}, ops=[]), Step(JANE, {ONE: held("bob", 2)}),
    ],
    "one after the other": [ADDED, SECOND, claimed(ALICE, 1), released(ALICE, 1), claimed(ALICE, 1, ".tasks/2-two.md")],
    "only messages": [ADDED, Step(ALICE, {".team/inbox/bob.jsonl": '{"content": "hi"}\n'})],
}  # fmt: skip

BAD: dict[str, tuple[list[Step], str]] = {
    "double claim": ([ADDED, claimed(ALICE, 1), claimed(BOB, 2)], "claimed by bob while it was in_progress"),
    "double claim, same number": ([ADDED, claimed(ALICE, 1), claimed(BOB, 1)], "claimed by bob"),
    "claim number skipped": ([ADDED, claimed(ALICE, 2)], "from claim 0 to 2"),
    "claim number used twice": ([ADDED, claimed(ALICE, 1), released(ALICE, 1), claimed(BOB, 1)], "from claim 1 to 1"),
    "claim number gone": ([ADDED, claimed(ALICE, 1), released(ALICE, 0)], "from claim 1 to 0"),
    "claim number without a claim": ([ADDED, released(ALICE, 1)], "from claim 0 to 1"),
    "a new task with a claim number that is not the first": ([Step(JANE, {ONE: held("alice", 3)})], "to 3"),
    "claimed for somebody else": ([ADDED, Step(ALICE, {ONE: held("bob", 1)})], "#1"),
    "claimed though completed": (
        [ADDED, claimed(ALICE, 1), completed(ALICE, "alice", 1), claimed(BOB, 2)],
        "claimed by bob while it was completed",
    ),
    "claimed by one who has another": ([ADDED, SECOND, claimed(ALICE, 1), claimed(ALICE, 1, ".tasks/2-two.md")], "#2"),
    "claimed while it is blocked": (
        [SECOND, Step(JANE, {ONE: task(more="blockedBy: [2]\n")}),
         Step(ALICE, {ONE: task("in_progress", "alice", 1, "blockedBy: [2]\n")})], "#1",
    ),
    "completed by one who does not have it": ([ADDED, claimed(ALICE, 1), completed(BOB, "bob", 1)], "completed by bob"),
    "completed in another's name": ([ADDED, claimed(ALICE, 1), completed(BOB, "alice", 1)], "completed by bob"),
    "completed by a stale holder": (
        [ADDED, claimed(ALICE, 1), released(ALICE, 1), claimed(BOB, 2), completed(ALICE, "alice", 2)],
        "completed by alice",
    ),
    "completed by a member without a claim": ([ADDED, completed(ALICE, "alice", 0)], "completed by alice"),
    "completed though cancelled": (
        [ADDED, Step(JANE, {ONE: task("cancelled")}), completed(JANE, "alice", 0)], "after it was cancelled",
    ),
    "released by one who does not have it": ([ADDED, claimed(ALICE, 1), released(BOB, 1)], "#1"),
    "cancelled by one who does not have it": (
        [ADDED, claimed(ALICE, 1), Step(BOB, {ONE: task("cancelled", "alice", 1)})], "#1",
    ),
    "the same operation twice": (
        [ADDED, Step(JANE, {ONE: task(more="priority: 1\n")}, ops=["aa"]), Step(JANE, {ONE: task()}, ops=["aa"])],
        "operation aa is in the history twice",
    ),
    "the same operation twice, changing nothing": (
        [Step(JANE, {ONE: task()}, ops=["aa"]), Step(JANE, {}, ops=["aa"])], "operation aa is in the history twice",
    ),
    "two operations in one commit": ([Step(JANE, {ONE: task()}, ops=["aa", "bb"])], "more than one Team-Op"),
    "a merge": ([ADDED, SECOND, Step(JANE, {ONE: task(more="priority: 1\n")}, merges=True)], "a merge"),
    "a merge that changes nothing": ([ADDED, SECOND, Step(JANE, {}, merges=True)], "a merge"),
    "a task that vanished": ([ADDED, SECOND, Step(JANE, {ONE: None})], "#1 is in 0 files"),
    "a task in two files": ([ADDED, Step(JANE, {".tasks/1-again.md": task()})], "#1 is in 2 files"),
    "a task open and swept": ([ADDED, Step(JANE, {".tasks/done/0001-0099/1-one.md": task()})], "#1 is in 2 files"),
    "an unknown status": ([ADDED, Step(JANE, {ONE: task("finished")})], "#1 cannot be read"),
    "a head that cannot be read": ([ADDED, Step(JANE, {ONE: "---\nsubject: [\n---\n"})], "#1 cannot be read"),
    "nobody has what is in progress": ([ADDED, Step(JANE, {ONE: held("", 1)})], "#1 cannot be read"),
}  # fmt: skip


def write(root: Path, steps: list[Step]) -> None:
    """Make this history with `git fast-import`, on the branch of the team."""
    number, stream = count(1), []
    parents = git(root, "rev-list", "--max-count=1", "gitteam", check=False).split()
    stream += ["reset refs/heads/gitteam", f"from {parents[0]}", ""] if parents else []
    for position, step in enumerate(steps):
        ops = [f"{next(number):016x}"] if step.ops is None else step.ops
        trailers = [*(f"Team-Op: {op}" for op in ops), *step.trailers]
        message = f"step {position}\n\n" + "".join(f"{line}\n" for line in trailers)
        stream += [
            "commit refs/heads/gitteam",
            f"mark :{position + 1}",
            f"author {step.author.partition('@')[0]} <{step.author}> {position} +0000",
        ]
        stream += [f"committer Jane <{JANE}> {position} +0000", f"data {len(message)}", message]
        if step.merges:
            stream += [f"from :{position}", f"merge :{position - 1}"]
        for path, text in step.files.items():
            stream += [f"D {path}"] if text is None else [f"M 100644 inline {path}", f"data {len(text)}", text]
    subprocess.run(["git", "fast-import", "--quiet"], cwd=root, input="\n".join([*stream, ""]), text=True, check=True)


def findings(tmp_path: Path, steps: list[Step]) -> list[str]:
    root = tmp_path / "project"
    git(tmp_path, "init", "-q", "--template=", "project")
    write(root, steps)
    repo = Repo(layout.find(str(root)))
    try:
        return Replay().run(repo, "refs/heads/gitteam")
    finally:
        repo.close()


@pytest.mark.parametrize("name", GOOD)
def test_a_right_history_has_no_findings(name: str, tmp_path: Path) -> None:
    assert findings(tmp_path, GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_history_is_flagged_at_its_last_step(name: str, tmp_path: Path) -> None:
    steps, expected = BAD[name]
    found = findings(tmp_path, steps)
    assert any(expected in finding for finding in found), found
    tip = git(tmp_path / "project", "rev-parse", "gitteam")
    assert {finding.partition(":")[0] for finding in found} == {tip[:10]}


def test_merges_are_right_where_people_merge(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "project")
    write(root, BAD["a merge"][0])
    repo = Repo(layout.find(str(root)))
    assert Replay().run(repo, "refs/heads/gitteam", merges_allowed=True) == []
    repo.close()


def test_doctor_shows_a_wrong_history_and_the_command_to_look_at_it(tmp_path: Path) -> None:
    root = new_board(tmp_path / "project")
    write(root, BAD["double claim"][0])
    tip = git(root, "rev-parse", "gitteam")[:10]
    found = call(root, "doctor")
    assert found.code == 1
    assert f"history: {tip}: #1 claimed by bob" in found.out
    assert f"git show {tip}" in found.out


def test_an_order_that_cannot_have_been_is_flagged() -> None:
    check_order([(1, 0.0, 1.0), (2, 0.5, 2.0), (3, 2.5, 3.0)])
    with pytest.raises(AssertionError, match="order"):
        check_order([(1, 2.5, 3.0), (2, 0.5, 2.0)])
