"""Validates containers of a pod: ports, variables, mounts, probes and resources."""

from collections.abc import Collection, Iterator
from typing import Any, Final

from launcher.core.errors import FieldError
from launcher.core.json_access import as_list, as_object, text
from launcher.core.validation.field_errors import duplicate, forbidden, invalid, not_found, required
from launcher.core.validation.field_references import VARIABLE_FIELDS, reference_errors, source_errors
from launcher.core.validation.names import entry_key_error, port_name_error, variable_error
from launcher.core.validation.placeholders import Fill
from launcher.core.validation.resources import resource_errors
from launcher.core.validation.volumes import object_name_errors, relative_path_error

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")


def container_errors(
    container: dict[str, Any], field: str, volumes: Collection[str], fill: Fill
) -> Iterator[FieldError]:
    """Errors of the container at *field*, except of its name; *volumes* are those of its pod."""
    if ports := container.get("ports"):
        yield from _port_errors(ports, f"{field}.ports", fill)
    if container.get("env") or container.get("envFrom"):
        yield from _variable_errors(container, field, fill)
    if mounts := container.get("volumeMounts"):
        yield from _mount_errors(mounts, f"{field}.volumeMounts", volumes, fill)
    if resources := container.get("resources"):
        yield from resource_errors(resources, f"{field}.resources", fill)
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            yield from _handler_errors(probe, f"{field}.{name}", _PROBE_HANDLERS, fill)
    for name, hook in as_object(container.get("lifecycle")).items():
        if name in ("postStart", "preStop") and hook is not None:
            yield from _handler_errors(hook, f"{field}.lifecycle.{name}", _HOOK_HANDLERS, fill)


def _port_errors(ports: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(as_list(ports)):
        name = text(as_object(port).get("name"))
        if not name:
            continue
        if error := port_name_error(fill(name)):
            yield invalid(f"{field}[{index}].name", name, error)
        elif name in names:
            yield duplicate(f"{field}[{index}].name", name, "names of ports must be unique in a container")
        names.add(name)


def _variable_errors(container: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    for index, variable in enumerate(as_list(container.get("env"))):
        fields, path = as_object(variable), f"{field}.env[{index}]"
        yield from _variable_name_errors(fields.get("name"), f"{path}.name", fill)
        if fields.get("valueFrom") is not None:
            yield from _value_errors(fields, path, fill)
    for index, source in enumerate(as_list(container.get("envFrom"))):
        fields, path = as_object(source), f"{field}.envFrom[{index}]"
        if prefix := text(fields.get("prefix")):
            yield from _variable_name_errors(prefix, f"{path}.prefix", fill)
        references = [name for name in ("configMapRef", "secretRef") if fields.get(name) is not None]
        if len(references) != 1:
            yield required(path, "must be one of configMapRef and secretRef")
        for name in references:
            yield from object_name_errors(as_object(fields[name]).get("name"), f"{path}.{name}.name", fill)


def _variable_name_errors(name: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    if not isinstance(name, str):
        return
    if not name:
        yield required(field)
    elif error := variable_error(fill(name)):
        yield invalid(field, name, error)


def _value_errors(variable: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    source, path = as_object(variable["valueFrom"]), f"{field}.valueFrom"
    if variable.get("value"):
        yield forbidden(path, "may not be specified together with value")
    yield from source_errors(source, path)
    yield from reference_errors(source, path, VARIABLE_FIELDS, fill)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if source.get(name) is not None:
            reference = as_object(source[name])
            yield from object_name_errors(reference.get("name"), f"{path}.{name}.name", fill)
            key = reference.get("key")
            if isinstance(key, str) and (error := entry_key_error(fill(key))):
                yield invalid(f"{path}.{name}.key", key, error)


def _mount_errors(mounts: Any, field: str, volumes: Collection[str], fill: Fill) -> Iterator[FieldError]:
    paths: set[str] = set()
    for index, mount in enumerate(as_list(mounts)):
        fields, path = as_object(mount), f"{field}[{index}]"
        volume, mount_path = fields.get("name"), fields.get("mountPath")
        if isinstance(volume, str) and fill(volume) not in volumes:
            yield not_found(f"{path}.name", volume, volumes, "volume in the pod")
        if isinstance(mount_path, str):
            if not mount_path:
                yield required(f"{path}.mountPath", "must be an absolute path in the container")
            elif mount_path in paths:
                yield duplicate(f"{path}.mountPath", mount_path, "mount paths must be unique in a container")
            paths.add(mount_path)
        for name in ("subPath", "subPathExpr"):
            if error := relative_path_error(fill(text(fields.get(name)))):
                yield invalid(f"{path}.{name}", fields[name], error)
        if fields.get("subPath") and fields.get("subPathExpr"):
            yield forbidden(f"{path}.subPathExpr", "may not be specified together with subPath")


def _handler_errors(handler: Any, field: str, handlers: tuple[str, ...], fill: Fill) -> Iterator[FieldError]:
    names = [name for name in handlers if as_object(handler).get(name) is not None]
    if not names:
        yield required(field, f"must be one of {', '.join(handlers)}")
    elif len(names) > 1:
        yield forbidden(f"{field}.{names[1]}", f"may not be specified together with {names[0]}")
    for name in names:
        action, path = as_object(handler[name]), f"{field}.{name}"
        port = action.get("port")
        if isinstance(port, str) and (error := port_name_error(fill(port))):
            yield invalid(f"{path}.port", port, f"{error}; write a port number without quotes")
        if name == "exec" and not as_list(action.get("command")):
            yield required(f"{path}.command")
