"""
Which steps make the root that a container sees: this machine's own, with mounts and an image laid over it.

Nothing is ever made on the machine's own file system. A mount needs something to stand on; where that is missing, the
deepest directory that is there is replaced by one in memory that shows the same entries and the new one. Inside a
volume that can be written to, the place is made in the volume, as Kubernetes does it: what the container writes beside
it has to reach the volume.
"""

from collections.abc import Sequence
from pathlib import Path

from launcher.node.container_runtime import Mount
from launcher.node.sandbox.filesystem import Filesystem, FileType
from launcher.node.sandbox.mount_steps import Step
from launcher.node.sandbox.mount_tree import How, MountNode, join, steps_of

#: A directory of more entries is not shown entry by entry, where an overlay can show it whole.
_MANY = 64
#: As the kernel has it.
_MOST_LINKS = 40
#: Stands at the place of a file whose content is hidden.
_EMPTY_FILE = "/dev/null"


class InvalidMount(Exception):
    """There is no such root; the message says which mount is wrong, and why."""


def plan(
    view: Filesystem,
    mounts: Sequence[Mount] = (),
    *,
    image: Path | None = None,
    read_only_root: bool = False,
    overlays: bool = False,
    hidden: Sequence[str] = (),
) -> tuple[Step, ...]:
    """
    The steps to such a root. *image* is a directory laid over it. Raises InvalidMount.

    *hidden* are paths of this machine, with every link followed, whose content no container sees: neither there nor
    in a mount of a directory above. A container's own mounts may come from below them.
    """
    root = MountNode(FileType.DIR, How.BOUND, ("/",), read_only=read_only_root)
    planner = _Planner(view, root, overlays=overlays, hidden=hidden)
    planner.hide_below([root], "/")
    if image is not None:
        planner.lay([root], str(image))
        planner.hide_below([root], str(image))
    if read_only_root:
        # Devices and shared memory are not what is meant by the root.
        planner.mount(Mount(Path("/dev"), "/dev"))
    # Parents first: whatever the order of the list, a mount inside another is seen.
    for mount in sorted(mounts, key=lambda mount: _real(view, mount.target).count("/")):
        planner.mount(mount)
    root.children["proc"] = MountNode(FileType.DIR, How.PROC)
    return tuple(steps_of(view, root))


def _is_below(path: str, top: str) -> bool:
    """Whether *path* is *top* or something in it."""
    return path == top or path.startswith(top.rstrip("/") + "/")


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _real(view: Filesystem, target: str) -> str:
    """*target* on the machine itself, with every link followed."""
    done, names, links = "", _names(target), 0
    while names:
        name = names.pop(0)
        if name == "..":
            done = done.rpartition("/")[0]
            continue
        path = f"{done}/{name}"
        if view.kind(path) is not FileType.LINK:
            done = path
            continue
        links += 1
        if links > _MOST_LINKS:
            raise InvalidMount(f"{target}: too many symbolic links")
        text = view.text(path)
        names = _names(text) + names
        done = "" if text.startswith("/") else done
    return done


