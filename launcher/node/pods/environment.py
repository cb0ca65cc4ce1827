"""
The environment of a container.

Nothing of the launcher's own environment gets in, because secrets are kept there, but for its PATH: a container runs
on this machine's own files, so it finds its programs where the launcher's user does. Beside PATH there are HOME, the
home directory of the user it runs as, and HOSTNAME, the pod's name. What the pod's spec says comes after these and
wins.
"""

import base64
import os
import pwd
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.node.container_runtime import StartFailed
from launcher.node.pods.downward_api import DownwardApiContext, UnknownField, field_value, resource_value
from launcher.node.pods.hostname import host_name
from launcher.store.interface import CONFIG_MAPS, SECRETS, Object, ResourceKind

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expanded(text: str, values: Mapping[str, str]) -> str:
    """*text* with every known reference replaced; ``$$`` is one dollar sign and never begins a reference."""
    if "$" not in text:
        return text
    return _REFERENCE.sub(lambda found: "$" if found[1] else values.get(found[2], found[0]), text)


def unknown_in(text: str, values: Mapping[str, str]) -> list[str]:
    """The names that *text* refers to and nobody has given a value."""
    return [name for dollar, name in _REFERENCE.findall(text) if not dollar and name not in values]


#: The directories that every image has.
_STANDARD_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_REASON = "CreateContainerConfigError"
#: The kinds in the kubelet's sentences.
_WORDS = {CONFIG_MAPS: ("configmap", "ConfigMap"), SECRETS: ("secret", "Secret")}


@dataclass(frozen=True, slots=True)
class Reference:
    """A config map or secret in the pod's namespace that something is taken from."""

    kind: ResourceKind
    name: str
    optional: bool = False


#: The objects that were found, by reference without its optionality.
Found = Mapping[tuple[ResourceKind, str], Object]


@dataclass(frozen=True, slots=True)
class EnvironmentSources:
    """Where values come from."""

    facts: DownwardApiContext
    found: Found = field(default_factory=dict)


def references_of(container: Mapping[str, Any]) -> Iterator[Reference]:
    """Every config map and secret that the container's environment needs."""
    for source in container.get("envFrom") or ():
        for kind, key in ((CONFIG_MAPS, "configMapRef"), (SECRETS, "secretRef")):
            if ref := source.get(key):
                yield Reference(kind, ref.get("name", ""), bool(ref.get("optional")))
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom") or {}
        for kind, key in ((CONFIG_MAPS, "configMapKeyRef"), (SECRETS, "secretKeyRef")):
            if ref := origin.get(key):
                yield Reference(kind, ref.get("name", ""), bool(ref.get("optional")))


def data_of(kind: ResourceKind, obj: Object) -> dict[str, bytes]:
    """What a config map or secret holds, by key."""
    coded = obj.get("data" if kind == SECRETS else "binaryData") or {}
    plain = obj.get("stringData" if kind == SECRETS else "data") or {}
    return {
        **{key: base64.b64decode(text) for key, text in coded.items()},
        **{key: text.encode() for key, text in plain.items()},
    }


def base_environment(facts: DownwardApiContext, path: str, user: int | None) -> dict[str, str]:
    """What every container has; *path* is the launcher's own PATH, *user* whom it runs as if that is said."""
    return {
        "PATH": _search_path(path),
        "HOME": _home(user),
        "HOSTNAME": host_name(facts.pod, "") or facts.pod["metadata"]["name"],
    }


def own_environment(container: Mapping[str, Any], sources: EnvironmentSources) -> dict[str, str]:
    """What the container's spec gives it. Raises StartFailed when something that must be there is not."""
    values: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        values |= _from_all(source, sources)
    for variable in container.get("env") or ():
        value = _value(variable, values, container, sources)
        if value is not None:
            values[variable["name"]] = value
    return values


def command_line(container: Mapping[str, Any], values: Mapping[str, str]) -> Sequence[str]:
    """What to run. Raises StartFailed without a command: nobody here knows what the image would run."""
    command = container.get("command")
    if not command:
        raise StartFailed(
            _REASON,
            f'container "{container["name"]}" has no command, and no image is pulled here that could say what to run: '
            "write `command` in its spec",
        )
    return [expanded(word, values) for word in (*command, *(container.get("args") or ()))]


