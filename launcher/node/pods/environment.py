"""
The environment of a container.

Of the launcher's environment, which may contain secrets, a container gets only PATH: it uses this machine's files, so
its programs are where the launcher's user finds them. It also gets HOME, the home directory of its user, and HOSTNAME,
the pod's host name. Variables of the pod's spec override these.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.node.container_runtime import CREATE_ERROR, StartFailed
from launcher.node.pods.downward_api import DownwardApiContext, UnknownField, field_value, resource_value
from launcher.node.pods.hostname import host_name
from launcher.store.interface import CONFIG_MAPS, SECRETS, Object, ResourceKind

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expand(text: str, values: Mapping[str, str]) -> str:
    """*text* with every ``$(NAME)`` of a known variable replaced; ``$$`` is an escaped dollar sign."""
    if "$" not in text:
        return text
    return _REFERENCE.sub(lambda match: "$" if match[1] else values.get(match[2], match[0]), text)


def unknown_variables(text: str, values: Mapping[str, str]) -> list[str]:
    """The variables that *text* references and that have no value."""
    return [name for dollar, name in _REFERENCE.findall(text) if not dollar and name not in values]


#: The default PATH of images.
_STANDARD_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_REASON = "CreateContainerConfigError"
#: The names of the kinds in the kubelet's messages.
_KIND_NAMES = {CONFIG_MAPS: ("configmap", "ConfigMap"), SECRETS: ("secret", "Secret")}


@dataclass(frozen=True, slots=True)
class LocalObjectReference:
    """A reference to a ConfigMap or Secret in the pod's namespace."""

    kind: ResourceKind
    name: str
    optional: bool = False


#: The referenced objects that exist, by kind and name.
ReferencedObjects = Mapping[tuple[ResourceKind, str], Object]


@dataclass(frozen=True, slots=True)
class EnvironmentSources:
    """The sources of variables."""

    context: DownwardApiContext
    objects: ReferencedObjects = field(default_factory=dict)


def object_references(container: Mapping[str, Any]) -> Iterator[LocalObjectReference]:
    """The ConfigMaps and Secrets that the container's environment references."""
    for source in container.get("envFrom") or ():
        for kind, key in ((CONFIG_MAPS, "configMapRef"), (SECRETS, "secretRef")):
            if ref := source.get(key):
                yield LocalObjectReference(kind, ref.get("name", ""), bool(ref.get("optional")))
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom") or {}
        for kind, key in ((CONFIG_MAPS, "configMapKeyRef"), (SECRETS, "secretKeyRef")):
            if ref := origin.get(key):
                yield LocalObjectReference(kind, ref.get("name", ""), bool(ref.get("optional")))


def decoded_data(kind: ResourceKind, obj: Object) -> dict[str, bytes]:
    """The data of a ConfigMap or Secret, by key."""
    encoded = obj.get("data" if kind == SECRETS else "binaryData") or {}
    plain = obj.get("stringData" if kind == SECRETS else "data") or {}
    return {
        **{key: base64.b64decode(text) for key, text in encoded.items()},
        **{key: text.encode() for key, text in plain.items()},
    }


def base_environment(context: DownwardApiContext, path: str, home: str) -> dict[str, str]:
    """The variables of every container; *path* is the launcher's PATH, *home* the home directory of its user."""
    return {
        "PATH": _search_path(path),
        "HOME": home,
        "HOSTNAME": host_name(context.pod, "") or context.pod["metadata"]["name"],
    }


def container_environment(container: Mapping[str, Any], sources: EnvironmentSources) -> dict[str, str]:
    """The variables of the container's spec. Raises StartFailed for a missing object or key."""
    values: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        values |= _env_from(source, sources)
    for variable in container.get("env") or ():
        value = _value(variable, values, container, sources)
        if value is not None:
            values[variable["name"]] = value
    return values


def command_and_args(
    container: Mapping[str, Any], values: Mapping[str, str]
) -> tuple[Sequence[str], Sequence[str]]:
    """The command and the args of the container, with variables expanded; empty where it has none."""
    command, args = (
        [expand(word, values) for word in container.get(name) or ()] for name in ("command", "args")
    )
    return command, args


