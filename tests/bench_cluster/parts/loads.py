"""Loads: a number of tasks in groups, as Frameworks, as Jobs, or as plain pods."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from launcher.core.framework import Framework
from launcher.core.names import PodIdentityKey
from launcher.core.pods.pod_template import compile_templates
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.spec import FrameworkName
from launcher.store.interface import FRAMEWORKS

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Load:
    """*groups* Frameworks with *roles* roles of *each* tasks."""

    name: str
    groups: int
    roles: int
    each: int
    #: Whether its pods succeed as soon as they run; else they keep running.
    ends: bool

    @property
    def tasks(self) -> int:
        return self.groups * self.roles * self.each

    def __str__(self) -> str:
        return f"{self.name}, pods that {'succeed at once' if self.ends else 'keep running'}"

    def frameworks(self, namespace: str) -> list[Object]:
        return [self._framework(namespace, f"load-{number}") for number in range(self.groups)]

    def jobs(self, namespace: str) -> list[Object]:
        """An Indexed Job for each role."""
        return [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": f"load-{number}-{role}", "namespace": namespace},
                "spec": {
                    "completionMode": "Indexed",
                    "completions": self.each,
                    "parallelism": self.each,
                    "backoffLimit": 0,
                    "template": self._pod(),
                },
            }
            for number in range(self.groups)
            for role in range(self.roles)
        ]

    def pods(self, namespace: str) -> Iterator[Object]:
        """The pods that the launcher would create for the Frameworks, without an owner."""
        for obj in self.frameworks(namespace):
            framework = Framework(
                name=FrameworkName(obj["metadata"]["name"]),
                namespace=namespace,
                uid="00000000-0000-4000-8000-000000000000",
                generation=1,
                spec=spec_from_json(obj["spec"]),
                status=None,
            )
            for template in compile_templates(framework, 0).values():
                for index in range(self.each):
                    pod = template.pod(index, 0, 0)
                    # Pods with a missing owner would be deleted, and the launcher watches pods with this label.
                    del pod["metadata"]["ownerReferences"]
                    pod["metadata"]["labels"]["bare"] = pod["metadata"]["labels"].pop(
                        PodIdentityKey.FRAMEWORK_NAME
                    )
                    yield pod

    def _framework(self, namespace: str, name: str) -> Object:
        return {
            "apiVersion": FRAMEWORKS.api_version,
            "kind": FRAMEWORKS.kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "executionType": "Start",
                "taskRoles": [
                    {"name": f"role{role}", "taskNumber": self.each, "task": {"pod": self._pod()}}
                    for role in range(self.roles)
                ],
            },
        }

    def _pod(self) -> Object:
        annotations = {"launcher.test/ends": "succeeded"} if self.ends else {}
        container = {"name": "main", "image": "busybox", "command": ["sh", "-c", "work"]}
        return {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
