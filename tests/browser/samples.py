"""Frameworks for the tests of the dashboard."""

from collections.abc import Mapping
from typing import Any


def framework(
    name: str, command: str, *, tasks: int = 1, role: str = "worker", labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A Framework with one role, whose tasks run that shell command."""
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", command]}
    pod = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}}
    return {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"taskRoles": [{"name": role, "taskNumber": tasks, "task": {"pod": pod}}]},
    }
