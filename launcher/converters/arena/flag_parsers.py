"""What stands behind flags that may be given many times, each entry understood or refused by name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from posixpath import basename, dirname, normpath
from typing import Any

from launcher.converters.arena.flag_values import FlagValues
from launcher.core.quantity import quantity
from launcher.core.validation.field_errors import duplicate, forbidden, invalid, unsupported

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
_TOLERATION = re.compile(r"(?P<key>[^=:,]+)=(?P<value>[^=:,]*):(?P<effect>[^=:,]*),(?P<operator>[^=:,]+)")
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


def pairs(given: FlagValues, name: str) -> dict[str, str]:
    """``K=V``, split at the first ``=``; the last of a key stands."""
    found: dict[str, str] = {}
    for entry in given.each(name):
        key, equals, value = entry.partition("=")
        if not equals or not key:
            given.complain(invalid(f"--{name}", entry, "write it as NAME=VALUE"))
        found[key] = value
    return found


def devices(given: FlagValues) -> dict[str, str]:
    """The devices of each container, by resource."""
    found = pairs(given, "device")
    if GPU in found:
        given.complain(forbidden("--device", f"{GPU} is what --gpus is for: write --gpus={found[GPU]}"))
    for resource, amount in found.items():
        try:
            quantity(amount)
        except ValueError as error:
            given.complain(invalid("--device", f"{resource}={amount}", str(error)))
    return found


def claims(given: FlagValues) -> dict[str, str]:
    """Where each PersistentVolumeClaim is mounted."""
    found: dict[str, str] = {}
    for entry in given.each("data"):
        claim, colon, path = entry.partition(":")
        if not colon or not claim or ":" in path:
            given.complain(invalid("--data", entry, "write it as CLAIM:/PATH"))
        elif not _is_place(path):
            given.complain(invalid("--data", entry, "the path has to be absolute, and not / itself"))
        elif claim in found:
            given.complain(duplicate("--data", claim, "a claim can be mounted once"))
        found[claim] = path
    return found


def directories(given: FlagValues) -> tuple[tuple[str, str], ...]:
    """Each directory of the node, and where it is mounted: by itself, at its own path."""
    found: list[tuple[str, str]] = []
    for entry in given.each("data-dir"):
        source, _, target = entry.partition(":")
        target = target or source
        if not _is_place(source) or not _is_place(target):
            given.complain(
                invalid("--data-dir", entry, "write it as /HOST or /HOST:/PATH, absolute, and not / itself")
            )
        found.append((source, target))
    return tuple(found)


def tolerations(given: FlagValues) -> list[Json]:
    """The taints that are put up with; ``all`` is every one, and then no other counts."""
    found: list[Json] = []
    for entry in given.each("toleration"):
        if entry == "all":
            return [{"operator": "Exists"}]
        parts = _TOLERATION.fullmatch(entry)
        if parts is None:
            must = "write it as KEY=VALUE:EFFECT,OPERATOR, such as gpu=yes:NoSchedule,Equal, or all"
            given.complain(invalid("--toleration", entry, must))
            continue
        if parts["effect"] not in _EFFECTS:
            given.complain(unsupported("--toleration", parts["effect"], _EFFECTS[1:]))
        if parts["operator"] not in ("Equal", "Exists"):
            given.complain(unsupported("--toleration", parts["operator"], ("Equal", "Exists")))
        found.append({name: value for name, value in parts.groupdict().items() if value})
    return found


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of the user's for the containers."""

    source: str
    #: Its path in containers.
    target: str
    content: bytes

    @property
    def directory(self) -> str:
        return dirname(self.target)

    @property
    def key(self) -> str:
        """Its name in the ConfigMap."""
        return basename(self.target)


def sources(entries: tuple[str, ...]) -> list[str]:
    """The files of this machine that ``--config-file`` names, as they are written."""
    return [entry.partition(":")[0] for entry in entries]


def files(given: FlagValues, contents: Mapping[str, bytes]) -> tuple[ConfigFile, ...]:
    """The files, with their *contents* by source."""
    found: dict[str, ConfigFile] = {}
    for entry in given.each("config-file"):
        source, _, target = entry.partition(":")
        target = normpath(target or source)
        if not _is_place(target) or entry.endswith("/"):
            must = "the path in the container has to be absolute, and that of a file: write it as FILE:/PATH"
            given.complain(invalid("--config-file", entry, must))
        elif target in found:
            given.complain(duplicate("--config-file", target, "there can be one file at a path"))
        found[target] = ConfigFile(source, target, contents.get(source, b""))
    return tuple(found.values())


def _is_place(path: str) -> bool:
    return path.startswith("/") and normpath(path) not in ("/", "//")
