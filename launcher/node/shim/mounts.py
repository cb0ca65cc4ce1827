"""Builds the root that a container sees, step by step, in a mount namespace of its own."""

import errno
import os

from launcher.node.shim import linux

#: A step as it is received: its name, then its arguments. ``launcher.node.sandbox.planner`` defines what each means.
Step = list[object]


def build(steps: list[Step], stage: str, scratch: str) -> None:
    """
    The root becomes what *steps* say.

    *stage* and *scratch* are two empty directories of the machine, mounted on in this namespace only. Raises OSError
    that names the step's target; then the process is of no more use.
    """
    # What the machine mounts and unmounts later is seen here, and nothing of ours is seen there.
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_SLAVE)
    builder = _Builder(stage, scratch)
    for name, *arguments in steps:
        getattr(builder, str(name))(*arguments)
    linux.pivot(stage)


class _Builder:
    def __init__(self, stage: str, scratch: str) -> None:
        self._stage, self._scratch = stage, scratch
        self._overlays = 0

    def _at(self, target: str) -> str:
        return self._stage if target == "/" else self._stage + target

    def bind(self, source: str, target: str, read_only: bool, optional: bool) -> None:
        where = self._at(target)
        try:
            # Mounted by its descriptor: whatever happens to the path meanwhile, no link in it is followed.
            opened = linux.open_without_links(source)
        except OSError as error:
            if optional and error.errno == errno.ENOENT:
                return
            raise
        try:
            linux.mount(f"/proc/self/fd/{opened}", where, None, linux.MS_BIND | linux.MS_REC)
        finally:
            os.close(opened)
        if read_only:
            _read_only_below(where)

    def tmpfs(self, target: str, mode: int) -> None:
        linux.mount("tmpfs", self._at(target), "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"mode={mode:o}")

    def seal(self, target: str) -> None:
        where = self._at(target)
        linux.mount(None, where, None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _flags_of(where))

    def dir(self, target: str, mode: int) -> None:
        where = self._at(target)
        if not os.path.isdir(where):
            os.mkdir(where)
            os.chmod(where, mode)

    def file(self, target: str) -> None:
        os.close(os.open(self._at(target), os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))

    def symlink(self, text: str, target: str) -> None:
        os.symlink(text, self._at(target))

    def proc(self, target: str) -> None:
        flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
        linux.mount("proc", self._at(target), "proc", flags)

    def overlay(self, target: str, layers: list[str]) -> None:
        """*layers*, the topmost first; what is written there goes away with the run."""
        if not self._overlays:
            linux.mount("tmpfs", self._scratch, "tmpfs", 0, "mode=755")
        self._overlays += 1
        upper, work = f"{self._scratch}/{self._overlays}u", f"{self._scratch}/{self._overlays}w"
        # The layer that is written to is what the directory itself looks like from inside.
        below = os.stat(layers[-1])
        os.mkdir(upper)
        os.chmod(upper, below.st_mode & 0o7777)
        os.mkdir(work)
        # Short names by way of links: the options of a mount have to fit in one page, and a colon divides them.
        lowers = []
        for number, layer in enumerate(layers):
            name = f"{self._scratch}/{self._overlays}l{number}"
            os.symlink(layer, name)
            lowers.append(name)
        options = f"lowerdir={':'.join(lowers)},upperdir={upper},workdir={work}"
        try:
            linux.mount("overlay", self._at(target), "overlay", 0, options)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EINVAL):
                raise
            linux.mount("overlay", self._at(target), "overlay", 0, options + ",userxattr")


def _read_only_below(where: str) -> None:
    try:
        linux.make_read_only(where, below=True)
    except OSError as error:
        if error.errno != errno.ENOSYS:  # Linux before 5.12
            raise
        for place in _mounts_below(where):
            flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _flags_of(place)
            linux.mount(None, place, None, flags)


def _flags_of(where: str) -> int:
    """What has to be said again in a remount: in a user namespace nothing of it may be taken away."""
    flags = os.statvfs(where).f_flag
    kept = 0
    for seen, flag in (
        (os.ST_NOSUID, linux.MS_NOSUID),
        (os.ST_NODEV, linux.MS_NODEV),
        (os.ST_NOEXEC, linux.MS_NOEXEC),
        (os.ST_NOATIME, 1024),
        (os.ST_NODIRATIME, 2048),
        (os.ST_RELATIME, 1 << 21),
    ):
        kept |= flag if flags & seen else 0
    return kept


def _mounts_below(where: str) -> list[str]:
    with open("/proc/self/mountinfo", "rb") as lines:
        places = [line.split()[4].decode("unicode_escape").encode("latin-1") for line in lines]
    top = os.fsencode(where)
    return [os.fsdecode(place) for place in places if place == top or place.startswith(top + b"/")]
