"""The stored status of one Framework: its version, own writes, and the time of the next write."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

from launcher.store.interface import FRAMEWORKS, Key, Object, Version, version_of


class StatusWriter:
    """
    Builds status updates and distinguishes own writes from those of other clients.

    Only the digest of a status is stored, for comparison.
    """

    def __init__(self, obj: Object) -> None:
        self.version: Version = version_of(obj)
        #: The last write had an unknown outcome; the Framework is read before the next planning pass.
        self.is_unconfirmed = False
        #: On the event loop's clock: the time by which a changed status is written. None: it did not change.
        self._save_by: float | None = None
        self._stored = _digest(obj.get("status"))
        self._sent: bytes | None = None

    def update(self, key: Key, uid: str, status: Mapping[str, Any]) -> Object:
        """Returns the object to write."""
        namespace, name = key
        self._sent = _digest(status)
        return {
            "apiVersion": FRAMEWORKS.api_version,
            "kind": FRAMEWORKS.kind,
            "metadata": {
                "namespace": namespace,
                "name": name,
                "uid": uid,
                "resourceVersion": str(self.version),
            },
            "status": status,
        }

    def is_older(self, obj: Object) -> bool:
        """Whether *obj* is not newer than the observed version."""
        return version_of(obj) <= self.version

    def observe(self, obj: Object) -> bool:
        """Records a version of the Framework. False, with nothing recorded, if another client wrote its status."""
        digest = _digest(obj.get("status"))
        if digest not in (self._stored, self._sent):
            return False
        self.version, self._stored = version_of(obj), digest
        return True

    def adopt(self, obj: Object) -> None:
        """Records a status that another client wrote."""
        self.version, self._stored, self._sent = version_of(obj), _digest(obj.get("status")), None

    def confirm(self, obj: Object) -> bool:
        """Records a successful write with the response *obj*. False if a newer version was observed since."""
        if version_of(obj) < self.version:
            return False
        self.adopt(obj)
        self._save_by = None
        return True

    def outcome_unknown(self) -> None:
        """Records that the status last sent may or may not be stored."""
        self.is_unconfirmed = True

    def resolve(self, live: Object) -> bool:
        """Resolves an unknown outcome. Returns whether the live Framework has the status last sent."""
        self.is_unconfirmed = False
        return _digest(live.get("status")) == self._sent

    def discard_sent(self) -> None:
        """Records that the last write was not stored."""
        self._sent = None

    def cancel_save(self) -> None:
        """Records that the status does not differ from the stored one."""
        self._save_by = None

    def seconds_to_save(self, now: float, delay: float) -> float:
        """Returns the seconds before a changed status is written, at most *delay* after its first change."""
        latest = now + delay
        self._save_by = latest if self._save_by is None else min(self._save_by, latest)
        return self._save_by - now


def _digest(status: Mapping[str, Any] | None) -> bytes:
    return blake2b(orjson.dumps(status or None, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
