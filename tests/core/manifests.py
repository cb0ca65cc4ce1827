"""Manifests of Frameworks: all samples, one that uses every field, and tools that change them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.builders import Json, a_framework, a_pod_template, a_role

PROJECT = Path(__file__).parents[2]
#: The source documents, on machines that have them.
SEEDS = PROJECT.parent / "shared" / "seeds"


def samples() -> Iterator[tuple[str, bytes]]:
    """Every example, and every sample of the manual."""
    for example in sorted((PROJECT / "examples").glob("*.yaml")):
        yield example.stem, example.read_bytes()
    for manual in sorted(SEEDS.glob("004*.txt")):
        for number, printed in enumerate(re.findall(r"```yaml\n(.*?)```", manual.read_text(), re.DOTALL)):
            yield f"manual-{number}", printed.encode()


#: Small JSON values of any type.
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
    """A valid Framework that uses every field of the launcher and common fields of pods."""
    pod = a_pod_template(
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
    ps = a_role("ps", 2, pod=a_pod_template())
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
        "progressDeadlineSeconds": 900,
        "podFailureSpec": [
            {
                "code": 300,
                "phrase": "OutOfGpuMemory",
                "type": {"name": "Failed", "attributes": ["Transient", "Conflict"]},
                "podPatterns": [
                    {
                        "nameRegex": "worker",
                        "reasonRegex": "^Error$",
                        "messageRegex": "x",
                        "containers": [
                            {
                                "nameRegex": "^main$",
                                "reasonRegex": "Error",
                                "messageRegex": "(?i)out of memory",
                                "signalRange": {"min": 0, "max": 0},
                                "codeRange": {"min": 1, "max": 127},
                            }
                        ],
                        "conditions": [
                            {"typeRegex": "^Disrupt", "reasonRegex": "x", "messageRegex": "y"},
                        ],
                    }
                ],
            }
        ],
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
        attemptHistoryLimit=5,
        cleanPodPolicy="All",
    )


def paths_in(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value inside *value*."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*path, key)
        yield from paths_in(below, (*path, key))


def set_value(obj: Any, path: tuple[str | int, ...], value: Any) -> None:
    """Sets the value at *path* in *obj*."""
    for step in path[:-1]:
        obj = obj[step]
    obj[path[-1]] = value
