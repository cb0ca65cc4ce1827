"""The tree of files in a container's root that differ from the machine's, and the steps that build it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from launcher.node.sandbox.filesystem import Filesystem, FileType
from launcher.node.sandbox.mount_steps import (
    Bind,
    Dir,
    MakeFile,
    MakeReadOnly,
    Overlay,
    Proc,
    Step,
    Symlink,
    Tmpfs,
)


class MountMethod(Enum):
    """How a file appears in the container."""

    #: Through the mount of its parent directory.
    INHERITED = "inherited"
    #: A bind mount of its source.
    BIND = "bind"
    #: A directory in memory, in which each entry of its source is bind-mounted.
    TMPFS = "tmpfs"
    #: An overlay of its sources; writes are kept in memory.
    OVERLAY = "overlay"
    PROC = "proc"


@dataclass(slots=True, eq=False)
class MountNode:
    """A file, link or directory in the container."""

    kind: FileType
    method: MountMethod = MountMethod.INHERITED
    #: The paths on the machine, the uppermost first.
    sources: tuple[str, ...] = ()
    read_only: bool = False
    #: Missing entries may be created in it: it is a volume, or an overlay.
    writable: bool = False
    #: It does not exist before a step creates it.
    missing: bool = False
    #: The target of a link.
    text: str = ""
    children: dict[str, "MountNode"] = field(default_factory=dict)


def join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


def mount_steps(view: Filesystem, root: MountNode) -> Iterator[Step]:
    """The steps that build the tree from the root down."""
    return _StepBuilder(view).steps(root, "/", None)


class _StepBuilder:
    def __init__(self, view: Filesystem) -> None:
        self._view = view

    def steps(self, node: MountNode, path: str, parent: MountNode | None) -> Iterator[Step]:
        in_memory = parent is not None and parent.method is MountMethod.TMPFS
        if in_memory or node.missing:
            yield self._create(node, path)
        # A directory in memory inside another one needs no mount of its own.
        mounted = not (in_memory and node.method is MountMethod.TMPFS and not node.read_only)
        if mounted:
            yield from self._mount(node, path, in_memory=in_memory)
        if node.method is MountMethod.TMPFS:
            yield from self._bind_entries(node, path)
        for name, child in node.children.items():
            yield from self.steps(child, join(path, name), node)
        if mounted and node.read_only and node.method in (MountMethod.TMPFS, MountMethod.OVERLAY):
            yield MakeReadOnly(path)

    def _create(self, node: MountNode, path: str) -> Step:
        if node.kind is FileType.LINK:
            return Symlink(node.text, path)
        if node.kind is FileType.FILE:
            return MakeFile(path)
        return Dir(path, self._mode(node))

    def _mode(self, node: MountNode) -> int:
        return (
            self._view.mode(node.sources[-1]) if node.sources and node.method is MountMethod.TMPFS else 0o755
        )

    def _mount(self, node: MountNode, path: str, *, in_memory: bool) -> Iterator[Step]:
        match node.method:
            case MountMethod.PROC:
                yield Proc(path)
            case MountMethod.TMPFS:
                yield Tmpfs(path, self._mode(node))
            case MountMethod.OVERLAY:
                yield Overlay(path, node.sources)
                yield from self._bind_mounts_below(node, path)
            case MountMethod.BIND | MountMethod.INHERITED:
                if (
                    node.kind is not FileType.LINK
                    and node.sources
                    and (in_memory or node.method is MountMethod.BIND)
                ):
                    yield Bind(node.sources[0], path, node.read_only)

    def _bind_mounts_below(self, node: MountNode, path: str) -> Iterator[Step]:
        """Binds the mounts below the lowest layer, which an overlay does not show."""
        lowest = node.sources[-1]
        for mounted in self._view.mounts_below(lowest):
            yield Bind(
                mounted, join(path, mounted[len(lowest.rstrip("/")) + 1 :]), node.read_only, optional=True
            )

    def _bind_entries(self, node: MountNode, path: str) -> Iterator[Step]:
        for source in node.sources:
            for name in self._view.entries(source):
                if name not in node.children:
                    yield from self._bind_entry(
                        join(source, name), join(path, name), read_only=node.read_only
                    )

    def _bind_entry(self, source: str, path: str, *, read_only: bool) -> Iterator[Step]:
        match self._view.kind(source):
            case FileType.LINK:
                yield Symlink(self._view.text(source), path)
            case FileType.DIR:
                yield Dir(path)
                yield Bind(source, path, read_only, optional=True)
            case FileType.FILE:
                yield MakeFile(path)
                yield Bind(source, path, read_only, optional=True)
            case FileType.MISSING:  # removed meanwhile
                return