def check_command(container: Mapping[str, Any]) -> None:
    """
    Raise StartFailed for a container that has neither a command nor args, and whose image is not used.

    Without a command, the args are run, as those of an image without an entrypoint.
    """
    if not container.get("command") and not container.get("args"):
        # With the reason and the first words of a kubelet for such an image.
        raise StartFailed(
            CREATE_ERROR,
            f'no command specified: container "{container["name"]}" has neither command nor args; '
            f"{without_command(container)}",
        )


def without_command(container: Mapping[str, Any]) -> str:
    """What can be done for a container that needs the entrypoint of its image."""
    image = container.get("image") or "IMAGE"
    solutions = (
        "set command in its spec",
        f"start the launcher with --image {image}=DIR,entrypoint=COMMAND (DIR / is this machine's files)",
        "start it with --runtime docker",
    )
    return f"its image is not used: {', or '.join(solutions)}"


def _search_path(path: str) -> str:
    return ":".join(dict.fromkeys((*_absolute(path.split(":")), *_STANDARD_PATH)))


def _absolute(parts: Iterable[str]) -> Iterator[str]:
    """The absolute directories: a relative one depends on the working directory."""
    return (part for part in parts if part.startswith("/"))


def _env_from(source: Mapping[str, Any], sources: EnvironmentSources) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    values: dict[str, str] = {}
    for kind, key in ((CONFIG_MAPS, "configMapRef"), (SECRETS, "secretRef")):
        if ref := source.get(key):
            obj = _object(LocalObjectReference(kind, ref.get("name", ""), bool(ref.get("optional"))), sources)
            if obj is not None:
                values |= {prefix + name: _text(data, name) for name, data in decoded_data(kind, obj).items()}
    return values


def _value(
    variable: Mapping[str, Any],
    values: Mapping[str, str],
    container: Mapping[str, Any],
    sources: EnvironmentSources,
) -> str | None:
    """The variable's value; None if its source is optional and does not exist."""
    origin = variable.get("valueFrom")
    if not origin:
        return expand(variable.get("value") or "", values)
    try:
        if ref := origin.get("fieldRef"):
            return field_value(sources.context, ref["fieldPath"])
        if ref := origin.get("resourceFieldRef"):
            return resource_value(sources.context, _referenced_container(container, ref, sources), ref)
    except (UnknownField, ValueError) as error:
        raise StartFailed(_REASON, f'env "{variable["name"]}": {error}') from error
    for kind, key in ((CONFIG_MAPS, "configMapKeyRef"), (SECRETS, "secretKeyRef")):
        if ref := origin.get(key):
            return _from_key(kind, ref, sources)
    raise StartFailed(
        _REASON,
        f'env "{variable["name"]}": valueFrom.{next(iter(origin), "")} is not supported: use fieldRef, '
        "resourceFieldRef, configMapKeyRef or secretKeyRef",
    )


def _referenced_container(
    container: Mapping[str, Any], ref: Mapping[str, Any], sources: EnvironmentSources
) -> Mapping[str, Any]:
    """The container whose resources are referenced: this one, unless another is named."""
    name = ref.get("containerName") or container["name"]
    return container_spec(sources.context.pod, name)


def container_spec(pod: Object, name: str) -> Mapping[str, Any]:
    """The spec of the container *name*. Raises UnknownField."""
    spec = pod["spec"]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if container["name"] == name:
            result: Mapping[str, Any] = container
            return result
    raise UnknownField(f'no container is named "{name}"')


def _from_key(kind: ResourceKind, ref: Mapping[str, Any], sources: EnvironmentSources) -> str | None:
    reference = LocalObjectReference(kind, ref.get("name", ""), bool(ref.get("optional")))
    obj = _object(reference, sources)
    data = decoded_data(kind, obj).get(ref["key"]) if obj is not None else None
    if data is not None:
        return _text(data, ref["key"])
    if reference.optional:
        return None
    namespace = sources.context.pod["metadata"]["namespace"]
    raise StartFailed(
        _REASON, f"couldn't find key {ref['key']} in {_KIND_NAMES[kind][1]} {namespace}/{reference.name}"
    )


def _object(reference: LocalObjectReference, sources: EnvironmentSources) -> Object | None:
    obj = sources.objects.get((reference.kind, reference.name))
    if obj is None and not reference.optional:
        raise StartFailed(_REASON, f'{_KIND_NAMES[reference.kind][0]} "{reference.name}" not found')
    return obj


def _text(data: bytes, key: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise StartFailed(
            _REASON, f'the value of key "{key}" is not text and cannot be a variable: mount it as a volume'
        )
    return text
