"""
A pod's volumes as directories of this machine, made before its first container starts and removed after its last.

All that is a pod's own is below ``DATA/pods/<uid>``, which nobody else may enter.
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
from launcher.node.pods.environment import Found, Reference, expanded, unknown_in
from launcher.node.pods.pod_spec import uid_of
from launcher.node.volumes.directory_tree import remove_tree, usage
from launcher.node.volumes.empty_dir import empty_dir, forget_empty_dir, size_limit, stand_in_path
from launcher.node.volumes.host_path import claimed, host_path
from launcher.node.volumes.mounts import MountFailed
from launcher.node.volumes.nfs import Nfs
from launcher.node.volumes.paths import entry, make_directory, open_directory
from launcher.node.volumes.projected import FAMILIES as PROJECTED
from launcher.node.volumes.projected import Files, files_of, references_in
from launcher.store.interface import Object


def sub_path(volume: Path, part: str, *, make: bool) -> Path:
    """
    The *part* of the volume, with every link followed; missing directories are made if *make* says so.

    Raises MountFailed when it is not there, or leads out of the volume.
    """
    pure = PurePosixPath(part)
    if pure.is_absolute() or ".." in pure.parts or "\0" in part:
        raise MountFailed(f'subPath "{part}" must be relative, without ".."')
    root = Path(os.path.realpath(volume))
    at = root
    for name in pure.parts:
        at = _inside(root, at / name, part)
        if not at.exists():
            if not make:
                raise MountFailed(f'subPath "{part}" is not in the volume')
            _make(at, part)
    return at


def _inside(root: Path, path: Path, part: str) -> Path:
    """*path* with its links followed, checked step by step so that nothing is ever made outside."""
    real = Path(os.path.realpath(path))
    if real != root and root not in real.parents:
        raise MountFailed(f'subPath "{part}" leads out of the volume')
    return real


def _make(path: Path, part: str) -> None:
    try:
        parent = open_directory(path.parent, make=True)
        try:
            make_directory(path.name, parent)
            # By a descriptor: a link that has appeared meanwhile is not followed.
            made = os.open(
                path.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent
            )
            try:
                os.fchmod(made, os.fstat(parent).st_mode & 0o7777)
            finally:
                os.close(made)
        finally:
            os.close(parent)
    except OSError as error:
        raise MountFailed(f'subPath "{part}" cannot be made: {error.strerror}') from error


_KNOWN = ("emptyDir", "hostPath", "nfs", "persistentVolumeClaim", *PROJECTED)
#: Families of which each pod has its own, so that its fsGroup may own it.
_OWN = ("emptyDir", *PROJECTED)


class VolumeFailed(MountFailed):
    """A volume of the pod cannot be made ready; the message names it as the kubelet does."""

    def __init__(self, name: str, why: MountFailed) -> None:
        super().__init__(f'MountVolume.SetUp failed for volume "{name}" : {why}')


@dataclass(frozen=True, slots=True)
class PreparedVolume:
    """Where a volume is on this machine."""

    path: Path
    read_only: bool = False
    #: Worth telling the user about it.
    remark: str = ""
    #: The pod names the path itself.
    host_path: bool = False


#: Returns the prefixes that host paths may have; None for any.
HostPaths = Callable[[], Sequence[str] | None]

#: By the volume's name.
PreparedVolumes = Mapping[str, PreparedVolume]


def volume_references(pod: Object) -> Iterator[Reference]:
    """The config maps and secrets that the pod's volumes are made of. Raises VolumeFailed."""
    for volume in _volumes(pod):
        try:
            yield from references_in(volume)
        except MountFailed as error:
            raise VolumeFailed(volume["name"], error) from error


def has_volumes(pod: Object) -> bool:
    return bool(pod["spec"].get("volumes"))


def _volumes(pod: Object) -> list[dict[str, Any]]:
    return pod["spec"].get("volumes") or []


