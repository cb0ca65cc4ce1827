"""The pods that a Framework's first attempt would have."""

from collections.abc import Iterator
from typing import Any

from launcher.cli.manifest_file import framework_of
from launcher.core.pods.dns_overlay import dns_overlays
from launcher.core.pods.pod_template import compile_templates


def pods(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One pod per task, by role and index, without what only a launcher that runs can give it."""
    framework = framework_of(obj)
    templates = compile_templates(framework, 0, dns_overlays(framework))
    for role in framework.spec.roles:
        for index in range(role.tasks):
            pod = templates[role.name].pod(index, 0, 0)
            yield {member: pod[member] for member in ("apiVersion", "kind", "metadata", "spec")}
