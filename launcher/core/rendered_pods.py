"""The pods of a Framework before it is created."""

from collections.abc import Iterator
from typing import Any

from launcher.core.framework import Framework
from launcher.core.pods.dns_overlay import dns_overlays
from launcher.core.pods.pod_template import compile_templates

Json = dict[str, Any]


def rendered_pods(framework: Framework, max_per_role: int | None = None) -> Iterator[Json]:
    """One pod per task of the first attempt, by role and index, without fields that only a running launcher sets."""
    templates = compile_templates(framework, 0, dns_overlays(framework))
    for role in framework.spec.roles:
        for index in range(role.tasks if max_per_role is None else min(role.tasks, max_per_role)):
            pod = templates[role.name].pod(index, 0, 0)
            yield {member: pod[member] for member in ("apiVersion", "kind", "metadata", "spec")}
