"""A model of a machine's files and a container's mounts, on which plans are executed as by the kernel."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from launcher.node.sandbox.filesystem import FileType
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

DIR = ""


def below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def names_of(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


class FakeMachine:
    """Files by path: a directory, a file, or a link with its text after ``->``."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = {"/": DIR, "/proc": DIR, "/dev": DIR}
        for path, content in files.items():
            for end in range(1, len(names_of(path))):
                self.files.setdefault("/" + "/".join(names_of(path)[:end]), DIR)
            self.files.setdefault(path, content)

    def kind(self, path: str) -> FileType:
        content = self.files.get(path)
        if content is None:
            return FileType.MISSING
        return (
            FileType.DIR if content == DIR else FileType.LINK if content.startswith("->") else FileType.FILE
        )

    def text(self, link: str) -> str:
        return self.files[link].removeprefix("->")

    def followed_kind(self, path: str) -> FileType:
        return self.kind(path)

    def entries(self, directory: str) -> Sequence[str]:
        top = directory.rstrip("/") + "/"
        return sorted(
            {path[len(top) :] for path in self.files if path.startswith(top)} - {""} - self._deep(top)
        )

    def _deep(self, top: str) -> set[str]:
        return {path[len(top) :] for path in self.files if path.startswith(top) and "/" in path[len(top) :]}

    def mode(self, directory: str) -> int:
        return 0o755

    def mounts_below(self, directory: str) -> Sequence[str]:
        return ()


@dataclass
class Seen:
    """A file in the container."""

    kind: FileType
    #: Its path on the machine; None if it exists only in the container.
    source: str | None
    text: str = ""
    read_only: bool = False


@dataclass
class _Mounted:
    target: str
    layers: tuple[str, ...] = ()
    made: dict[str, Seen] = field(default_factory=dict)
    memory: bool = False
    read_only: bool = False


class MountedContainer:
    """The container's files after the executed steps. Raises AssertionError where the kernel would fail."""

    def __init__(self, machine: FakeMachine) -> None:
        self._machine = machine
        self._mounts: list[_Mounted] = []
        #: Files that were created in bound sources.
        self.created_outside: set[str] = set()

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._step(step)

    def _step(self, step: Step) -> None:
        match step:
            case Bind(source, target, read_only):
                assert self._is_there(target, self._machine.kind(source)), step
                self._mounts.append(_Mounted(target, (source,), read_only=read_only))
            case Tmpfs(target):
                assert self._is_there(target, FileType.DIR), step
                self._mounts.append(_Mounted(target, memory=True))
            case Overlay(target, layers):
                assert self._is_there(target, FileType.DIR), step
                self._mounts.append(_Mounted(target, layers, memory=True))
            case Proc(target):
                assert self._is_there(target, FileType.DIR), step
                self._mounts.append(_Mounted(target, memory=True))
            case Dir(target):
                self._make(target, Seen(FileType.DIR, None))
            case MakeFile(target):
                self._make(target, Seen(FileType.FILE, None))
            case Symlink(text, target):
                self._make(target, Seen(FileType.LINK, None, text))
            case MakeReadOnly(target):
                assert self._mounted_at(target).target == target
                self._mounted_at(target).read_only = True

    def _is_there(self, target: str, kind: FileType) -> bool:
        # The new root always exists.
        return (target == "/" and not self._mounts) or self.at(target).kind is kind

    def _mounted_at(self, path: str) -> _Mounted:
        """The mount that contains *path*: the last one at it or above it."""
        return [mounted for mounted in self._mounts if below(path, mounted.target)][-1]

    def _make(self, target: str, what: Seen) -> None:
        above, _, _ = target.rpartition("/")
        assert self.at(above or "/").kind is FileType.DIR, target
        mounted = self._mounted_at(target)
        assert not mounted.read_only, target
        before = self.at(target)
        if before.kind is not FileType.MISSING:
            assert before.kind is what.kind is not FileType.LINK, target
            return
        mounted.made[target] = what
        if not mounted.memory:
            self.created_outside.add(
                mounted.layers[0].rstrip("/") + target[len(mounted.target.rstrip("/")) :]
            )

    def at(self, path: str) -> Seen:
        """The file at *path*, of which no directory is a link."""
        mounted = self._mounted_at(path)
        if path in mounted.made:
            return mounted.made[path]
        inside = path[len(mounted.target.rstrip("/")) :]
        inside = "" if inside == "/" else inside
        for layer in mounted.layers:
            source = (layer.rstrip("/") + inside) or "/"
            kind = self._machine.kind(source)
            if kind is not FileType.MISSING:
                text = self._machine.text(source) if kind is FileType.LINK else ""
                return Seen(kind, source, text, mounted.read_only)
        if mounted.memory and path == mounted.target:
            return Seen(FileType.DIR, None, "", mounted.read_only)
        return Seen(FileType.MISSING, None)

    def find(self, path: str) -> Seen:
        """The file at *path* with all links followed."""
        done, names = "", names_of(path)
        for _ in range(1000):
            if not names:
                return self.at(done or "/")
            name = names.pop(0)
            if name == "..":
                done = done.rpartition("/")[0]
                continue
            found = self.at(f"{done}/{name}")
            if found.kind is FileType.LINK:
                names = names_of(found.text) + names
                done = "" if found.text.startswith("/") else done
            else:
                done = f"{done}/{name}"
        return Seen(FileType.MISSING, None)
