"""
Creates the volumes of pods before their first container starts, and removes them after their last has ended.

A pod's own volumes are below ``DATA/pods/<uid>``, which other users cannot enter.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from launcher.node.container_runtime import Mount
from launcher.node.file_names import is_file_name
from launcher.node.pods.downward_api import DownwardApiContext
from launcher.node.pods.environment import LocalObjectReference, ReferencedObjects, expand, unknown_variables
from launcher.node.pods.pod_spec import uid_of
from launcher.node.volumes.directory_tree import remove_tree, usage
from launcher.node.volumes.empty_dir import empty_dir, remove_shared_memory, shared_memory_path, size_limit
from launcher.node.volumes.host_path import claim_directory, host_path
from launcher.node.volumes.mounts import MountFailed
from launcher.node.volumes.nfs import Nfs
from launcher.node.volumes.paths import create_directory, entry, open_directory
from launcher.node.volumes.projected import (
    VOLUME_TYPES,
    Files,
    object_references_of_volume,
    volume_files,
)
from launcher.store.interface import Object


def resolve_sub_path(volume: Path, sub_path: str, *, create: bool) -> Path:
    """
    The path of *sub_path* in the volume, with all links resolved; *create* creates missing directories.

    Raises MountFailed if it does not exist, or leads out of the volume.
    """
    pure = PurePosixPath(sub_path)
    if pure.is_absolute() or ".." in pure.parts or "\0" in sub_path:
        raise MountFailed(f'subPath "{sub_path}" must be relative, without ".."')
    root = Path(os.path.realpath(volume))
    current = root
    for name in pure.parts:
        current = _resolve_inside(root, current / name, sub_path)
        if not current.exists():
            if not create:
                raise MountFailed(f'subPath "{sub_path}" does not exist in the volume')
            _create(current, sub_path)
    return current


def _resolve_inside(root: Path, path: Path, sub_path: str) -> Path:
    """*path* with its links resolved. Called for each component, so that nothing is created outside *root*."""
    real = Path(os.path.realpath(path))
    if real != root and root not in real.parents:
        raise MountFailed(f'subPath "{sub_path}" leads out of the volume')
    return real


def _create(path: Path, sub_path: str) -> None:
    try:
        parent = open_directory(path.parent, create=True)
        try:
            create_directory(path.name, parent)
            # By descriptor: a link that has appeared meanwhile is not followed.
            descriptor = os.open(
                path.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent
            )
            try:
                os.fchmod(descriptor, os.fstat(parent).st_mode & 0o7777)
            finally:
                os.close(descriptor)
        finally:
            os.close(parent)
    except OSError as error:
        raise MountFailed(f'subPath "{sub_path}" cannot be created: {error.strerror}') from error


_SUPPORTED_TYPES = ("emptyDir", "hostPath", "nfs", "persistentVolumeClaim", *VOLUME_TYPES)
#: Types of which each pod has its own directory, which its fsGroup may own.
_POD_TYPES = ("emptyDir", *VOLUME_TYPES)


class VolumeFailed(MountFailed):
    """A volume of the pod cannot be prepared; the message is that of the kubelet."""

    def __init__(self, name: str, error: MountFailed) -> None:
        super().__init__(f'MountVolume.SetUp failed for volume "{name}" : {error}')


@dataclass(frozen=True, slots=True)
class PreparedVolume:
    """The path of a volume on this machine."""

    path: Path
    read_only: bool = False
    #: For an event.
    warning: str = ""
    #: The pod names the path itself.
    host_path: bool = False


#: Returns the prefixes that host paths may have; None for any.
HostPaths = Callable[[], Sequence[str] | None]

#: By the volume's name.
PreparedVolumes = Mapping[str, PreparedVolume]


def volume_references(pod: Object) -> Iterator[LocalObjectReference]:
    """The ConfigMaps and Secrets that the pod's volumes reference. Raises VolumeFailed."""
    for volume in _volumes(pod):
        try:
            yield from object_references_of_volume(volume)
        except MountFailed as error:
            raise VolumeFailed(volume["name"], error) from error


def has_volumes(pod: Object) -> bool:
    return bool(pod["spec"].get("volumes"))


def _volumes(pod: Object) -> list[dict[str, Any]]:
    return pod["spec"].get("volumes") or []


