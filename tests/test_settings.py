"""Settings: what a person may write, and one line for what they may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

from gitteam import Team
from gitteam.agents.settings import Settings, read_settings
from gitteam.errors import BadInput

NUMBERS = [0, -1, "60", None, True, [], {}, float("nan"), float("inf"), 1e12, 10**400]


def test_what_is_not_said_has_a_value() -> None:
    assert read_settings({}) == Settings()
    assert (Settings().idle_timeout, Settings().max_turns) == (60, 50)


def test_each_setting_can_be_said() -> None:
    said = {
        "model": "m", "idle_timeout": 0.5, "max_turns": 3, "max_tokens": 100, "context_window": 5000,
        "give_up_after": 1, "stall_timeout": 2.5,
    }  # fmt: skip
    assert read_settings(said) == Settings(**said)


@pytest.mark.parametrize("never", ["never", None])
def test_a_member_may_wait_for_ever(never: str | None) -> None:
    assert read_settings({"idle_timeout": never}).idle_timeout is None


def test_what_is_not_about_agents_is_left_alone() -> None:
    assert read_settings({"durability": "fast", "colour": [1]}) == Settings()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("model", value) for value in ("", "  ", 5, None, ["m"], True)),
        *(("idle_timeout", value) for value in (*[n for n in NUMBERS if n is not None], "Never", "")),
        *((key, value) for key in ("give_up_after", "stall_timeout") for value in NUMBERS),
        *((key, v) for key in ("max_turns", "max_tokens", "context_window") for v in (*NUMBERS, 0.5, 2.0)),
    ],
)
def test_a_bad_value_is_one_line_that_names_the_file(key: str, value: Any) -> None:
    with pytest.raises(BadInput) as error:
        read_settings({key: value})
    line = str(error.value)
    assert line.startswith(f".team/config.json: settings: {key} is a ")
    assert "\n" not in line
    assert len(line) < 200


def test_up_refuses_a_bad_setting_with_one_line(team: Team, repo: Path, run: Run) -> None:
    path = repo / ".team/config.json"
    config = json.loads(path.read_text())
    config["settings"]["max_turns"] = "many"
    path.write_text(json.dumps(config))
    refused = run("up", ANTHROPIC_API_KEY="test", ANTHROPIC_BASE_URL="http://127.0.0.1:1")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == ("gitteam: .team/config.json: settings: max_turns is a whole number above 0, not 'many'\n")
