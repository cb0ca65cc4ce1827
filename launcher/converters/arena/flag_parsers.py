"""Parses the values of repeated flags."""

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


def pairs(flags: FlagValues, name: str) -> dict[str, str]:
    """``K=V``, split at the first ``=``; the last value of a key is used."""
    result: dict[str, str] = {}
    for entry in flags.repeated(name):
        key, equals, value = entry.partition("=")
        if not equals or not key:
            flags.add_error(invalid(f"--{name}", entry, "must be NAME=VALUE"))
        result[key] = value
    return result


def devices(flags: FlagValues) -> dict[str, str]:
    """The device limits of each container."""
    limits = pairs(flags, "device")
    if GPU in limits:
        flags.add_error(forbidden("--device", f"use --gpus={limits[GPU]} for {GPU}"))
    for resource, amount in limits.items():
        try:
            quantity(amount)
        except ValueError as error:
            flags.add_error(invalid("--device", f"{resource}={amount}", str(error)))
    return limits


def claims(flags: FlagValues) -> dict[str, str]:
    """The mount path of each PersistentVolumeClaim."""
    paths: dict[str, str] = {}
    for entry in flags.repeated("data"):
        claim, colon, path = entry.partition(":")
        if not colon or not claim or ":" in path:
            flags.add_error(invalid("--data", entry, "must be CLAIM:/PATH"))
        elif not _is_mount_path(path):
            flags.add_error(invalid("--data", entry, "the path must be absolute and not /"))
        elif claim in paths:
            flags.add_error(duplicate("--data", claim, "a claim may be mounted once"))
        paths[claim] = path
    return paths


def directories(flags: FlagValues) -> tuple[tuple[str, str], ...]:
    """The host directories with their mount paths; the default is the same path."""
    result: list[tuple[str, str]] = []
    for entry in flags.repeated("data-dir"):
        source, _, target = entry.partition(":")
        target = target or source
        if not _is_mount_path(source) or not _is_mount_path(target):
            flags.add_error(
                invalid("--data-dir", entry, "must be /HOST or /HOST:/PATH with absolute paths other than /")
            )
        result.append((source, target))
    return tuple(result)


def tolerations(flags: FlagValues) -> list[Json]:
    """The tolerations; ``all`` tolerates every taint and replaces the others."""
    result: list[Json] = []
    for entry in flags.repeated("toleration"):
        if entry == "all":
            return [{"operator": "Exists"}]
        parts = _TOLERATION.fullmatch(entry)
        if parts is None:
            must = "must be KEY=VALUE:EFFECT,OPERATOR, such as gpu=yes:NoSchedule,Equal, or all"
            flags.add_error(invalid("--toleration", entry, must))
            continue
        if parts["effect"] not in _EFFECTS:
            flags.add_error(unsupported("--toleration", parts["effect"], _EFFECTS[1:]))
        if parts["operator"] not in ("Equal", "Exists"):
            flags.add_error(unsupported("--toleration", parts["operator"], ("Equal", "Exists")))
        result.append({name: value for name, value in parts.groupdict().items() if value})
    return result


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A local file for the containers."""

    source: str
    #: Its path in containers.
    target: str
    content: bytes

    @property
    def directory(self) -> str:
        return dirname(self.target)

    @property
    def key(self) -> str:
        """Its key in the ConfigMap."""
        return basename(self.target)


def sources(entries: tuple[str, ...]) -> list[str]:
    """The local paths in ``--config-file``, as written."""
    return [entry.partition(":")[0] for entry in entries]


def files(flags: FlagValues, contents: Mapping[str, bytes]) -> tuple[ConfigFile, ...]:
    """The files, with their *contents* by source."""
    by_target: dict[str, ConfigFile] = {}
    for entry in flags.repeated("config-file"):
        source, _, target = entry.partition(":")
        target = normpath(target or source)
        if not _is_mount_path(target) or entry.endswith("/"):
            must = "must be FILE:/PATH with the absolute path of a file in the container"
            flags.add_error(invalid("--config-file", entry, must))
        elif target in by_target:
            flags.add_error(duplicate("--config-file", target, "paths must be unique"))
        by_target[target] = ConfigFile(source, target, contents.get(source, b""))
    return tuple(by_target.values())


def _is_mount_path(path: str) -> bool:
    return path.startswith("/") and normpath(path) not in ("/", "//")
