"""Objects as the embedded stores keep them: JSON text, small, never changed."""

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from launcher.core.errors import TooLarge
from launcher.store.interface import ChangeType, Key, Object, Version, key_of
from launcher.store.object_metadata import wrong_fields
from launcher.store.selectors import Selector
from launcher.store.strategy import encoded

log = logging.getLogger(__name__)

MAX_BYTES = 3 * 1024 * 1024

_NO_LABELS: Mapping[str, str] = {}
#: How the text of an object begins, when nothing stands before its metadata that could be mistaken for it.
_UP_TO_METADATA = re.compile(rb'\{"apiVersion":"[^"\\]*","kind":"[^"\\]*","metadata":\{')


class Row(NamedTuple):
    """
    One object at one version.

    The status stands apart, because most writes change nothing else: they share the text of the rest. A tuple, since
    every write makes one, and a dataclass would take a tenth of the write's time.
    """

    resource: str
    key: Key
    #: The same for all versions of one object, and no other's, as is the uid.
    number: int
    uid: str
    version: Version
    #: All but the status and the version, in its one spelling.
    main: bytes
    status: bytes | None
    labels: Mapping[str, str]

    @property
    def size(self) -> int:
        return len(self.main) + len(self.status or b"")

    def object(self, version: Version | None = None) -> Object:
        """The object anew, so that nobody's change to it reaches anybody else."""
        obj = self.without_status(version)
        if self.status is not None:
            obj["status"] = orjson.loads(self.status)
        return obj

    def text(self) -> bytes:
        """The object as JSON: put together from its parts, where that can be done without reading them."""
        head = _UP_TO_METADATA.match(self.main)
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

    def matches(self, where: Selector) -> bool:
        return where.matches_labels(self.labels) and (not where.fields or where.matches_fields(self.object()))

    def identity(self) -> Object:
        """As much of the object as tells whether a caller means it, without reading it."""
        return {"metadata": {"name": self.key[1], "uid": self.uid, "resourceVersion": str(self.version)}}

    def with_status(self, status: Any, version: Version) -> "Row":
        """The next version, with another status."""
        text = None if status is None else _text(status)
        return _checked(
            Row(self.resource, self.key, self.number, self.uid, version, self.main, text, self.labels)
        )

    def with_object(self, obj: Object, version: Version) -> "Row":
        """The next version, as *obj* is."""
        main, status = _texts(obj)
        labels = _labels_of(obj)
        # What is equal is shared, so that the next to look sees at once that it did not change.
        if labels == self.labels:
            labels = self.labels
        if status == self.status:
            status = self.status
        return _checked(Row(self.resource, self.key, self.number, self.uid, version, main, status, labels))

    def same_as(self, other: "Row") -> bool:
        """Whether they differ by nothing but the version."""
        return self.main == other.main and self.status == other.status


def new_row(resource: str, key: Key, obj: Object, version: Version) -> Row:
    """The first version of an object. Raises TooLarge."""
    main, status = _texts(obj)
    return _checked(
        Row(resource, key, version, obj["metadata"]["uid"], version, main, status, _labels_of(obj))
    )


def stored_row(resource: str, number: int, version: Version, main: bytes, status: bytes | None) -> Row:
    """
    A row as it was written down. Raises ValueError or KeyError when it cannot have been.

    Fields of its metadata that have another type than they should are dropped: nothing could be done with the object,
    not even its deletion, as long as they are there.
    """
    obj = orjson.loads(main)
    if wrong := wrong_fields(obj["metadata"]):
        log.error(
            "stored metadata dropped, since it has a wrong type",
            extra={"resource": resource, "object": key_of(obj), "fields": wrong},
        )
        obj["metadata"] = {name: value for name, value in obj["metadata"].items() if name not in wrong}
        main = _text(obj)
    return Row(resource, key_of(obj), number, obj["metadata"]["uid"], version, main, status, _labels_of(obj))


def _texts(obj: Object) -> tuple[bytes, bytes | None]:
    """The two parts of a row: all but status and version, and the status."""
    main = dict(obj)
    status = main.pop("status", None)
    if "resourceVersion" in main["metadata"]:
        main["metadata"] = {key: value for key, value in main["metadata"].items() if key != "resourceVersion"}
    return _text(main), None if status is None else _text(status)


def _text(value: Any) -> bytes:
    # Copied, because orjson gives its text in a buffer of several times that size.
    return bytes(memoryview(encoded(value)))


def _labels_of(obj: Object) -> Mapping[str, str]:
    """The labels, in strings that all objects share."""
    labels = obj["metadata"].get("labels")
    return (
        {sys.intern(str(key)): sys.intern(str(value)) for key, value in labels.items()}
        if labels
        else _NO_LABELS
    )


def _checked(row: Row) -> Row:
    if row.size > MAX_BYTES:
        raise TooLarge(f'{row.resource} "{row.key[1]}" has {row.size} bytes, and {MAX_BYTES} is the limit')
    return row


class Entry(NamedTuple):
    """One write: what happened, the object as it then was (as it last was, if deleted), and as it was before."""

    happened: ChangeType
    row: Row
    before: Row | None = None

    @property
    def version(self) -> Version:
        return self.row.version
