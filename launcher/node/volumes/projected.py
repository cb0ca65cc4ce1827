"""Volumes made of what the API knows: configMap, secret, downwardAPI, and projected of these; as files, pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from launcher.node.pods.downward_api import DownwardApiContext, UnknownField, field_value, resource_value
from launcher.node.pods.environment import Found, Reference, container_named, data_of
from launcher.node.volumes.mounts import MountFailed
from launcher.store.interface import CONFIG_MAPS, SECRETS, Object, ResourceKind

#: The families that this module knows, as they are named in a pod's volumes.
FAMILIES = ("configMap", "secret", "downwardAPI", "projected")
_KINDS = {"configMap": CONFIG_MAPS, "secret": SECRETS}
_WORDS = {CONFIG_MAPS: "configmap", SECRETS: "secret"}
_DEFAULT_MODE = 0o644


@dataclass(frozen=True, slots=True)
class ProjectedFile:
    """What stands in one file."""

    data: bytes
    mode: int


#: By path within the volume.
Files = Mapping[str, ProjectedFile]


def references_in(volume: Mapping[str, Any]) -> Iterator[Reference]:
    """The config maps and secrets that the volume is made of."""
    for family, source in _parts(volume):
        if kind := _KINDS.get(family):
            name = source.get("secretName") or source.get("name") or ""
            yield Reference(kind, name, bool(source.get("optional")))


def files_of(volume: Mapping[str, Any], facts: DownwardApiContext, found: Found) -> Files:
    """Every file of the volume. Raises MountFailed when something it is made of is not there."""
    whole: Mapping[str, Any] = next(
        (volume[family] for family in FAMILIES if volume.get(family) is not None), {}
    )
    mode = whole.get("defaultMode")
    mode = _DEFAULT_MODE if mode is None else mode
    files: dict[str, ProjectedFile] = {}
    for family, source in _parts(volume):
        made = (
            _downward(source, facts, mode) if family == "downwardAPI" else _held(family, source, found, mode)
        )
        files.update(made)
    for path in files:
        _check(path)
    return files


def _parts(volume: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The families that the volume is made of, each with what it says."""
    projected = volume.get("projected")
    for source in (projected.get("sources") or ()) if projected is not None else (volume,):
        for family, said in source.items():
            if family in _KINDS or family == "downwardAPI":
                yield family, said
            elif projected is not None:
                raise MountFailed(
                    f"projected.sources: {family} is not given out here: use configMap, secret or downwardAPI"
                )


def _held(
    family: str, source: Mapping[str, Any], found: Found, mode: int
) -> Iterator[tuple[str, ProjectedFile]]:
    kind = _KINDS[family]
    name = source.get("secretName") or source.get("name") or ""
    obj = found.get((kind, name))
    if obj is None:
        if source.get("optional"):
            return
        raise MountFailed(f'{_WORDS[kind]} "{name}" not found')
    yield from _chosen(kind, obj, source, mode)


def _chosen(
    kind: ResourceKind, obj: Object, source: Mapping[str, Any], mode: int
) -> Iterator[tuple[str, ProjectedFile]]:
    data = data_of(kind, obj)
    items = source.get("items")
    if not items:
        for key, content in data.items():
            yield key, ProjectedFile(content, mode)
        return
    for item in items:
        if item["key"] in data:
            yield item["path"], ProjectedFile(data[item["key"]], _mode(item, mode))
        elif not source.get("optional"):
            raise MountFailed(f"references non-existent {_WORDS[kind]} key: {item['key']}")


def _downward(
    source: Mapping[str, Any], facts: DownwardApiContext, mode: int
) -> Iterator[tuple[str, ProjectedFile]]:
    for item in source.get("items") or ():
        try:
            yield item["path"], ProjectedFile(_told(item, facts).encode(), _mode(item, mode))
        except ValueError as error:
            raise MountFailed(f'downwardAPI "{item["path"]}": {error}') from error


def _told(item: Mapping[str, Any], facts: DownwardApiContext) -> str:
    if ref := item.get("fieldRef"):
        return field_value(facts, ref["fieldPath"])
    if ref := item.get("resourceFieldRef"):
        return resource_value(facts, container_named(facts.pod, ref.get("containerName", "")), ref)
    raise UnknownField("it needs a fieldRef or a resourceFieldRef")


def _mode(item: Mapping[str, Any], otherwise: int) -> int:
    mode = item.get("mode")
    return otherwise if mode is None else int(mode)


def _check(path: str) -> None:
    """Raises MountFailed unless the path stays within the volume."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or not parts.parts or ".." in parts.parts or "\0" in path:
        raise MountFailed(f'path "{path}" must be relative, without ".."')
