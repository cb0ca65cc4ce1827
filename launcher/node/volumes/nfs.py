"""nfs volumes: a configured local directory, or a mount of the export."""

import asyncio
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from launcher.node.volumes.mounts import MountFailed, is_mount_point, mounts_below, unmount

log = logging.getLogger(__name__)

_MOUNT_TIMEOUT_SECONDS = 120.0


class Nfs:
    """Mounts exports. An export is mounted once for all pods that use it."""

    def __init__(self, directory: Path, local_directories: Mapping[str, Path]) -> None:
        """Exports are mounted below *directory*, except those with a local directory, by ``server:/path``."""
        self._directory = directory
        self._local_directories = {_normalized(export): path for export, path in local_directories.items()}
        #: The pods that use each mount.
        self._users: dict[Path, set[str]] = {}
        self._lock = asyncio.Lock()

    async def mount(self, volume: Mapping[str, Any], uid: str) -> Path:
        """The path of the export, which stays mounted for the pod *uid* until ``release``. Raises MountFailed."""
        export = _normalized(f"{volume.get('server', '')}:{volume.get('path', '')}")
        local_directory = self._local_directories.get(export)
        if local_directory is not None:
            if not local_directory.is_dir():
                raise MountFailed(f"the directory {local_directory} of {export} does not exist")
            return local_directory.resolve()
        target = self._directory / quote(export, safe="")
        async with self._lock:
            # Recorded before it is mounted, so that a pod that ends meanwhile does not unmount it.
            self._users.setdefault(target, set()).add(uid)
            if not is_mount_point(target):
                await self._mount(export, target)
        return target

    async def release(self, uid: str) -> None:
        """Releases the exports of the pod, and unmounts those without users."""
        async with self._lock:
            for target, users in list(self._users.items()):
                users.discard(uid)
                if not users:
                    del self._users[target]
                    _unmount(target)

    def unmount_unused(self) -> None:
        """Unmounts what an earlier launcher has left; running containers keep their own mounts."""
        for target in mounts_below(self._directory):
            if target not in self._users:
                _unmount(target)

    async def _mount(self, export: str, target: Path) -> None:
        if missing := _missing_requirement():
            raise MountFailed(
                f"{export} cannot be mounted: {missing}; start the launcher with --nfs {export}=DIR to use a "
                "directory instead"
            )
        os.makedirs(target, exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            *("mount", "-t", "nfs", export, str(target)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(_MOUNT_TIMEOUT_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise MountFailed(
                f"{export} cannot be mounted: timed out after {_MOUNT_TIMEOUT_SECONDS:.0f}s"
            ) from None
        if process.returncode:
            raise MountFailed(f"{export} cannot be mounted: {output.decode(errors='replace').strip()}")


def _normalized(export: str) -> str:
    """The export without trailing slashes, except for that of the root."""
    server, colon, path = export.partition(":/")
    return f"{server}{colon}{path.rstrip('/')}"


def _missing_requirement() -> str:
    """Why this machine cannot mount an export; empty if it can."""
    if os.geteuid():
        return "only root may mount"
    filesystems = Path("/proc/filesystems").read_text(encoding="ascii").split()
    if not shutil.which("mount.nfs"):
        return "the program mount.nfs is not installed"
    return "" if "nfs" in filesystems or "nfs4" in filesystems else "this kernel has no nfs"


def _unmount(target: Path) -> None:
    try:
        if is_mount_point(target):
            unmount(target)
        # Fails if it is not empty: a mount is never deleted.
        target.rmdir()
    except OSError as error:
        log.warning("export not unmounted", extra={"path": str(target), "error": str(error)})
