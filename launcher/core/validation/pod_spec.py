"""What a pod must keep to beyond its structure: names, references, paths and amounts, as Kubernetes requires."""

import ipaddress
from collections.abc import Callable, Iterator
from typing import Any, Final

from launcher.core.errors import FieldError
from launcher.core.parsing.field_path import written
from launcher.core.validation.containers import container_problems
from launcher.core.validation.field_errors import duplicate, invalid, required
from launcher.core.validation.names import dns_label_fault, label_key_fault, name_fault
from launcher.core.validation.placeholders import Fill, as_written
from launcher.core.validation.placement import label_problems, placement_problems
from launcher.core.validation.pod_template import as_list, as_object, text
from launcher.core.validation.resources import resource_problems
from launcher.core.validation.volumes import name_problems, volume_problems

#: Fields of a pod spec that name something.
_NAMES: Final[dict[str, Callable[[str], str | None]]] = {
    "hostname": dns_label_fault,
    "subdomain": dns_label_fault,
    "nodeName": name_fault,
    "priorityClassName": name_fault,
    "runtimeClassName": name_fault,
    "schedulerName": name_fault,
    "serviceAccountName": name_fault,
}
#: Fields of a pod spec by which it chooses nodes.
_PLACEMENT: Final = ("affinity", "nodeSelector", "tolerations", "topologySpreadConstraints")


def pod_problems(pod: Any, field: str, fill: Fill = as_written) -> Iterator[FieldError]:
    """
    Each rule that the pod or template at *field* breaks; what has not its proper shape is passed over.

    *fill* returns a text of a template as one of its pods has it.
    """
    spec, where = as_object(as_object(pod).get("spec")), f"{field}.spec"
    if metadata := as_object(as_object(pod).get("metadata")):
        yield from _metadata_problems(metadata, f"{field}.metadata", fill)
    for name in spec.keys() & _NAMES.keys():
        if (given := text(spec[name])) and (fault := _NAMES[name](fill(given))):
            yield invalid(f"{where}.{name}", given, fault)
    if not as_list(spec.get("containers")):
        yield required(f"{where}.containers", "a pod needs at least one container")
    if spec.get("volumes"):
        yield from volume_problems(spec["volumes"], f"{where}.volumes", fill)
    volumes = {fill(text(as_object(volume).get("name"))): None for volume in as_list(spec.get("volumes"))}
    names: set[str] = set()
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(as_list(spec.get(kind))):
            at = f"{where}.{kind}[{index}]"
            yield from name_problems(as_object(container).get("name"), f"{at}.name", fill, names, "container")
            yield from container_problems(as_object(container), at, volumes, fill)
    if resources := spec.get("resources"):
        yield from resource_problems(resources, f"{where}.resources", fill)
    if not spec.keys().isdisjoint(_PLACEMENT):
        yield from placement_problems(spec, where, fill)
    yield from _host_problems(spec, where, fill)
    yield from _gate_problems(spec, where)


def _metadata_problems(metadata: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    yield from label_problems(metadata.get("labels"), (field, "labels"), fill)
    for key in as_object(metadata.get("annotations")):
        # As in Kubernetes, the key of an annotation is looked at in lower case.
        if fault := label_key_fault(fill(key).lower()):
            yield invalid(f"{field}.{written(('annotations', key))}", key, fault)


def _host_problems(spec: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    """Of what is written to the hosts file, and of the secrets for pulling images."""
    for index, alias in enumerate(as_list(spec.get("hostAliases"))):
        where, address = f"{field}.hostAliases[{index}]", as_object(alias).get("ip")
        if isinstance(address, str) and not _is_address(fill(address)):
            yield invalid(f"{where}.ip", address, "must be an IP address")
        for number, name in enumerate(as_list(as_object(alias).get("hostnames"))):
            if isinstance(name, str) and (fault := name_fault(fill(name))):
                yield invalid(f"{where}.hostnames[{number}]", name, fault)
    for index, secret in enumerate(as_list(spec.get("imagePullSecrets"))):
        name = text(as_object(secret).get("name"))
        if name and (fault := name_fault(fill(name))):
            yield invalid(f"{field}.imagePullSecrets[{index}].name", name, fault)


def _gate_problems(spec: dict[str, Any], field: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, gate in enumerate(as_list(spec.get("schedulingGates"))):
        name = as_object(gate).get("name")
        if not isinstance(name, str):
            continue
        if fault := label_key_fault(name):
            yield invalid(f"{field}.schedulingGates[{index}].name", name, fault)
        elif name in names:
            yield duplicate(
                f"{field}.schedulingGates[{index}].name", name, "each gate needs a name of its own"
            )
        names.add(name)


def _is_address(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True
