"""The steps that make a container's root; a plan is a sequence of them, carried out in order."""

from dataclasses import dataclass

#: A step as the keeper reads it: its name and its arguments.
WireStep = list[object]


@dataclass(frozen=True, slots=True)
class Bind:
    """*source* of the machine, with all that is mounted below it, stands at *target*, which is there already."""

    source: str
    target: str
    read_only: bool = False
    #: Left out when there is no such source any more.
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Tmpfs:
    """*target*, which is there already, becomes an empty directory in memory."""

    target: str
    mode: int = 0o755


@dataclass(frozen=True, slots=True)
class Overlay:
    """*target* becomes *layers* of the machine on top of each other, the first uppermost; writes go to memory."""

    target: str
    layers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dir:
    """There is a directory at *target*."""

    target: str
    mode: int = 0o755


@dataclass(frozen=True, slots=True)
class MakeFile:
    """There is a file at *target*, empty if it is new."""

    target: str


@dataclass(frozen=True, slots=True)
class Symlink:
    """There is a link with *text* at *target*."""

    text: str
    target: str


@dataclass(frozen=True, slots=True)
class Seal:
    """The Tmpfs or Overlay at *target* cannot be written to any more; what is mounted below it can."""

    target: str


@dataclass(frozen=True, slots=True)
class Proc:
    """*target* shows the processes of the container, and no others."""

    target: str = "/proc"


Step = Bind | Tmpfs | Overlay | Dir | MakeFile | Symlink | Seal | Proc


def to_wire(step: Step) -> WireStep:
    """The step as the keeper reads it."""
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
        case Seal(target):
            return ["seal", target]
        case Proc(target):
            return ["proc", target]


def bubblewrap_arguments(steps: tuple[Step, ...]) -> list[str]:
    """The same steps as options of bubblewrap. Overlays it has only since 0.11, so a plan for it has none."""
    arguments = ["--unshare-pid", "--new-session"]
    for step in steps:
        arguments += _options(step)
    return arguments


def _options(step: Step) -> list[str]:
    match step:
        case Bind(source, target, read_only, optional):
            # --dev-bind: the devices of the machine work in containers as they do outside.
            option = "--ro-bind" if read_only else "--dev-bind"
            return [f"{option}-try" if optional else option, source, target]
        case Tmpfs(target, mode):
            return ["--perms", f"{mode:04o}", "--tmpfs", target]
        case Dir(target, mode):
            return ["--perms", f"{mode:04o}", "--dir", target]
        case MakeFile(target):
            # bubblewrap makes the file itself when something is bound there.
            return []
        case Symlink(text, target):
            return ["--symlink", text, target]
        case Seal(target):
            return ["--remount-ro", target]
        case Proc(target):
            return ["--proc", target]
        case Overlay(target):
            raise ValueError(f"bubblewrap has no overlay for {target}")