def _volume_type(volume: Mapping[str, Any]) -> str:
    """The type of the volume, by default emptyDir. Raises MountFailed."""
    types = [key for key, value in volume.items() if key != "name" and value is not None]
    unsupported = [name for name in types if name not in _SUPPORTED_TYPES]
    if unsupported:
        raise MountFailed(f"{unsupported[0]} is not supported: use one of {', '.join(_SUPPORTED_TYPES)}")
    return types[0] if types else "emptyDir"


def any_host_path() -> None:
    """No restriction of hostPath volumes."""


class VolumeManager:
    """Creates and removes the volumes of pods."""

    def __init__(
        self,
        data: Path,
        nfs: Nfs,
        claims: Mapping[str, Path] | None = None,
        host_paths: HostPaths = any_host_path,
    ) -> None:
        """
        *claims* are the directories of persistent volume claims, by name.

        Host paths have to be below one of the prefixes that *host_paths* currently returns.
        """
        self._pods = data.resolve() / "pods"
        self._nfs, self._claims, self._host_paths = nfs, claims or {}, host_paths

    def directory(self, uid: str) -> Path:
        """The directory of the pod. Raises MountFailed for a uid that is not a file name."""
        return entry(self._pods, uid)

    def pod_uids(self) -> list[str]:
        """The uids of the pods that have a directory."""
        return os.listdir(self._pods) if self._pods.is_dir() else []

    def unmount_unused(self) -> None:
        """Unmounts the exports that an earlier launcher has left."""
        self._nfs.unmount_unused()

    def _create_directory(self, uid: str) -> Path:
        directory = self.directory(uid)
        self._pods.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        return directory

    async def prepare(self, context: DownwardApiContext, objects: ReferencedObjects) -> PreparedVolumes:
        """Creates the missing volumes of the pod, and returns all. Raises VolumeFailed."""
        pod = context.pod
        if not has_volumes(pod):
            return {}
        exports = {
            volume["name"]: await self._mount_export(volume, uid_of(pod))
            for volume in _volumes(pod)
            if volume.get("nfs") is not None
        }
        return await asyncio.to_thread(self._prepare, context, objects, exports)

    async def _mount_export(self, volume: Mapping[str, Any], uid: str) -> PreparedVolume:
        try:
            path = await self._nfs.mount(volume["nfs"], uid)
        except MountFailed as error:
            raise VolumeFailed(volume["name"], error) from error
        return PreparedVolume(path, bool(volume["nfs"].get("readOnly")))

    def _prepare(
        self, context: DownwardApiContext, objects: ReferencedObjects, exports: PreparedVolumes
    ) -> PreparedVolumes:
        uid = uid_of(context.pod)
        directory = self._create_directory(uid) / "volumes"
        directory.mkdir(exist_ok=True)
        group = (context.pod["spec"].get("securityContext") or {}).get("fsGroup")
        prepared: dict[str, PreparedVolume] = {}
        for volume in _volumes(context.pod):
            name = volume["name"]
            try:
                volume_type = _volume_type(volume)
                prepared[name] = exports.get(name) or self._prepare_volume(
                    volume, volume_type, entry(directory, name), context, objects
                )
                if group is not None and volume_type in _POD_TYPES:
                    _set_group(prepared[name].path, int(group))
            except MountFailed as error:
                raise VolumeFailed(name, error) from error
            except OSError as error:
                raise VolumeFailed(name, MountFailed(f"{error.filename}: {error.strerror}")) from error
        return prepared

    def _prepare_volume(
        self,
        volume: Mapping[str, Any],
        volume_type: str,
        directory: Path,
        context: DownwardApiContext,
        objects: ReferencedObjects,
    ) -> PreparedVolume:
        if volume_type == "persistentVolumeClaim":
            spec = volume["persistentVolumeClaim"]
            return PreparedVolume(claim_directory(spec, self._claims), bool(spec.get("readOnly")))
        if volume_type == "hostPath":
            return PreparedVolume(host_path(volume["hostPath"], self._host_paths()), host_path=True)
        return _create_pod_volume(volume, volume_type, directory, context, objects)

    async def remove(self, pod: Object) -> None:
        """Removes all volumes of the pod. Raises OSError."""
        if has_volumes(pod):
            await self._nfs.release(uid_of(pod))
            await asyncio.to_thread(self.remove_directory, uid_of(pod))

    def remove_directory(self, uid: str) -> None:
        """Removes the pod's directory and its volumes in shared memory. Raises OSError."""
        directory = self.directory(uid)
        volumes = directory / "volumes"
        for name in os.listdir(volumes) if volumes.is_dir() else ():
            remove_shared_memory(_shared_memory_name(uid, name))
        remove_tree(directory)

    def exceeded_limit(self, pod: Object) -> str:
        """The kubelet's message about a volume that exceeds its sizeLimit; empty if none does."""
        uid = uid_of(pod)
        for volume in limited_volumes(pod):
            name, limit = volume["name"], volume["emptyDir"]["sizeLimit"]
            in_memory = shared_memory_path(_shared_memory_name(uid, name))
            used = usage(self.directory(uid) / "volumes" / name) + usage(in_memory)
            if used > (size_limit(volume["emptyDir"]) or used):
                return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}".'
        return ""


