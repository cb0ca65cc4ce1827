"""
Plans the mount steps of a container's root: that of this machine, overlaid by an image and by mounts.

Nothing is ever created on the machine's own filesystem. Where a mount point is missing, the deepest existing directory
is replaced by one in memory with the same entries and the new one. Inside a writable volume the mount point is created
in the volume, as in Kubernetes, because what the container writes next to it has to reach the volume.
"""

from collections.abc import Sequence
from pathlib import Path

from launcher.node.container_runtime import Mount
from launcher.node.sandbox.filesystem import Filesystem, FileType
from launcher.node.sandbox.mount_steps import Step
from launcher.node.sandbox.mount_tree import MountMethod, MountNode, join, mount_steps

#: A directory with more entries is mounted as an overlay, if possible, instead of entry by entry.
_MAX_BOUND_ENTRIES = 64
#: The kernel's limit.
_MAX_LINKS = 40
#: Mounted on a file whose content is hidden.
_EMPTY_FILE = "/dev/null"


class InvalidMount(Exception):
    """The root cannot be built; the message names the mount and the reason."""


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
    The steps that build the root. *image* is a directory that is overlaid on it. Raises InvalidMount.

    *hidden* are paths of this machine, with all links resolved, whose content is not visible in containers, also not
    through a mount of a parent directory. A container's own mounts may come from below them.
    """
    root = MountNode(FileType.DIR, MountMethod.BIND, ("/",), read_only=read_only_root)
    planner = _MountPlanner(view, root, overlays=overlays, hidden=hidden)
    planner.hide_below([root], "/")
    if image is not None:
        planner.overlay([root], str(image))
        planner.hide_below([root], str(image))
    if read_only_root:
        # A read-only root does not include devices and shared memory.
        planner.mount(Mount(Path("/dev"), "/dev"))
    # Parents first, so that nested mounts are visible whatever their order is.
    for mount in sorted(mounts, key=lambda mount: _real(view, mount.target).count("/")):
        planner.mount(mount)
    root.children["proc"] = MountNode(FileType.DIR, MountMethod.PROC)
    return tuple(mount_steps(view, root))


def _is_below(path: str, top: str) -> bool:
    """Whether *path* is *top* or below it."""
    return path == top or path.startswith(top.rstrip("/") + "/")


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _real(view: Filesystem, target: str) -> str:
    """*target* on the machine, with all links resolved."""
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
        if links > _MAX_LINKS:
            raise InvalidMount(f"{target}: too many symbolic links")
        text = view.text(path)
        names = _names(text) + names
        done = "" if text.startswith("/") else done
    return done


class _MountPlanner:
    def __init__(self, view: Filesystem, root: MountNode, *, overlays: bool, hidden: Sequence[str]) -> None:
        self._view, self._root, self._overlays = view, root, overlays
        self._hidden = [path for path in hidden if view.kind(path) is not FileType.MISSING]

    def mount(self, mount: Mount) -> None:
        """Adds a mount."""
        source, kind = str(mount.source), self._view.followed_kind(str(mount.source))
        if kind is FileType.MISSING:
            raise InvalidMount(f"{mount.target}: {source} does not exist")
        if mount.host_path and any(_is_below(source, path) for path in self._hidden):
            raise InvalidMount(
                f"{mount.target}: {source} belongs to the launcher and cannot be mounted in containers"
            )
        names = _names(mount.target)
        if not names or ".." in names or not mount.target.startswith("/"):
            raise InvalidMount(f"{mount.target}: must be an absolute path below the root, without ..")
        node_path = self._walk([self._root], names, mount.target, create=kind)
        node = node_path[-1]
        if node is self._root:
            raise InvalidMount(f"{mount.target}: leads to the root itself")
        if self._root.children.get("proc") in node_path:
            raise InvalidMount(f"{mount.target}: nothing can be mounted in /proc")
        if node.kind is not kind:
            raise InvalidMount(f"{mount.target}: a {kind.value} cannot be mounted on a {node.kind.value}")
        # The node is changed in place, because it may have been reached through links.
        node.method, node.sources, node.children = MountMethod.BIND, (source,), {}
        node.read_only, node.writable = mount.read_only, not mount.read_only
        self.hide_below(node_path, source)

    def hide_below(self, node_path: list[MountNode], source: str) -> None:
        """Hides the hidden paths below the directory *source*, which is mounted at the end of *node_path*."""
        top = source.rstrip("/") + "/"
        for path in self._hidden:
            if not path.startswith(top):
                continue
            node = self._walk(node_path, _names(path[len(top) :]), path, create=FileType.DIR)[-1]
            is_directory = node.kind is FileType.DIR
            node.method, node.sources = (
                (MountMethod.TMPFS, ()) if is_directory else (MountMethod.BIND, (_EMPTY_FILE,))
            )
            node.read_only, node.writable, node.children = True, False, {}

    def _walk(
        self, node_path: list[MountNode], names: list[str], target: str, *, create: FileType
    ) -> list[MountNode]:
        """The nodes from the root to *names* below *node_path*, with links followed; missing nodes are created."""
        names, links = list(names), 0
        while names:
            name = names.pop(0)
            if name == "..":
                node_path = node_path[:-1] or node_path
                continue
            parent = node_path[-1]
            if parent.kind is not FileType.DIR:
                raise InvalidMount(f"{target}: {name} is below something that is not a directory")
            kind = FileType.DIR if names else create
            child = self._child(parent, name) or self._create(parent, name, kind)
            if child.kind is not FileType.LINK:
                node_path = [*node_path, child]
                continue
            links += 1
            if links > _MAX_LINKS:
                raise InvalidMount(f"{target}: too many symbolic links")
            names = _names(child.text) + names
            node_path = [self._root] if child.text.startswith("/") else node_path
        return node_path

    def _child(self, parent: MountNode, name: str) -> MountNode | None:
        """The child of that name, or None."""
        if (child := parent.children.get(name)) is not None:
            return child
        paths = [join(source, name) for source in parent.sources]
        kinds = [(path, kind) for path in paths if (kind := self._view.kind(path)) is not FileType.MISSING]
        if not kinds:
            return None
        kind = kinds[0][1]
        # As in an overlay, directories are merged; the first source decides the type.
        sources = [path for path, _ in kinds] if kind is FileType.DIR else [kinds[0][0]]
        node = MountNode(kind, sources=tuple(sources), read_only=parent.read_only, writable=parent.writable)
        if kind is FileType.LINK:
            node.text = self._view.text(sources[0])
        parent.children[name] = node
        return node

    def _create(self, parent: MountNode, name: str, kind: FileType) -> MountNode:
        """Creates a missing child, without changing the machine's filesystem."""
        if not parent.writable and parent.method is not MountMethod.TMPFS:
            self._make_extensible(parent)
        if parent.method is MountMethod.TMPFS and kind is FileType.DIR:
            node = MountNode(kind, MountMethod.TMPFS, missing=True)
        else:
            node = MountNode(kind, writable=parent.writable, missing=True)
        parent.children[name] = node
        return node

    def _make_extensible(self, node: MountNode) -> None:
        """Replaces the directory by an overlay, or by one in memory, so that entries can be added."""
        has_many_entries = len(self._view.entries(node.sources[0])) > _MAX_BOUND_ENTRIES
        # Devices in an overlay do not work in a user namespace.
        has_devices = node.sources[0] == "/dev"
        if self._overlays and has_many_entries and not has_devices and not node.read_only:
            node.method, node.writable = MountMethod.OVERLAY, True
        else:
            node.method = MountMethod.TMPFS

    def overlay(self, node_path: list[MountNode], layer: str) -> None:
        """Adds the files of the directory *layer* at the end of *node_path*; other files there stay."""
        node, below = node_path[-1], []
        added: dict[str, MountNode] = {}
        replaces = False
        for name in self._view.entries(layer):
            new = self._image_node(join(layer, name))
            existing = self._child(node, name)
            if new.kind is FileType.DIR and (end := self._directory(node_path, existing)):
                below.append((end, join(layer, name)))
            elif existing is not None and existing.kind is new.kind is FileType.FILE:
                node.children[name] = new
            else:
                added[name] = new
                replaces = replaces or existing is not None
        if added:
            self._add(node, added, replaces=replaces)
        for end, path in below:
            self.overlay(end, path)

    def _directory(self, node_path: list[MountNode], node: MountNode | None) -> list[MountNode]:
        """The nodes from the root to the directory that *node* is or links to; empty if it is not a directory."""
        if node is None or node.kind is FileType.FILE:
            return []
        if node.kind is FileType.DIR:
            return [*node_path, node]
        # /bin is a link to usr/bin on many machines, and a directory in many images. Chains of links are not followed.
        end = [self._root] if node.text.startswith("/") else node_path
        for name in _names(node.text):
            child = self._child(end[-1], name) if name != ".." else None
            if child is None or child.kind is not FileType.DIR:
                return []
            end = [*end, child]
        return end

    def _add(self, node: MountNode, added: dict[str, MountNode], *, replaces: bool) -> None:
        if not node.writable and node.method is not MountMethod.TMPFS:
            self._make_extensible(node)
        if replaces:
            # A mount cannot change the type of an entry of an overlay or below one; in memory the entry is left out.
            node.method, node.writable = MountMethod.TMPFS, False
        for name, new in added.items():
            new.missing = True
            node.children[name] = new

    def _image_node(self, path: str) -> MountNode:
        kind = self._view.kind(path)
        if kind is FileType.LINK:
            return MountNode(kind, text=self._view.text(path))
        if kind is FileType.DIR and self._overlays:
            # Writable as in an image, and the changes are visible only in this run.
            return MountNode(kind, MountMethod.OVERLAY, (path,), writable=True)
        return MountNode(kind, MountMethod.BIND, (path,), read_only=True)
