"""What it costs to read and check a Framework, in terms of what PyYAML's bare C loader takes for the same bytes."""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import yaml

from launcher.core.manifest import parse_framework
from launcher.core.parsing.decoder import Media
from tests.bench import Row, row
from tests.core.manifests import PROJECT, a_framework, a_pod, a_role, samples

ROUNDS = 41


def rows() -> list[Row]:
    """One row for each kind of input: how many times the cost of a bare load."""
    example = (PROJECT / "examples" / "parameter-server.yaml").read_bytes()
    # By way of JSON, so that what roles share is written out for each of them.
    large = yaml.safe_dump(json.loads(json.dumps(large_framework()))).encode()
    inputs = {
        "our largest example": example,
        "10,000 tasks in 100 KB": large,
        **manual(),
    }
    return [
        row(
            f"validation of {name} / PyYAML's bare C load",
            ratio(reading(data, Media.YAML), loading(data)),
            "ratio",
            at_most=1.5,
        )
        for name, data in inputs.items()
    ] + [
        row(
            "validation of our largest example as JSON / PyYAML's bare C load of it as YAML",
            ratio(reading(as_json(example), Media.JSON), loading(example)),
            "ratio",
            at_most=0.5,
        )
    ]


def manual() -> dict[str, bytes]:
    """The manual's largest sample, where the manual is at hand."""
    printed = [data for name, data in samples() if name.startswith("manual")]
    return {"the manual's largest sample": max(printed, key=len)} if printed else {}


def large_framework() -> dict[str, Any]:
    """Ten roles of a thousand tasks, with the long environment that generated pods tend to have."""
    environment = [{"name": f"SETTING_{n}", "value": f"a value of some length, {n}"} for n in range(150)]
    container = {"name": "main", "image": "trainer:1", "command": ["python", "train.py"], "env": environment}
    return a_framework(*(a_role(f"role{n}", 1000, pod=a_pod(containers=[container])) for n in range(10)))


def as_json(data: bytes) -> bytes:
    return json.dumps(yaml.safe_load(data)).encode()


def reading(data: bytes, media: Media) -> Callable[[], object]:
    return lambda: parse_framework(data, media=media)


def loading(data: bytes) -> Callable[[], object]:
    return lambda: yaml.load(data, Loader=yaml.CSafeLoader)


def ratio(ours: Callable[[], object], bare: Callable[[], object]) -> float:
    """The median cost of *ours* in terms of *bare*, taken in turns so that both meet the same weather."""
    ours()
    bare()
    pairs = [(seconds(ours), seconds(bare)) for _ in range(ROUNDS)]
    return statistics.median(our for our, _ in pairs) / statistics.median(other for _, other in pairs)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