def limited_volumes(pod: Object) -> list[dict[str, Any]]:
    """The emptyDir volumes with a sizeLimit."""
    return [
        volume
        for volume in _volumes(pod)
        if is_file_name(volume["name"])
        and volume.get("emptyDir")
        and size_limit(volume["emptyDir"]) is not None
    ]


def _shared_memory_name(uid: str, name: str) -> str:
    return f"framework-launcher.{uid}.{name}"


def _create_pod_volume(
    volume: Mapping[str, Any],
    volume_type: str,
    directory: Path,
    context: DownwardApiContext,
    objects: ReferencedObjects,
) -> PreparedVolume:
    if volume_type == "emptyDir":
        spec = volume.get("emptyDir") or {}
        path, warning = empty_dir(spec, directory, _shared_memory_name(uid_of(context.pod), volume["name"]))
        return PreparedVolume(path, warning=warning)
    _write(volume_files(volume, context, objects), directory)
    return PreparedVolume(directory, read_only=True)


def _write(files: Files, directory: Path) -> None:
    """Replaces the content of the directory; each file is replaced atomically."""
    directory.mkdir(mode=0o755, exist_ok=True)
    for name, file in files.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f"..{target.name}.new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(file.data)
            os.fchmod(out.fileno(), file.mode)
        new.rename(target)
    written = {directory / name for name in files}
    for path in [path for path in directory.rglob("*") if not path.is_dir() and path not in written]:
        path.unlink()


def _set_group(directory: Path, group: int) -> None:
    """Makes the group the owner of the volume, with the permissions of the user. Raises MountFailed."""
    try:
        for path in (directory, *directory.rglob("*")):
            if path.is_symlink():
                continue
            os.chown(path, -1, group)
            mode = path.stat().st_mode & 0o7777
            # The setgid bit: new files in a directory belong to the group too.
            path.chmod(mode | (mode & 0o700) >> 3 | (0o2000 if path.is_dir() else 0))
    except PermissionError as error:
        raise MountFailed(f"fsGroup {group}: only root may change the group of files") from error


def volume_mounts(
    container: Mapping[str, Any], volumes: PreparedVolumes, variables: Mapping[str, str]
) -> Iterator[Mount]:
    """The volume mounts of the container. Raises MountFailed."""
    for mount in container.get("volumeMounts") or ():
        volume = volumes.get(mount["name"])
        if volume is None:
            raise MountFailed(f'volumeMounts: no volume of the pod is named "{mount["name"]}"')
        sub_path = _sub_path(mount, variables)
        try:
            path = (
                resolve_sub_path(volume.path, sub_path, create=not volume.read_only)
                if sub_path
                else volume.path
            )
        except MountFailed as error:
            raise MountFailed(f'volumeMounts "{mount["name"]}": {error}') from error
        target = os.path.normpath(os.path.join("/", mount["mountPath"]))
        read_only = bool(mount.get("readOnly")) or volume.read_only
        yield Mount(path, target, read_only, host_path=volume.host_path)


def _sub_path(mount: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """The subPath with variables expanded; empty for the whole volume."""
    expression: str = mount.get("subPathExpr") or ""
    if not expression:
        return mount.get("subPath") or ""
    if unknown := unknown_variables(expression, variables):
        raise MountFailed(
            f'volumeMounts "{mount["name"]}": subPathExpr: the container has no variable {unknown[0]}'
        )
    return expand(expression, variables)
