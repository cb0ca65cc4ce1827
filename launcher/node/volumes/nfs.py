"""nfs volumes: a directory that stands in for the export, or a mount of the export itself."""

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

_TIMEOUT = 120.0


class Nfs:
    """Exports as directories of this machine. An export is mounted once, for all pods that use it."""

    def __init__(self, directory: Path, stand_ins: Mapping[str, Path]) -> None:
        """Mounts go below *directory*; *stand_ins* are by ``server:/path``."""
        self._directory = directory
        self._stand_ins = {_plain(export): path for export, path in stand_ins.items()}
        #: The pods that use each mount.
        self._users: dict[Path, set[str]] = {}
        self._lock = asyncio.Lock()

    async def path_of(self, volume: Mapping[str, Any], uid: str) -> Path:
        """Where the export is, for the pod of that *uid* until it is released. Raises MountFailed."""
        export = _plain(f"{volume.get('server', '')}:{volume.get('path', '')}")
        stand_in = self._stand_ins.get(export)
        if stand_in is not None:
            if not stand_in.is_dir():
                raise MountFailed(f"{stand_in}, which stands in for {export}, is not a directory")
            return stand_in.resolve()
        target = self._directory / quote(export, safe="")
        async with self._lock:
            # Noted before it is there: a pod that ends meanwhile must not take it away.
            self._users.setdefault(target, set()).add(uid)
            if not is_mount_point(target):
                await self._mount(export, target)
        return target

    async def release(self, uid: str) -> None:
        """The pod no longer uses anything; what nobody uses is unmounted."""
        async with self._lock:
            for target, users in list(self._users.items()):
                users.discard(uid)
                if not users:
                    del self._users[target]
                    _unmount(target)

    def sweep(self) -> None:
        """Unmount what an earlier launcher has left. Containers that run keep their own view of it."""
        for target in mounts_below(self._directory):
            if target not in self._users:
                _unmount(target)

    async def _mount(self, export: str, target: Path) -> None:
        if missing := _missing():
            raise MountFailed(
                f"{export} cannot be mounted: {missing}; start the launcher with --nfs {export}=DIR to let a directory "
                "stand in for it"
            )
        os.makedirs(target, exist_ok=True)
        mounting = await asyncio.create_subprocess_exec(
            *("mount", "-t", "nfs", export, str(target)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(_TIMEOUT):
                said, _ = await mounting.communicate()
        except TimeoutError:
            mounting.kill()
            await mounting.wait()
            raise MountFailed(f"{export} cannot be mounted: no answer within {_TIMEOUT:.0f} s") from None
        if mounting.returncode:
            raise MountFailed(f"{export} cannot be mounted: {said.decode(errors='replace').strip()}")


def _plain(export: str) -> str:
    """The export in one spelling: no slash at its end but that of the root."""
    server, colon, path = export.partition(":/")
    return f"{server}{colon}{path.rstrip('/')}"


def _missing() -> str:
    """What keeps this machine from mounting an export; nothing if all is there."""
    if os.geteuid():
        return "only root may mount"
    known = Path("/proc/filesystems").read_text(encoding="ascii").split()
    if not shutil.which("mount.nfs"):
        return "the program mount.nfs is not installed"
    return "" if "nfs" in known or "nfs4" in known else "this kernel does not know nfs"


def _unmount(target: Path) -> None:
    try:
        if is_mount_point(target):
            unmount(target)
        # Only ever an empty directory: what is still mounted stays untouched.
        target.rmdir()
    except OSError as error:
        log.warning("export not unmounted", extra={"path": str(target), "why": str(error)})
