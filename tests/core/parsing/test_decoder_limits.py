"""Parsing of malicious manifests is limited in time and memory and ends with a helpful error."""

import json
import subprocess
import sys
from typing import Any

from tests.core.manifests import PROJECT
from tests.core.parsing.malicious_manifests import INPUTS

#: Accepted manifests; all others are rejected.
ACCEPTED = {"unknown fields"}
REJECTIONS = {"BadRequest", "InvalidObject", "TooLarge"}
#: Maximum processor time, as a multiple of that of the largest valid manifest.
MAX_TIME_RATIO = 5


#: Maximum length of an error message: a hundred errors, each with its field.
MAX_MESSAGE_CHARACTERS = 40_000


def test_malicious_manifests_are_rejected_quickly_with_short_messages() -> None:
    results = parse_with_limited_memory()
    valid = results.pop("valid")

    rejected = {name for name, result in results.items() if result["error"] in REJECTIONS}
    slow = {
        name: result for name, result in results.items() if result["time"] > MAX_TIME_RATIO * valid["time"]
    }
    long = {name: result for name, result in results.items() if result["length"] > MAX_MESSAGE_CHARACTERS}

    assert valid["error"] == ""
    assert rejected == INPUTS.keys() - ACCEPTED, {
        name: results[name] for name in rejected ^ INPUTS.keys() - ACCEPTED
    }
    assert slow == {}, valid
    assert long == {}


def parse_with_limited_memory() -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.core.parsing.malicious_manifests"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    results: dict[str, Any] = json.loads(run.stdout)
    return results
