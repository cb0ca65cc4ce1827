"""The tree of places in a container's root of which something is to be done, and the steps that do it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from launcher.node.sandbox.filesystem import Filesystem, FileType
from launcher.node.sandbox.mount_steps import Bind, Dir, MakeFile, Overlay, Proc, Seal, Step, Symlink, Tmpfs


class How(Enum):
    """How a place comes to be seen in the container."""

    #: Through the directory above.
    SEEN = "seen"
    #: Its source is bound there.
    BOUND = "bound"
    #: A directory in memory, in which each entry of its source is bound.
    MEMORY = "memory"
    #: Its sources on top of each other; what is new goes to memory.
    LAYERED = "layered"
    #: The container's processes.
    PROC = "proc"


@dataclass(slots=True, eq=False)
class MountNode:
    """A file, link or directory in the container."""

    kind: FileType
    how: How = How.SEEN
    #: What of the machine it shows, the uppermost first.
    sources: tuple[str, ...] = ()
    read_only: bool = False
    #: What is missing in it may be made there: it is a volume, or goes to memory.
    roomy: bool = False
    #: It is not there before a step makes it.
    missing: bool = False
    #: Where a link points to.
    text: str = ""
    children: dict[str, "MountNode"] = field(default_factory=dict)


def join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


def steps_of(view: Filesystem, root: MountNode) -> Iterator[Step]:
    """The steps that make the tree from the root down."""
    return _Builder(view).steps(root, "/", None)


class _Builder:
    def __init__(self, view: Filesystem) -> None:
        self._view = view

    def steps(self, place: MountNode, path: str, above: MountNode | None) -> Iterator[Step]:
        in_memory = above is not None and above.how is How.MEMORY
        if in_memory or place.missing:
            yield self._created(place, path)
        # A directory in memory needs no mount of its own inside another one.
        mounted = not (in_memory and place.how is How.MEMORY and not place.read_only)
        if mounted:
            yield from self._shown(place, path, in_memory=in_memory)
        if place.how is How.MEMORY:
            yield from self._entries(place, path)
        for name, child in place.children.items():
            yield from self.steps(child, join(path, name), place)
        if mounted and place.read_only and place.how in (How.MEMORY, How.LAYERED):
            yield Seal(path)

    def _created(self, place: MountNode, path: str) -> Step:
        if place.kind is FileType.LINK:
            return Symlink(place.text, path)
        if place.kind is FileType.FILE:
            return MakeFile(path)
        return Dir(path, self._mode(place))

    def _mode(self, place: MountNode) -> int:
        return self._view.mode(place.sources[-1]) if place.sources and place.how is How.MEMORY else 0o755

    def _shown(self, place: MountNode, path: str, *, in_memory: bool) -> Iterator[Step]:
        match place.how:
            case How.PROC:
                yield Proc(path)
            case How.MEMORY:
                yield Tmpfs(path, self._mode(place))
            case How.LAYERED:
                yield Overlay(path, place.sources)
                yield from self._mounted_below(place, path)
            case How.BOUND | How.SEEN:
                if (
                    place.kind is not FileType.LINK
                    and place.sources
                    and (in_memory or place.how is How.BOUND)
                ):
                    yield Bind(place.sources[0], path, place.read_only)

    def _mounted_below(self, place: MountNode, path: str) -> Iterator[Step]:
        """An overlay does not show what is mounted in its layers."""
        lowest = place.sources[-1]
        for mounted in self._view.mounts_below(lowest):
            yield Bind(
                mounted, join(path, mounted[len(lowest.rstrip("/")) + 1 :]), place.read_only, optional=True
            )

    def _entries(self, place: MountNode, path: str) -> Iterator[Step]:
        for source in place.sources:
            for name in self._view.entries(source):
                if name not in place.children:
                    yield from self._entry(join(source, name), join(path, name), read_only=place.read_only)

    def _entry(self, source: str, path: str, *, read_only: bool) -> Iterator[Step]:
        match self._view.kind(source):
            case FileType.LINK:
                yield Symlink(self._view.text(source), path)
            case FileType.DIR:
                yield Dir(path)
                yield Bind(source, path, read_only, optional=True)
            case FileType.FILE:
                yield MakeFile(path)
                yield Bind(source, path, read_only, optional=True)
            case FileType.MISSING:  # gone in this very moment
                return
