"""The cost of parsing and validating a Framework, compared with PyYAML's C loader for the same bytes."""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import yaml

from launcher.core.manifest import parse_framework
from launcher.core.parsing.decoder import Media
from tests.bench import Row, row
from tests.builders import a_framework, a_pod_template, a_role
from tests.core.manifests import PROJECT, samples

ROUNDS = 41


def rows() -> list[Row]:
    """Measures each kind of input as a multiple of the C loader."""
    example = (PROJECT / "examples" / "parameter-server.yaml").read_bytes()
    # Through JSON, so that the YAML has no aliases.
    large = yaml.safe_dump(json.loads(json.dumps(large_framework()))).encode()
    inputs = {
        "the largest example": example,
        "10,000 tasks in 100 KB": large,
        **manual(),
    }
    return [
        row(
            f"validation of {name} / PyYAML's C loader",
            ratio(reading(data, Media.YAML), loading(data)),
            "ratio",
            at_most=1.5,
        )
        for name, data in inputs.items()
    ] + [
        row(
            "validation of the largest example as JSON / PyYAML's C loader with it as YAML",
            ratio(reading(as_json(example), Media.JSON), loading(example)),
            "ratio",
            at_most=0.5,
        )
    ]


def manual() -> dict[str, bytes]:
    """The manual's largest sample, if the manual is available."""
    printed = [data for name, data in samples() if name.startswith("manual")]
    return {"the manual's largest sample": max(printed, key=len)} if printed else {}


def large_framework() -> dict[str, Any]:
    """Ten roles of a thousand tasks, with the long environment of generated pods."""
    environment = [{"name": f"SETTING_{n}", "value": f"a value of some length, {n}"} for n in range(150)]
    container = {"name": "main", "image": "trainer:1", "command": ["python", "train.py"], "env": environment}
    return a_framework(
        *(a_role(f"role{n}", 1000, pod=a_pod_template(containers=[container])) for n in range(10))
    )


def as_json(data: bytes) -> bytes:
    return json.dumps(yaml.safe_load(data)).encode()


def reading(data: bytes, media: Media) -> Callable[[], object]:
    return lambda: parse_framework(data, media=media)


def loading(data: bytes) -> Callable[[], object]:
    return lambda: yaml.load(data, Loader=yaml.CSafeLoader)


def ratio(measured: Callable[[], object], baseline: Callable[[], object]) -> float:
    """The median time of *measured* divided by that of *baseline*, measured in turns."""
    measured()
    baseline()
    pairs = [(seconds(measured), seconds(baseline)) for _ in range(ROUNDS)]
    return statistics.median(first for first, _ in pairs) / statistics.median(second for _, second in pairs)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
