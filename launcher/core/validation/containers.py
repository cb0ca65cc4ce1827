"""Containers of a pod: names, ports, variables, mounts, probes and resources, as Kubernetes requires them."""

from collections.abc import Collection, Iterator
from typing import Any, Final

from launcher.core.errors import FieldError
from launcher.core.validation.field_errors import duplicate, forbidden, invalid, not_found, required
from launcher.core.validation.field_references import VARIABLE_FIELDS, reference_problems, source_problems
from launcher.core.validation.names import entry_key_fault, port_name_fault, variable_fault
from launcher.core.validation.placeholders import Fill
from launcher.core.validation.pod_template import as_list, as_object, text
from launcher.core.validation.resources import resource_problems
from launcher.core.validation.volumes import object_name_problems, relative_path_fault

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")


def container_problems(
    container: dict[str, Any], field: str, volumes: Collection[str], fill: Fill
) -> Iterator[FieldError]:
    """Each rule that the container at *field* breaks but for its name; *volumes* are those of its pod."""
    if ports := container.get("ports"):
        yield from _port_problems(ports, f"{field}.ports", fill)
    if container.get("env") or container.get("envFrom"):
        yield from _variable_problems(container, field, fill)
    if mounts := container.get("volumeMounts"):
        yield from _mount_problems(mounts, f"{field}.volumeMounts", volumes, fill)
    if resources := container.get("resources"):
        yield from resource_problems(resources, f"{field}.resources", fill)
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            yield from _handler_problems(probe, f"{field}.{name}", _PROBE_HANDLERS, fill)
    for name, hook in as_object(container.get("lifecycle")).items():
        if name in ("postStart", "preStop") and hook is not None:
            yield from _handler_problems(hook, f"{field}.lifecycle.{name}", _HOOK_HANDLERS, fill)


def _port_problems(ports: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(as_list(ports)):
        name = text(as_object(port).get("name"))
        if not name:
            continue
        if fault := port_name_fault(fill(name)):
            yield invalid(f"{field}[{index}].name", name, fault)
        elif name in names:
            yield duplicate(
                f"{field}[{index}].name", name, "each port of a container needs a name of its own"
            )
        names.add(name)


def _variable_problems(container: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    for index, variable in enumerate(as_list(container.get("env"))):
        given, where = as_object(variable), f"{field}.env[{index}]"
        yield from _variable_name_problems(given.get("name"), f"{where}.name", fill)
        if given.get("valueFrom") is not None:
            yield from _value_problems(given, where, fill)
    for index, source in enumerate(as_list(container.get("envFrom"))):
        given, where = as_object(source), f"{field}.envFrom[{index}]"
        if prefix := text(given.get("prefix")):
            yield from _variable_name_problems(prefix, f"{where}.prefix", fill)
        references = [name for name in ("configMapRef", "secretRef") if given.get(name) is not None]
        if len(references) != 1:
            yield required(where, "one of configMapRef and secretRef")
        for name in references:
            yield from object_name_problems(as_object(given[name]).get("name"), f"{where}.{name}.name", fill)


def _variable_name_problems(name: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    if not isinstance(name, str):
        return
    if not name:
        yield required(field)
    elif fault := variable_fault(fill(name)):
        yield invalid(field, name, fault)


def _value_problems(variable: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    source, where = as_object(variable["valueFrom"]), f"{field}.valueFrom"
    if variable.get("value"):
        yield forbidden(where, "there is a value already")
    yield from source_problems(source, where)
    yield from reference_problems(source, where, VARIABLE_FIELDS, fill)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if source.get(name) is not None:
            reference = as_object(source[name])
            yield from object_name_problems(reference.get("name"), f"{where}.{name}.name", fill)
            key = reference.get("key")
            if isinstance(key, str) and (fault := entry_key_fault(fill(key))):
                yield invalid(f"{where}.{name}.key", key, fault)


def _mount_problems(mounts: Any, field: str, volumes: Collection[str], fill: Fill) -> Iterator[FieldError]:
    paths: set[str] = set()
    for index, mount in enumerate(as_list(mounts)):
        given, where = as_object(mount), f"{field}[{index}]"
        volume, path = given.get("name"), given.get("mountPath")
        if isinstance(volume, str) and fill(volume) not in volumes:
            yield not_found(f"{where}.name", volume, volumes, "volume in the pod")
        if isinstance(path, str):
            if not path:
                yield required(f"{where}.mountPath", "an absolute path in the container")
            elif path in paths:
                yield duplicate(
                    f"{where}.mountPath", path, "another volume of the container is mounted there"
                )
            paths.add(path)
        for name in ("subPath", "subPathExpr"):
            if fault := relative_path_fault(fill(text(given.get(name)))):
                yield invalid(f"{where}.{name}", given[name], fault)
        if given.get("subPath") and given.get("subPathExpr"):
            yield forbidden(f"{where}.subPathExpr", "there is a subPath already")


def _handler_problems(
    handler: Any, field: str, handlers: tuple[str, ...], fill: Fill
) -> Iterator[FieldError]:
    given = [name for name in handlers if as_object(handler).get(name) is not None]
    if not given:
        yield required(field, f"one of {', '.join(handlers)}")
    elif len(given) > 1:
        yield forbidden(f"{field}.{given[1]}", f"there is an action already: {given[0]}")
    for name in given:
        action, where = as_object(handler[name]), f"{field}.{name}"
        port = action.get("port")
        if isinstance(port, str) and (fault := port_name_fault(fill(port))):
            yield invalid(f"{where}.port", port, f"{fault}; a port number is written without quotes")
        if name == "exec" and not as_list(action.get("command")):
            yield required(f"{where}.command")
