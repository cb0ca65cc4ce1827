"""Settings that change while a launcher runs: read again on SIGHUP, and taken all together or not at all."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TypeVar

from launcher.settings import ClusterSettings, InvalidSetting, Settings

log = logging.getLogger(__name__)

#: The flags of the fields that are called otherwise.
_FLAGS = {
    "port": "listen",
    "unix_socket": "listen",
    "nodes": "node",
    "images": "image",
    "claims": "claim",
    "hosts": "host",
    "token": "token-file",
    "cluster": "kubeconfig",
    "frameworkcontroller": "serve-frameworkcontroller",
    "tls": "tls-cert",
}
_RELOADED = frozenset({"token", "policy"})

AnySettings = TypeVar("AnySettings", Settings, ClusterSettings)


def reload(
    running: AnySettings, read: Callable[[], AnySettings], apply: Callable[[AnySettings], None]
) -> None:
    """
    Apply what *read* returns. What it or *apply* refuses with InvalidSetting is logged, and the old settings stay.

    A changed setting that only a restart can apply is logged, too.
    """
    try:
        new = read()
        restart = sorted(set(_only_by_restart(running, new)))
        apply(new)
    except InvalidSetting as error:
        log.error("settings not reloaded, the old ones stay", extra={"reason": str(error)})
        return
    for name in restart:
        log.warning("changed setting needs a restart", extra={"setting": name})
    log.info("settings reloaded")


def _only_by_restart(old: AnySettings, new: AnySettings) -> Iterator[str]:
    for entry in fields(old):
        if entry.name not in _RELOADED and getattr(old, entry.name) != getattr(new, entry.name):
            yield "listen" if entry.name == "host" else _FLAGS.get(entry.name, entry.name.replace("_", "-"))
