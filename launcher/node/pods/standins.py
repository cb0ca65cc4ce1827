"""Images that a program of ours stands for: what a container of theirs runs that names no command."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from launcher.node.pods.podspec import Container

#: Commands by the image's name, without registry and tag.
StandIns = Mapping[str, Sequence[str]]


def stood_in_for(container: Container, stand_ins: StandIns) -> Container:
    """The container, with the command that stands for its image if it has none of its own."""
    if container.spec.get("command"):
        return container
    command = _command(container.spec.get("image") or "", stand_ins)
    return container if command is None else replace(container, spec={**container.spec, "command": command})


def _command(image: str, stand_ins: StandIns) -> list[str] | None:
    repository = image.partition("@")[0]
    directories, slash, name = repository.rpartition("/")
    # A colon before the last slash is that of a registry's port.
    repository = directories + slash + name.partition(":")[0]
    for known, command in stand_ins.items():
        if repository == known or repository.endswith(f"/{known}"):
            return list(command)
    return None
