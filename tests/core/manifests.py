"""Frameworks as users write them: small ones to build upon, every sample there is, and values to spoil them with."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

PROJECT = Path(__file__).parents[2]
#: The documents that the product was asked from, where they are at hand.
SEEDS = PROJECT.parent / "shared" / "seeds"


def a_pod(**spec: Any) -> Json:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def a_role(name: str = "worker", tasks: int = 2, *, pod: Json | None = None, **fields: Any) -> Json:
    return {"name": name, "taskNumber": tasks, "task": {"pod": pod or a_pod()}, **fields}


def a_framework(*roles: Json, name: str = "mnist", **spec: Any) -> Json:
    return {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": name},
        "spec": {**spec, "taskRoles": list(roles or (a_role(),))},
    }


def samples() -> Iterator[tuple[str, bytes]]:
    """Each of our examples, and each sample of the manual as it is printed."""
    for example in sorted((PROJECT / "examples").glob("*.yaml")):
        yield example.stem, example.read_bytes()
    for manual in sorted(SEEDS.glob("004*.txt")):
        for number, printed in enumerate(re.findall(r"```yaml\n(.*?)```", manual.read_text(), re.DOTALL)):
            yield f"manual-{number}", printed.encode()


#: Plain JSON of any kind, small.
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(-1e18, 1e18, allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(
        ["worker", "ps", "Start", "Ready", "Never", "yes", "0,2-5", "auto", "Framework", "worker\n"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def full_framework() -> Json:
    """A valid Framework that uses every field of ours, and of the pod's those that people use."""
    pod = a_pod(
        initContainers=[
            {"name": "init", "image": "busybox", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        ],
        volumes=[
            {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "n", "nfs": {"server": "s", "path": "/"}},
        ],
        nodeSelector={"disk": "ssd"},
        hostNetwork=True,
        tolerations=[{"operator": "Exists"}],
    )
    ps = a_role("ps", 2, pod=a_pod())
    worker = a_role(
        "worker",
        3,
        pod=pod,
        startAfter=[{"role": "ps", "condition": "Running", "atLeast": 1}],
        frameworkAttemptCompletionPolicy={
            "minFailedTaskCount": 1,
            "minSucceededTaskCount": 3,
            "succeededIndexes": "0,1-2",
        },
        background=False,
    )
    worker["task"] |= {
        "retryPolicy": {
            "fancyRetryPolicy": True,
            "maxRetryCount": -1,
            "retryableExitCodes": "128-255",
        },
        "podGracefulDeletionTimeoutSec": 30,
        "pendingDeadlineSeconds": 600,
    }
    return a_framework(
        ps,
        worker,
        description="all of it",
        executionType="Create",
        retryPolicy={"fancyRetryPolicy": True, "maxRetryCount": 3},
        roleSequence=["ps", "worker"],
        gang={"timeoutSeconds": 60, "minTasks": 2, "queue": "team"},
        discovery={
            "mountPath": "/peers",
            "ports": {"ps": 46867, "worker": "auto"},
            "waitForPorts": True,
            "timeoutSeconds": 600,
            "image": "busybox",
        },
        activeDeadlineSeconds=86400,
        ttlSecondsAfterFinished=60,
        cleanPodPolicy="All",
    )


def places_in(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value inside *value*."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*path, key)
        yield from places_in(below, (*path, key))


def put(obj: Any, path: tuple[str | int, ...], value: Any) -> None:
    """Change *obj* at *path*."""
    for step in path[:-1]:
        obj = obj[step]
    obj[path[-1]] = value
