"""Validates a pod beyond its schema: names, references, paths and quantities, as Kubernetes does."""

import ipaddress
from collections.abc import Callable, Iterator
from typing import Any, Final

from launcher.core.errors import FieldError
from launcher.core.json_access import as_list, as_object, text
from launcher.core.parsing.field_path import format_path
from launcher.core.validation.containers import container_errors
from launcher.core.validation.field_errors import duplicate, invalid, required
from launcher.core.validation.names import dns_label_error, label_key_error, name_error
from launcher.core.validation.placeholders import Fill, as_written
from launcher.core.validation.placement import label_errors, placement_errors
from launcher.core.validation.resources import resource_errors
from launcher.core.validation.volumes import name_errors, volume_errors

#: Fields of a pod spec that are names.
_NAMES: Final[dict[str, Callable[[str], str | None]]] = {
    "hostname": dns_label_error,
    "subdomain": dns_label_error,
    "nodeName": name_error,
    "priorityClassName": name_error,
    "runtimeClassName": name_error,
    "schedulerName": name_error,
    "serviceAccountName": name_error,
}
#: Fields of a pod spec that select nodes.
_PLACEMENT: Final = ("affinity", "nodeSelector", "tolerations", "topologySpreadConstraints")


def pod_errors(pod: Any, field: str, fill: Fill = as_written) -> Iterator[FieldError]:
    """
    Errors of the pod or template at *field*; values of a wrong type are skipped.

    *fill* replaces placeholders in a string of a template.
    """
    spec, path = as_object(as_object(pod).get("spec")), f"{field}.spec"
    if metadata := as_object(as_object(pod).get("metadata")):
        yield from _metadata_errors(metadata, f"{field}.metadata", fill)
    for name in spec.keys() & _NAMES.keys():
        if (value := text(spec[name])) and (error := _NAMES[name](fill(value))):
            yield invalid(f"{path}.{name}", value, error)
    if not as_list(spec.get("containers")):
        yield required(f"{path}.containers", "a pod needs at least one container")
    if spec.get("volumes"):
        yield from volume_errors(spec["volumes"], f"{path}.volumes", fill)
    volumes = {fill(text(as_object(volume).get("name"))): None for volume in as_list(spec.get("volumes"))}
    names: set[str] = set()
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(as_list(spec.get(kind))):
            at = f"{path}.{kind}[{index}]"
            yield from name_errors(as_object(container).get("name"), f"{at}.name", fill, names, "container")
            yield from container_errors(as_object(container), at, volumes, fill)
    if resources := spec.get("resources"):
        yield from resource_errors(resources, f"{path}.resources", fill)
    if not spec.keys().isdisjoint(_PLACEMENT):
        yield from placement_errors(spec, path, fill)
    yield from _host_errors(spec, path, fill)
    yield from _gate_errors(spec, path)


def _metadata_errors(metadata: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    yield from label_errors(metadata.get("labels"), (field, "labels"), fill)
    for key in as_object(metadata.get("annotations")):
        # As in Kubernetes, keys of annotations are validated in lower case.
        if error := label_key_error(fill(key).lower()):
            yield invalid(f"{field}.{format_path(('annotations', key))}", key, error)


def _host_errors(spec: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    """Errors of ``hostAliases`` and ``imagePullSecrets``."""
    for index, alias in enumerate(as_list(spec.get("hostAliases"))):
        path, address = f"{field}.hostAliases[{index}]", as_object(alias).get("ip")
        if isinstance(address, str) and not _is_address(fill(address)):
            yield invalid(f"{path}.ip", address, "must be an IP address")
        for number, name in enumerate(as_list(as_object(alias).get("hostnames"))):
            if isinstance(name, str) and (error := name_error(fill(name))):
                yield invalid(f"{path}.hostnames[{number}]", name, error)
    for index, secret in enumerate(as_list(spec.get("imagePullSecrets"))):
        name = text(as_object(secret).get("name"))
        if name and (error := name_error(fill(name))):
            yield invalid(f"{field}.imagePullSecrets[{index}].name", name, error)


def _gate_errors(spec: dict[str, Any], field: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, gate in enumerate(as_list(spec.get("schedulingGates"))):
        name = as_object(gate).get("name")
        if not isinstance(name, str):
            continue
        if error := label_key_error(name):
            yield invalid(f"{field}.schedulingGates[{index}].name", name, error)
        elif name in names:
            yield duplicate(
                f"{field}.schedulingGates[{index}].name", name, "names of scheduling gates must be unique"
            )
        names.add(name)


def _is_address(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True