def _family(volume: Mapping[str, Any]) -> str:
    """Which kind of volume it is; one that does not say is an emptyDir. Raises MountFailed."""
    said = [key for key, value in volume.items() if key != "name" and value is not None]
    unknown = [family for family in said if family not in _KNOWN]
    if unknown:
        raise MountFailed(f"{unknown[0]} cannot be mounted on this machine: use one of {', '.join(_KNOWN)}")
    return said[0] if said else "emptyDir"


def any_host_path() -> None:
    """No restriction of hostPath volumes."""


class VolumeManager:
    """Makes volumes, and removes them."""

    def __init__(
        self,
        data: Path,
        nfs: Nfs,
        claims: Mapping[str, Path] | None = None,
        host_paths: HostPaths = any_host_path,
    ) -> None:
        """
        *claims* are directories that stand in for claims, by their names.

        Host paths have to be below one of the prefixes that *host_paths* returns at the time.
        """
        self._pods = data.resolve() / "pods"
        self._nfs, self._claims, self._host_paths = nfs, claims or {}, host_paths

    def directory(self, uid: str) -> Path:
        """What belongs to the pod of that uid. Raises MountFailed for a uid that is no file name."""
        return entry(self._pods, uid)

    def kept(self) -> list[str]:
        """The uids of the pods that have something here."""
        return os.listdir(self._pods) if self._pods.is_dir() else []

    def _make_directory(self, uid: str) -> Path:
        directory = self.directory(uid)
        self._pods.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        return directory

    async def prepare(self, facts: DownwardApiContext, found: Found) -> PreparedVolumes:
        """Every volume of the pod, made if it is not there. Raises VolumeFailed."""
        pod = facts.pod
        if not has_volumes(pod):
            return {}
        exports = {
            volume["name"]: await self._export(volume, uid_of(pod))
            for volume in _volumes(pod)
            if volume.get("nfs") is not None
        }
        return await asyncio.to_thread(self._prepare, facts, found, exports)

    async def _export(self, volume: Mapping[str, Any], uid: str) -> PreparedVolume:
        try:
            path = await self._nfs.path_of(volume["nfs"], uid)
        except MountFailed as error:
            raise VolumeFailed(volume["name"], error) from error
        return PreparedVolume(path, bool(volume["nfs"].get("readOnly")))

    def _prepare(self, facts: DownwardApiContext, found: Found, exports: PreparedVolumes) -> PreparedVolumes:
        uid = uid_of(facts.pod)
        directory = self._make_directory(uid) / "volumes"
        directory.mkdir(exist_ok=True)
        group = (facts.pod["spec"].get("securityContext") or {}).get("fsGroup")
        made: dict[str, PreparedVolume] = {}
        for volume in _volumes(facts.pod):
            name = volume["name"]
            try:
                family = _family(volume)
                made[name] = exports.get(name) or self._made(
                    volume, family, entry(directory, name), facts, found
                )
                if group is not None and family in _OWN:
                    _give_to(made[name].path, int(group))
            except MountFailed as error:
                raise VolumeFailed(name, error) from error
            except OSError as error:
                raise VolumeFailed(name, MountFailed(f"{error.filename}: {error.strerror}")) from error
        return made

    def _made(
        self, volume: Mapping[str, Any], family: str, directory: Path, facts: DownwardApiContext, found: Found
    ) -> PreparedVolume:
        if family == "persistentVolumeClaim":
            said = volume["persistentVolumeClaim"]
            return PreparedVolume(claimed(said, self._claims), bool(said.get("readOnly")))
        if family == "hostPath":
            return PreparedVolume(host_path(volume["hostPath"], self._host_paths()), host_path=True)
        return _made(volume, family, directory, facts, found)

    async def remove(self, pod: Object) -> None:
        """Nothing of the pod is left. Raises OSError."""
        if has_volumes(pod):
            await self._nfs.release(uid_of(pod))
            await asyncio.to_thread(self.remove_directory, uid_of(pod))

    def remove_directory(self, uid: str) -> None:
        """The pod's directory and what stood in for parts of it are gone. Raises OSError."""
        directory = self.directory(uid)
        volumes = directory / "volumes"
        for name in os.listdir(volumes) if volumes.is_dir() else ():
            forget_empty_dir(_stand_in(uid, name))
        remove_tree(directory)

    def too_big(self, pod: Object) -> str:
        """What is wrong with the size of the pod's volumes, as the kubelet says it; nothing if all are small enough."""
        uid = uid_of(pod)
        for volume in limited_volumes(pod):
            name, said = volume["name"], volume["emptyDir"]["sizeLimit"]
            used = usage(self.directory(uid) / "volumes" / name) + usage(stand_in_path(_stand_in(uid, name)))
            if used > (size_limit(volume["emptyDir"]) or used):
                return f'Usage of EmptyDir volume "{name}" exceeds the limit "{said}".'
        return ""


