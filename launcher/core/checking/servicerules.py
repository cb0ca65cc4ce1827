"""What the annotations of a pod template that ask for names must keep to."""

from collections.abc import Iterator
from typing import Any

from launcher.core.checking.fieldpath import written
from launcher.core.checking.podrules import items, part
from launcher.core.checking.problems import required, unsupported
from launcher.core.errors import Problem
from launcher.core.services import ANNOTATION, Wish


def service_problems(pod: Any, field: str) -> Iterator[Problem]:
    """Each rule that the template at *field* breaks; what has not its proper shape is passed over."""
    annotations = part(part(part(pod).get("metadata")).get("annotations"))
    asked = annotations.get(ANNOTATION)
    if not isinstance(asked, str):
        return
    if asked not in list(Wish):
        where = written(("metadata", "annotations", ANNOTATION))
        yield unsupported(f"{field}.{where}", asked, [wish.value for wish in Wish])
    elif asked == Wish.NODE_PORT and not _has_ports(part(part(pod).get("spec"))):
        yield required(
            f"{field}.spec.containers[0].ports", f"a Service of type {asked} is asked for: to which port?"
        )


def _has_ports(spec: dict[str, Any]) -> bool:
    return any(items(part(container).get("ports")) for container in items(spec.get("containers")))
