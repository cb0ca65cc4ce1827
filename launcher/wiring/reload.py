"""Reload of settings on SIGHUP: all are applied, or none."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TypeVar

from launcher.settings.cluster import ClusterSettings
from launcher.settings.local import Settings
from launcher.settings.values import InvalidSetting

log = logging.getLogger(__name__)

#: Flags whose names differ from the fields.
_FLAGS = {
    "port": "listen",
    "unix_socket": "listen",
    "nodes": "node",
    "images": "image",
    "engine": "runtime",
    "entrypoints": "image",
    "image_workdir": "workdir",
    "claims": "claim",
    "hosts": "host",
    "token": "token-file",
    "cluster": "kubeconfig",
    "frameworkcontroller": "serve-frameworkcontroller",
    "tls": "tls-cert",
}
_RELOADED = frozenset({"token", "policy", "failure_rules"})

AnySettings = TypeVar("AnySettings", Settings, ClusterSettings)


def reload(
    running: AnySettings, read: Callable[[], AnySettings], apply: Callable[[AnySettings], None]
) -> None:
    """
    Applies the settings that *read* returns. On InvalidSetting of either, logs it and keeps the current settings.

    A changed setting that requires a restart is logged, too.
    """
    try:
        new = read()
        restart = sorted(set(_settings_with_restart(running, new)))
        apply(new)
    except InvalidSetting as error:
        log.error("settings not reloaded, keeping the old ones", extra={"error": str(error)})
        return
    for name in restart:
        log.warning("changed setting needs a restart", extra={"setting": name})
    log.info("settings reloaded")


def _settings_with_restart(old: AnySettings, new: AnySettings) -> Iterator[str]:
    for entry in fields(old):
        if entry.name not in _RELOADED and getattr(old, entry.name) != getattr(new, entry.name):
            yield "listen" if entry.name == "host" else _FLAGS.get(entry.name, entry.name.replace("_", "-"))
