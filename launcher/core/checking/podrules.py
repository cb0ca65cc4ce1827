"""What a pod template must keep to beyond its shape, so that its pods can be made at all."""

from collections.abc import Iterator
from typing import Any

from launcher.core.checking.problems import duplicate, not_found, required
from launcher.core.errors import Problem


def pod_problems(pod: Any, field: str) -> Iterator[Problem]:
    """Each rule that the template at *field* breaks; what has not its proper shape is passed over."""
    spec = part(part(pod).get("spec"))
    where = f"{field}.spec"
    if not items(spec.get("containers")):
        yield required(f"{where}.containers", "a pod needs at least one container")
    volumes = {str(part(volume).get("name")): None for volume in items(spec.get("volumes"))}
    names: set[str] = set()
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(items(spec.get(kind))):
            yield from _container_problems(part(container), f"{where}.{kind}[{index}]", names, volumes)


def _container_problems(
    container: dict[str, Any], field: str, names: set[str], volumes: dict[str, None]
) -> Iterator[Problem]:
    name = container.get("name")
    if name == "":
        yield required(f"{field}.name")
    elif isinstance(name, str):
        if name in names:
            yield duplicate(f"{field}.name", name, "each container of a pod needs a name of its own")
        names.add(name)
    for index, mount in enumerate(items(container.get("volumeMounts"))):
        volume = part(mount).get("name")
        if isinstance(volume, str) and volume not in volumes:
            yield not_found(f"{field}.volumeMounts[{index}].name", volume, volumes, "volume in the pod")


def part(value: Any) -> dict[str, Any]:
    """The object, or an empty one where there is none."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The list, or an empty one where there is none."""
    return value if isinstance(value, list) else []
