"""Whatever is sent, reading it ends soon, within its memory, and with an answer that helps."""

import json
import subprocess
import sys
from typing import Any

from tests.core.hostile import INPUTS
from tests.core.manifests import PROJECT

#: What is read to the end although it looks bad; everything else is refused.
HARMLESS = {"unknown fields"}
REFUSALS = {"BadRequest", "InvalidObject", "TooLarge"}
#: The most that a hostile request may cost, in terms of the largest honest one.
MOST_COST = 5


#: Characters of the longest answer: a hundred problems, each with its field.
LONGEST_ANSWER = 40_000


def test_hostile_requests_are_refused_soon_and_in_few_words() -> None:
    endings = read_in_a_process_with_little_memory()
    honest = endings.pop("honest")

    refused = {name for name, ending in endings.items() if ending["error"] in REFUSALS}
    late = {name: ending for name, ending in endings.items() if ending["time"] > MOST_COST * honest["time"]}
    long = {name: ending for name, ending in endings.items() if ending["length"] > LONGEST_ANSWER}

    assert honest["error"] == ""
    assert refused == INPUTS.keys() - HARMLESS, {
        name: endings[name] for name in refused ^ INPUTS.keys() - HARMLESS
    }
    assert late == {}, honest
    assert long == {}


def read_in_a_process_with_little_memory() -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.core.hostile"], cwd=PROJECT, capture_output=True, text=True, timeout=110
    )
    assert run.returncode == 0, run.stderr[-2000:]
    endings: dict[str, Any] = json.loads(run.stdout)
    return endings