class _Planner:
    def __init__(self, view: Filesystem, root: MountNode, *, overlays: bool, hidden: Sequence[str]) -> None:
        self._view, self._root, self._overlays = view, root, overlays
        self._hidden = [path for path in hidden if view.kind(path) is not FileType.MISSING]

    def mount(self, mount: Mount) -> None:
        """Something of the machine stands at the mount's target."""
        source, kind = str(mount.source), self._view.solid(str(mount.source))
        if kind is FileType.MISSING:
            raise InvalidMount(f"{mount.target}: {source} does not exist")
        if mount.host_path and any(_is_below(source, path) for path in self._hidden):
            raise InvalidMount(
                f"{mount.target}: {source} belongs to the launcher, and no container may use it"
            )
        names = _names(mount.target)
        if not names or ".." in names or not mount.target.startswith("/"):
            raise InvalidMount(f"{mount.target}: must be an absolute path below the root, without ..")
        trail = self._walk([self._root], names, mount.target, make=kind)
        before = trail[-1]
        if before is self._root:
            raise InvalidMount(f"{mount.target}: leads to the root itself")
        if self._root.children.get("proc") in trail:
            raise InvalidMount(f"{mount.target}: nothing can be mounted in /proc")
        if before.kind is not kind:
            raise InvalidMount(f"{mount.target}: a {kind.value} cannot be mounted on a {before.kind.value}")
        # The place stays the same one, so that it stays where links have led to.
        before.how, before.sources, before.children = How.BOUND, (source,), {}
        before.read_only, before.roomy = mount.read_only, not mount.read_only
        self.hide_below(trail, source)

    def hide_below(self, trail: list[MountNode], source: str) -> None:
        """What is hidden of the directory *source*, which stands at the end of *trail*, is empty there."""
        top = source.rstrip("/") + "/"
        for path in self._hidden:
            if not path.startswith(top):
                continue
            place = self._walk(trail, _names(path[len(top) :]), path, make=FileType.DIR)[-1]
            directory = place.kind is FileType.DIR
            place.how, place.sources = (How.MEMORY, ()) if directory else (How.BOUND, (_EMPTY_FILE,))
            place.read_only, place.roomy, place.children = True, False, {}

    def _walk(
        self, trail: list[MountNode], names: list[str], target: str, *, make: FileType
    ) -> list[MountNode]:
        """The places from the root down to *names* below *trail*, links followed; the last is made as a *make*."""
        names, links = list(names), 0
        while names:
            name = names.pop(0)
            if name == "..":
                trail = trail[:-1] or trail
                continue
            above = trail[-1]
            if above.kind is not FileType.DIR:
                raise InvalidMount(f"{target}: {name} is below something that is not a directory")
            found = self._child(above, name) or self._make(above, name, FileType.DIR if names else make)
            if found.kind is not FileType.LINK:
                trail = [*trail, found]
                continue
            links += 1
            if links > _MOST_LINKS:
                raise InvalidMount(f"{target}: too many symbolic links")
            names = _names(found.text) + names
            trail = [self._root] if found.text.startswith("/") else trail
        return trail

    def _child(self, above: MountNode, name: str) -> MountNode | None:
        """What is there now; None when nothing is."""
        if (known := above.children.get(name)) is not None:
            return known
        paths = [join(source, name) for source in above.sources]
        kinds = [(path, kind) for path in paths if (kind := self._view.kind(path)) is not FileType.MISSING]
        if not kinds:
            return None
        kind = kinds[0][1]
        # As an overlay does it: directories are merged, down to the first thing that is none.
        sources = [path for path, _ in kinds] if kind is FileType.DIR else [kinds[0][0]]
        place = MountNode(kind, sources=tuple(sources), read_only=above.read_only, roomy=above.roomy)
        if kind is FileType.LINK:
            place.text = self._view.text(sources[0])
        above.children[name] = place
        return place

    def _make(self, above: MountNode, name: str, kind: FileType) -> MountNode:
        """A place where there is nothing, made anywhere but on the machine."""
        if not above.roomy and above.how is not How.MEMORY:
            self._open(above)
        if above.how is How.MEMORY and kind is FileType.DIR:
            place = MountNode(kind, How.MEMORY, missing=True)
        else:
            place = MountNode(kind, roomy=above.roomy, missing=True)
        above.children[name] = place
        return place

    def _open(self, place: MountNode) -> None:
        """From now on something can be added to it."""
        many = len(self._view.entries(place.sources[0])) > _MANY
        # In a user namespace the devices of an overlay do not work.
        devices = place.sources[0] == "/dev"
        if self._overlays and many and not devices and not place.read_only:
            place.how, place.roomy = How.LAYERED, True
        else:
            place.how = How.MEMORY

    def lay(self, trail: list[MountNode], layer: str) -> None:
        """Every file in the directory *layer* is seen at the end of *trail*; what else was there stays."""
        place, below = trail[-1], []
        added: dict[str, MountNode] = {}
        replaces = False
        for name in self._view.entries(layer):
            new = self._of_image(join(layer, name))
            there = self._child(place, name)
            if new.kind is FileType.DIR and (end := self._directory(trail, there)):
                below.append((end, join(layer, name)))
            elif there is not None and there.kind is new.kind is FileType.FILE:
                place.children[name] = new
            else:
                added[name] = new
                replaces = replaces or there is not None
        if added:
            self._add(place, added, replaces=replaces)
        for end, path in below:
            self.lay(end, path)

    def _directory(self, trail: list[MountNode], there: MountNode | None) -> list[MountNode]:
        """The places down to the directory that *there* is or leads to; none when that is no directory."""
        if there is None or there.kind is FileType.FILE:
            return []
        if there.kind is FileType.DIR:
            return [*trail, there]
        # /bin is a link to usr/bin on many machines, and a directory in many images. More than that is not tried.
        end = [self._root] if there.text.startswith("/") else trail
        for name in _names(there.text):
            found = self._child(end[-1], name) if name != ".." else None
            if found is None or found.kind is not FileType.DIR:
                return []
            end = [*end, found]
        return end

    def _add(self, place: MountNode, added: dict[str, MountNode], *, replaces: bool) -> None:
        if not place.roomy and place.how is not How.MEMORY:
            self._open(place)
        if replaces and place.how is How.LAYERED:
            # What is there cannot be made into something else in a layer; in memory it is simply left out.
            place.how, place.roomy = How.MEMORY, False
        for name, new in added.items():
            new.missing = True
            place.children[name] = new

    def _of_image(self, path: str) -> MountNode:
        kind = self._view.kind(path)
        if kind is FileType.LINK:
            return MountNode(kind, text=self._view.text(path))
        if kind is FileType.DIR and self._overlays:
            # As in an image: it can be written to, and nobody else sees it.
            return MountNode(kind, How.LAYERED, (path,), roomy=True)
        return MountNode(kind, How.BOUND, (path,), read_only=True)
