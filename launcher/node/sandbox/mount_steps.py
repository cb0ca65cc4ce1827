"""The mount steps that build a container's root."""

from dataclasses import dataclass

#: A step in the format of the shim: its name and its arguments.
WireStep = list[object]


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind-mounts *source* recursively at *target*, which exists."""

    source: str
    target: str
    read_only: bool = False
    #: Skipped if the source no longer exists.
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Tmpfs:
    """Mounts an empty tmpfs at *target*, which exists."""

    target: str
    mode: int = 0o755


@dataclass(frozen=True, slots=True)
class Overlay:
    """Mounts an overlay of *layers* at *target*, the first uppermost; writes are kept in memory."""

    target: str
    layers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dir:
    """Creates a directory, if it is missing."""

    target: str
    mode: int = 0o755


@dataclass(frozen=True, slots=True)
class MakeFile:
    """Creates an empty file, if it is missing."""

    target: str


@dataclass(frozen=True, slots=True)
class Symlink:
    """Creates a link to *text*."""

    text: str
    target: str


@dataclass(frozen=True, slots=True)
class MakeReadOnly:
    """Makes the Tmpfs or Overlay at *target* read-only, but not the mounts below it."""

    target: str


@dataclass(frozen=True, slots=True)
class Proc:
    """Mounts the proc filesystem of the container at *target*."""

    target: str = "/proc"


Step = Bind | Tmpfs | Overlay | Dir | MakeFile | Symlink | MakeReadOnly | Proc


def to_wire(step: Step) -> WireStep:
    """The step in the format of the shim."""
    match step:
        case Bind(source, target, read_only, optional):
            return ["bind", source, target, read_only, optional]
        case Tmpfs(target, mode):
            return ["tmpfs", target, mode]
        case Overlay(target, layers):
            return ["overlay", target, list(layers)]
        case Dir(target, mode):
            return ["dir", target, mode]
        case MakeFile(target):
            return ["file", target]
        case Symlink(text, target):
            return ["symlink", text, target]
        case MakeReadOnly(target):
            return ["seal", target]
        case Proc(target):
            return ["proc", target]


def bubblewrap_arguments(steps: tuple[Step, ...]) -> list[str]:
    """The steps as options of bwrap. It has overlays only since 0.11, so a plan for it must have none."""
    arguments = ["--unshare-pid", "--new-session"]
    for step in steps:
        arguments += _options(step)
    return arguments


def _options(step: Step) -> list[str]:
    match step:
        case Bind(source, target, read_only, optional):
            # --dev-bind: devices work in containers as on the machine.
            option = "--ro-bind" if read_only else "--dev-bind"
            return [f"{option}-try" if optional else option, source, target]
        case Tmpfs(target, mode):
            return ["--perms", f"{mode:04o}", "--tmpfs", target]
        case Dir(target, mode):
            return ["--perms", f"{mode:04o}", "--dir", target]
        case MakeFile(target):
            # bwrap creates the file when something is bound there.
            return []
        case Symlink(text, target):
            return ["--symlink", text, target]
        case MakeReadOnly(target):
            return ["--remount-ro", target]
        case Proc(target):
            return ["--proc", target]
        case Overlay(target):
            raise ValueError(f"bubblewrap has no overlay for {target}")
