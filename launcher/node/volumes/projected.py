"""The files of configMap, secret, downwardAPI and projected volumes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from launcher.node.pods.downward_api import DownwardApiContext, UnknownField, field_value, resource_value
from launcher.node.pods.environment import (
    LocalObjectReference,
    ReferencedObjects,
    container_spec,
    decoded_data,
)
from launcher.node.volumes.mounts import MountFailed
from launcher.store.interface import CONFIG_MAPS, SECRETS, Object, ResourceKind

#: The volume types of this module.
VOLUME_TYPES = ("configMap", "secret", "downwardAPI", "projected")
_KINDS = {"configMap": CONFIG_MAPS, "secret": SECRETS}
_KIND_NAMES = {CONFIG_MAPS: "configmap", SECRETS: "secret"}
_DEFAULT_MODE = 0o644


@dataclass(frozen=True, slots=True)
class ProjectedFile:
    """The content and mode of a file."""

    data: bytes
    mode: int


#: By path within the volume.
Files = Mapping[str, ProjectedFile]


def object_references_of_volume(volume: Mapping[str, Any]) -> Iterator[LocalObjectReference]:
    """The ConfigMaps and Secrets that the volume references."""
    for volume_type, source in _sources(volume):
        if kind := _KINDS.get(volume_type):
            name = source.get("secretName") or source.get("name") or ""
            yield LocalObjectReference(kind, name, bool(source.get("optional")))


def volume_files(volume: Mapping[str, Any], context: DownwardApiContext, objects: ReferencedObjects) -> Files:
    """The files of the volume. Raises MountFailed if a referenced object or key does not exist."""
    spec: Mapping[str, Any] = next(
        (volume[name] for name in VOLUME_TYPES if volume.get(name) is not None), {}
    )
    mode = spec.get("defaultMode")
    mode = _DEFAULT_MODE if mode is None else mode
    files: dict[str, ProjectedFile] = {}
    for volume_type, source in _sources(volume):
        files.update(
            _downward_api_files(source, context, mode)
            if volume_type == "downwardAPI"
            else _object_files(volume_type, source, objects, mode)
        )
    for path in files:
        _check_path(path)
    return files


def _sources(volume: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The type and the spec of each source of the volume."""
    projected = volume.get("projected")
    for source in (projected.get("sources") or ()) if projected is not None else (volume,):
        for volume_type, spec in source.items():
            if volume_type in _KINDS or volume_type == "downwardAPI":
                yield volume_type, spec
            elif projected is not None:
                raise MountFailed(
                    f"projected.sources: {volume_type} is not supported: use configMap, secret or downwardAPI"
                )


def _object_files(
    volume_type: str, source: Mapping[str, Any], objects: ReferencedObjects, mode: int
) -> Iterator[tuple[str, ProjectedFile]]:
    kind = _KINDS[volume_type]
    name = source.get("secretName") or source.get("name") or ""
    obj = objects.get((kind, name))
    if obj is None:
        if source.get("optional"):
            return
        raise MountFailed(f'{_KIND_NAMES[kind]} "{name}" not found')
    yield from _selected_files(kind, obj, source, mode)


def _selected_files(
    kind: ResourceKind, obj: Object, source: Mapping[str, Any], mode: int
) -> Iterator[tuple[str, ProjectedFile]]:
    data = decoded_data(kind, obj)
    items = source.get("items")
    if not items:
        for key, content in data.items():
            yield key, ProjectedFile(content, mode)
        return
    for item in items:
        if item["key"] in data:
            yield item["path"], ProjectedFile(data[item["key"]], _mode(item, mode))
        elif not source.get("optional"):
            raise MountFailed(f"references non-existent {_KIND_NAMES[kind]} key: {item['key']}")


def _downward_api_files(
    source: Mapping[str, Any], context: DownwardApiContext, mode: int
) -> Iterator[tuple[str, ProjectedFile]]:
    for item in source.get("items") or ():
        try:
            yield item["path"], ProjectedFile(_value(item, context).encode(), _mode(item, mode))
        except ValueError as error:
            raise MountFailed(f'downwardAPI "{item["path"]}": {error}') from error


def _value(item: Mapping[str, Any], context: DownwardApiContext) -> str:
    if ref := item.get("fieldRef"):
        return field_value(context, ref["fieldPath"])
    if ref := item.get("resourceFieldRef"):
        return resource_value(context, container_spec(context.pod, ref.get("containerName", "")), ref)
    raise UnknownField("fieldRef or resourceFieldRef is required")


def _mode(item: Mapping[str, Any], default: int) -> int:
    mode = item.get("mode")
    return default if mode is None else int(mode)


def _check_path(path: str) -> None:
    """Raises MountFailed for a path outside the volume."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or not parts.parts or ".." in parts.parts or "\0" in path:
        raise MountFailed(f'path "{path}" must be relative, without ".."')
