"""completionStatus from and to JSON."""

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Any

from launcher.core.completion_codes import (
    Attribute,
    Attributes,
    Completion,
    ContainerTermination,
    PodDetail,
    interned,
)


def pod_to_json(pod: PodDetail) -> dict[str, Any]:
    """The ``pod`` part of completionStatus; empty members are omitted, except name and code of a container."""
    containers = [_container_to_json(container) for container in pod.containers]
    return _without_empty({"reason": pod.reason, "message": pod.message, "containers": containers})


def completion_to_json(completion: Completion) -> dict[str, Any]:
    """The completionStatus of an attempt."""
    status: dict[str, Any] = {
        "code": completion.code,
        "phrase": completion.phrase,
        "type": {
            "name": "Failed" if completion.failed else "Succeeded",
            "attributes": [attribute.value for attribute in Attribute if attribute in completion.attributes],
        },
        "diagnostics": completion.diagnostics,
    }
    if completion.rule:
        status["failureRule"] = completion.rule
    if completion.pod is not None:
        status["pod"] = pod_to_json(completion.pod)
    return status


def completion_from_json(status: Mapping[str, Any]) -> Completion:
    """The Completion of a completionStatus; unknown keys and attributes are ignored."""
    kind = status.get("type") or {}
    pod = status.get("pod")
    return interned(
        Completion(
            code=status["code"],
            phrase=intern(status.get("phrase") or ""),
            failed=kind.get("name") != "Succeeded",
            attributes=_attributes(tuple(kind.get("attributes") or ())),
            diagnostics=status.get("diagnostics") or "",
            pod=None if pod is None else _pod_from_json(pod),
            rule=intern(status.get("failureRule") or ""),
        )
    )


@lru_cache(maxsize=64)
def _attributes(names: tuple[str, ...]) -> Attributes:
    return frozenset(attribute for attribute in Attribute if attribute in names)


def _container_to_json(container: ContainerTermination) -> dict[str, Any]:
    details = {"reason": container.reason, "message": container.message, "signal": container.signal}
    return {"name": container.name, **_without_empty(details), "code": container.code}


def _pod_from_json(pod: Mapping[str, Any]) -> PodDetail:
    return PodDetail(
        reason=intern(pod.get("reason") or ""),
        message=pod.get("message") or "",
        containers=tuple(
            ContainerTermination(
                name=intern(container.get("name") or ""),
                code=container.get("code") or 0,
                reason=intern(container.get("reason") or ""),
                message=container.get("message") or "",
                signal=container.get("signal") or 0,
            )
            for container in pod.get("containers") or ()
        ),
    )


def _without_empty(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}
