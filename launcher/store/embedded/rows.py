"""Immutable rows: objects as JSON text."""

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from launcher.core.errors import TooLarge
from launcher.store.interface import ChangeType, Key, Object, Version, key_of
from launcher.store.object_metadata import fields_with_wrong_type
from launcher.store.selectors import Selector
from launcher.store.strategy import canonical_json

log = logging.getLogger(__name__)

MAX_OBJECT_BYTES = 3 * 1024 * 1024

_NO_LABELS: Mapping[str, str] = {}
#: Matches the start of the text of an object if no field before its metadata could be mistaken for it.
_METADATA_PREFIX = re.compile(rb'\{"apiVersion":"[^"\\]*","kind":"[^"\\]*","metadata":\{')


class Row(NamedTuple):
    """
    One object at one version.

    The status is separate because most writes change nothing else and share the text of the rest. A tuple, because
    every write creates one, and a dataclass would take a tenth of the time of a write.
    """

    resource: str
    key: Key
    #: Identifies the object over all versions, like its uid.
    number: int
    uid: str
    version: Version
    #: All but status and resourceVersion, as canonical JSON.
    main: bytes
    status: bytes | None
    labels: Mapping[str, str]

    @property
    def size(self) -> int:
        return len(self.main) + len(self.status or b"")

    def object(self, version: Version | None = None) -> Object:
        """Returns a new copy of the object."""
        obj = self.without_status(version)
        if self.status is not None:
            obj["status"] = orjson.loads(self.status)
        return obj

    def text(self) -> bytes:
        """Returns the object as JSON, concatenated from its parts without parsing if possible."""
        head = _METADATA_PREFIX.match(self.main)
        if head is None:
            return orjson.dumps(self.object())
        end = head.end()
        status = b"" if self.status is None else b',"status":%b' % self.status
        return b'%b"resourceVersion":"%d",%b%b}' % (
            self.main[:end],
            self.version,
            self.main[end:-1],
            status,
        )

    def without_status(self, version: Version | None = None) -> Object:
        obj: Object = orjson.loads(self.main)
        obj["metadata"]["resourceVersion"] = str(version or self.version)
        return obj

    def matches(self, selector: Selector) -> bool:
        return (
            selector.matches_labels(self.labels)
            and (selector.names is None or selector.names.matches(self.key))
            and (not selector.fields or selector.matches_fields(self.object()))
        )

    def identity(self) -> Object:
        """Returns name, uid and version of the object, without parsing it."""
        return {"metadata": {"name": self.key[1], "uid": self.uid, "resourceVersion": str(self.version)}}

    def with_status(self, status: Any, version: Version) -> "Row":
        """Returns the next version, with another status."""
        text = None if status is None else _text(status)
        return _check_size(
            Row(self.resource, self.key, self.number, self.uid, version, self.main, text, self.labels)
        )

    def with_object(self, obj: Object, version: Version) -> "Row":
        """Returns the next version, with the content of *obj*."""
        main, status = _texts(obj)
        labels = _interned_labels(obj)
        # Equal values are shared, so that the next comparison is by identity.
        if labels == self.labels:
            labels = self.labels
        if status == self.status:
            status = self.status
        return _check_size(Row(self.resource, self.key, self.number, self.uid, version, main, status, labels))

    def same_as(self, other: "Row") -> bool:
        """Whether only the versions differ."""
        return self.main == other.main and self.status == other.status


def new_row(resource: str, key: Key, obj: Object, version: Version) -> Row:
    """Returns the first version of an object. Raises TooLarge."""
    main, status = _texts(obj)
    return _check_size(
        Row(resource, key, version, obj["metadata"]["uid"], version, main, status, _interned_labels(obj))
    )


def stored_row(resource: str, number: int, version: Version, main: bytes, status: bytes | None) -> Row:
    """
    Returns a row read from the file. Raises ValueError or KeyError if it is invalid.

    Metadata fields with a wrong type are dropped: with them the object could be neither changed nor deleted.
    """
    obj = orjson.loads(main)
    if invalid := fields_with_wrong_type(obj["metadata"]):
        log.error(
            "stored metadata with a wrong type dropped",
            extra={"resource": resource, "object": key_of(obj), "fields": invalid},
        )
        obj["metadata"] = {name: value for name, value in obj["metadata"].items() if name not in invalid}
        main = _text(obj)
    return Row(
        resource, key_of(obj), number, obj["metadata"]["uid"], version, main, status, _interned_labels(obj)
    )


def _texts(obj: Object) -> tuple[bytes, bytes | None]:
    """Returns the two parts of a row: all but status and version, and the status."""
    main = dict(obj)
    status = main.pop("status", None)
    if "resourceVersion" in main["metadata"]:
        main["metadata"] = {key: value for key, value in main["metadata"].items() if key != "resourceVersion"}
    return _text(main), None if status is None else _text(status)


def _text(value: Any) -> bytes:
    # Copied because orjson returns a buffer several times that size.
    return bytes(memoryview(canonical_json(value)))


def _interned_labels(obj: Object) -> Mapping[str, str]:
    """Returns the labels with interned strings."""
    labels = obj["metadata"].get("labels")
    return (
        {sys.intern(str(key)): sys.intern(str(value)) for key, value in labels.items()}
        if labels
        else _NO_LABELS
    )


def _check_size(row: Row) -> Row:
    if row.size > MAX_OBJECT_BYTES:
        raise TooLarge(f'{row.resource} "{row.key[1]}" has {row.size} bytes; the limit is {MAX_OBJECT_BYTES}')
    return row


class Entry(NamedTuple):
    """One write: its type, the object after it (the last state if deleted), and before it."""

    type: ChangeType
    row: Row
    before: Row | None = None

    @property
    def version(self) -> Version:
        return self.row.version
