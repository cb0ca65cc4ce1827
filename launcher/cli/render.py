"""The pods that a Framework's first attempt would have."""

from collections.abc import Iterator
from typing import Any

from launcher.cli.files import name_of
from launcher.core.materialize import PodTemplate
from launcher.core.wire import spec_from_json

#: Stands for the uid that the store will give the Framework.
_UID = "00000000-0000-0000-0000-000000000000"


def pods(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One pod per task, by role and index."""
    meta, spec = obj["metadata"], spec_from_json(obj["spec"])
    counts = {role.name: role.tasks for role in spec.roles}
    for role in spec.roles:
        template = PodTemplate.of(name_of(obj), meta.get("namespace", "default"), _UID, 0, role, counts)
        for index in range(role.tasks):
            pod = template.pod(index, 0, 0)
            yield {member: pod[member] for member in ("apiVersion", "kind", "metadata", "spec")}