def _search_path(path: str) -> str:
    return ":".join(dict.fromkeys((*_existing(path.split(":")), *_STANDARD_PATH)))


def _existing(parts: Iterable[str]) -> Iterator[str]:
    """Absolute directories alone: what is relative means something else in another working directory."""
    return (part for part in parts if part.startswith("/"))


def _home(user: int | None) -> str:
    try:
        return pwd.getpwuid(os.geteuid() if user is None else user).pw_dir
    except KeyError:
        return "/"


def _from_all(source: Mapping[str, Any], sources: EnvironmentSources) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    values: dict[str, str] = {}
    for kind, key in ((CONFIG_MAPS, "configMapRef"), (SECRETS, "secretRef")):
        if ref := source.get(key):
            obj = _object(Reference(kind, ref.get("name", ""), bool(ref.get("optional"))), sources)
            if obj is not None:
                values |= {prefix + name: _text(data, name) for name, data in data_of(kind, obj).items()}
    return values


def _value(
    variable: Mapping[str, Any],
    values: Mapping[str, str],
    container: Mapping[str, Any],
    sources: EnvironmentSources,
) -> str | None:
    """The variable's value; None if it is optional and not there."""
    origin = variable.get("valueFrom")
    if not origin:
        return expanded(variable.get("value") or "", values)
    try:
        if ref := origin.get("fieldRef"):
            return field_value(sources.facts, ref["fieldPath"])
        if ref := origin.get("resourceFieldRef"):
            return resource_value(sources.facts, _of_name(container, ref, sources), ref)
    except (UnknownField, ValueError) as error:
        raise StartFailed(_REASON, f'env "{variable["name"]}": {error}') from error
    for kind, key in ((CONFIG_MAPS, "configMapKeyRef"), (SECRETS, "secretKeyRef")):
        if ref := origin.get(key):
            return _from_key(kind, ref, sources)
    raise StartFailed(
        _REASON,
        f'env "{variable["name"]}": valueFrom.{next(iter(origin), "")} is not known here: use fieldRef, '
        "resourceFieldRef, configMapKeyRef or secretKeyRef",
    )


def _of_name(
    container: Mapping[str, Any], ref: Mapping[str, Any], sources: EnvironmentSources
) -> Mapping[str, Any]:
    """The container whose resources are asked for: this one, unless another is named."""
    name = ref.get("containerName") or container["name"]
    return container_named(sources.facts.pod, name)


def container_named(pod: Object, name: str) -> Mapping[str, Any]:
    """The spec of that container. Raises UnknownField."""
    spec = pod["spec"]
    for one in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if one["name"] == name:
            found: Mapping[str, Any] = one
            return found
    raise UnknownField(f'no container is named "{name}"')


def _from_key(kind: ResourceKind, ref: Mapping[str, Any], sources: EnvironmentSources) -> str | None:
    reference = Reference(kind, ref.get("name", ""), bool(ref.get("optional")))
    obj = _object(reference, sources)
    data = data_of(kind, obj).get(ref["key"]) if obj is not None else None
    if data is not None:
        return _text(data, ref["key"])
    if reference.optional:
        return None
    namespace = sources.facts.pod["metadata"]["namespace"]
    raise StartFailed(
        _REASON, f"couldn't find key {ref['key']} in {_WORDS[kind][1]} {namespace}/{reference.name}"
    )


def _object(reference: Reference, sources: EnvironmentSources) -> Object | None:
    obj = sources.found.get((reference.kind, reference.name))
    if obj is None and not reference.optional:
        raise StartFailed(_REASON, f'{_WORDS[reference.kind][0]} "{reference.name}" not found')
    return obj


def _text(data: bytes, key: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise StartFailed(
            _REASON, f'the value of key "{key}" is not text, so no variable can hold it: mount it as a volume'
        )
    return text
