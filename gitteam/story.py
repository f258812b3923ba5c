"""What a commit says about itself: a sentence for people, trailers for programs."""

from __future__ import annotations

from dataclasses import dataclass, field

from gitteam.records import Task
from gitteam.render import visible


@dataclass
class Story:
    """What a commit says about itself."""

    event: str = ""
    sentences: list[str] = field(default_factory=list)
    tasks: set[int] = field(default_factory=set)
    body: str = ""
    trailers: dict[str, str] = field(default_factory=dict)

    def tell(self, event: str, sentence: str, task: Task | None = None) -> None:
        self.event = self.event or event
        self.sentences.append(sentence)
        if task:
            self.tasks.add(task.id)

    def message(self, op: str) -> str:
        subject, *more = [" ".join(visible(s).split())[:200] for s in self.sentences]
        # Indented, so that no line of somebody's text can pass for a trailer.
        body = [f"    {visible(line)}" for line in self.body.splitlines()]
        trailers = {"Team-Op": op, "Team-Event": self.event, **self.trailers}
        if len(self.tasks) == 1:
            trailers["Team-Task"] = str(*self.tasks)
        parts = [[subject], more, body, [f"{key}: {value}" for key, value in trailers.items()]]
        return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
