"""Builds a container's root directory from mount steps, in its own mount namespace."""

import errno
import os

from launcher.node.shim import linux

#: The name of a step and its arguments; ``launcher.node.sandbox.mount_steps`` defines them.
Step = list[object]


def build(steps: list[Step], stage: str, scratch: str) -> None:
    """
    Execute *steps* and make the result the root directory.

    *stage* and *scratch* are two empty directories, on which only this namespace mounts. Raises OSError that names the
    step's target; the process is then unusable.
    """
    # Later mounts of the machine propagate into this namespace, and none of this namespace to the machine.
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_SLAVE)
    builder = _RootBuilder(stage, scratch)
    for name, *arguments in steps:
        getattr(builder, str(name))(*arguments)
    linux.pivot(stage)


class _RootBuilder:
    def __init__(self, stage: str, scratch: str) -> None:
        self._stage, self._scratch = stage, scratch
        self._overlays = 0

    def _staged(self, target: str) -> str:
        return self._stage if target == "/" else self._stage + target

    def bind(self, source: str, target: str, read_only: bool, optional: bool) -> None:
        path = self._staged(target)
        try:
            # Mounted by its descriptor: no link is followed, even if the path changes meanwhile.
            descriptor = linux.open_without_links(source)
        except OSError as error:
            if optional and error.errno == errno.ENOENT:
                return
            raise
        try:
            linux.mount(f"/proc/self/fd/{descriptor}", path, None, linux.MS_BIND | linux.MS_REC)
        finally:
            os.close(descriptor)
        if read_only:
            _make_read_only(path)

    def tmpfs(self, target: str, mode: int) -> None:
        linux.mount(
            "tmpfs", self._staged(target), "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"mode={mode:o}"
        )

    def seal(self, target: str) -> None:
        path = self._staged(target)
        linux.mount(
            None, path, None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _remount_flags(path)
        )

    def dir(self, target: str, mode: int) -> None:
        path = self._staged(target)
        if not os.path.isdir(path):
            os.mkdir(path)
            os.chmod(path, mode)

    def file(self, target: str) -> None:
        os.close(
            os.open(self._staged(target), os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        )

    def symlink(self, text: str, target: str) -> None:
        os.symlink(text, self._staged(target))

    def proc(self, target: str) -> None:
        flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
        linux.mount("proc", self._staged(target), "proc", flags)

    def overlay(self, target: str, layers: list[str]) -> None:
        """Mounts an overlay of *layers*, the topmost first; written data is discarded at the end of the run."""
        if not self._overlays:
            linux.mount("tmpfs", self._scratch, "tmpfs", 0, "mode=755")
        self._overlays += 1
        upper, work = f"{self._scratch}/{self._overlays}u", f"{self._scratch}/{self._overlays}w"
        # The mode of the upper layer is that of the mounted directory.
        lowest = os.stat(layers[-1])
        os.mkdir(upper)
        os.chmod(upper, lowest.st_mode & 0o7777)
        os.mkdir(work)
        # Short links instead of paths: mount options have to fit in one page, and colons separate the layers.
        lowers = []
        for number, layer in enumerate(layers):
            name = f"{self._scratch}/{self._overlays}l{number}"
            os.symlink(layer, name)
            lowers.append(name)
        options = f"lowerdir={':'.join(lowers)},upperdir={upper},workdir={work}"
        try:
            linux.mount("overlay", self._staged(target), "overlay", 0, options)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EINVAL):
                raise
            linux.mount("overlay", self._staged(target), "overlay", 0, options + ",userxattr")


def _make_read_only(path: str) -> None:
    """Makes the mount at *path* and all mounts below it read-only."""
    try:
        linux.make_read_only(path, recursive=True)
    except OSError as error:
        if error.errno != errno.ENOSYS:  # Linux before 5.12
            raise
        for mount_point in linux.mounts_below(path):
            flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _remount_flags(mount_point)
            linux.mount(None, mount_point, None, flags)


def _remount_flags(path: str) -> int:
    """The flags that a remount has to repeat: in a user namespace none of them may be cleared."""
    current = os.statvfs(path).f_flag
    flags = 0
    for current_flag, flag in (
        (os.ST_NOSUID, linux.MS_NOSUID),
        (os.ST_NODEV, linux.MS_NODEV),
        (os.ST_NOEXEC, linux.MS_NOEXEC),
        (os.ST_NOATIME, 1024),
        (os.ST_NODIRATIME, 2048),
        (os.ST_RELATIME, 1 << 21),
    ):
        flags |= flag if current & current_flag else 0
    return flags