def limited_volumes(pod: Object) -> list[dict[str, Any]]:
    """The volumes whose size has to be watched."""
    return [
        one
        for one in _volumes(pod)
        if is_file_name(one["name"]) and one.get("emptyDir") and size_limit(one["emptyDir"]) is not None
    ]


def _stand_in(uid: str, name: str) -> str:
    return f"framework-launcher.{uid}.{name}"


def _made(
    volume: Mapping[str, Any], family: str, directory: Path, facts: DownwardApiContext, found: Found
) -> PreparedVolume:
    if family == "emptyDir":
        said = volume.get("emptyDir") or {}
        path, remark = empty_dir(said, directory, _stand_in(uid_of(facts.pod), volume["name"]))
        return PreparedVolume(path, remark=remark)
    _write(files_of(volume, facts, found), directory)
    return PreparedVolume(directory, read_only=True)


def _write(files: Files, directory: Path) -> None:
    """Exactly these files are in the directory. Each is replaced whole, so that a reader never sees a part."""
    directory.mkdir(mode=0o755, exist_ok=True)
    for path, file in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f"..{target.name}.new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(file.data)
            os.fchmod(out.fileno(), file.mode)
        new.rename(target)
    wanted = {directory / path for path in files}
    for there in [one for one in directory.rglob("*") if not one.is_dir() and one not in wanted]:
        there.unlink()


def _give_to(directory: Path, group: int) -> None:
    """The group owns the volume and may do in it what its owner may. Raises MountFailed."""
    try:
        for path in (directory, *directory.rglob("*")):
            if path.is_symlink():
                continue
            os.chown(path, -1, group)
            mode = path.stat().st_mode & 0o7777
            # What is made in a directory of the group shall be the group's as well.
            path.chmod(mode | (mode & 0o700) >> 3 | (0o2000 if path.is_dir() else 0))
    except PermissionError as error:
        raise MountFailed(f"fsGroup {group}: only root may give files to any group") from error


def mounts_of(
    container: Mapping[str, Any], sources: PreparedVolumes, values: Mapping[str, str]
) -> Iterator[Mount]:
    """Where the volumes stand in the container. Raises MountFailed."""
    for mount in container.get("volumeMounts") or ():
        source = sources.get(mount["name"])
        if source is None:
            raise MountFailed(f'volumeMounts: no volume of the pod is named "{mount["name"]}"')
        part = _part(mount, values)
        try:
            path = sub_path(source.path, part, make=not source.read_only) if part else source.path
        except MountFailed as error:
            raise MountFailed(f'volumeMounts "{mount["name"]}": {error}') from error
        target = os.path.normpath(os.path.join("/", mount["mountPath"]))
        read_only = bool(mount.get("readOnly")) or source.read_only
        yield Mount(path, target, read_only, host_path=source.host_path)


def _part(mount: Mapping[str, Any], values: Mapping[str, str]) -> str:
    """The part of the volume that is mounted; nothing for all of it."""
    said: str = mount.get("subPathExpr") or ""
    if not said:
        return mount.get("subPath") or ""
    if unknown := unknown_in(said, values):
        raise MountFailed(
            f'volumeMounts "{mount["name"]}": subPathExpr: {unknown[0]} is no variable of the container'
        )
    return expanded(said, values)
