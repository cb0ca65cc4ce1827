"""Objects as they are, as rows of a table, or as their metadata alone."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

import orjson
from aiohttp import web

from launcher.api.http.content_negotiation import Representation, ResponseFormat
from launcher.api.resources.table_columns import Column, shape_of
from launcher.core.errors import BadRequest
from launcher.store.interface import Object, ResourceKind


class Include(StrEnum):
    """How much of its object goes along with a row of a table."""

    METADATA = "Metadata"
    OBJECT = "Object"
    NONE = "None"


def include_of(request: web.Request) -> Include:
    """What the query asks for. Raises BadRequest."""
    text = request.query.get("includeObject") or Include.METADATA
    if text not in set(Include):
        raise BadRequest(f"includeObject must be one of {', '.join(Include)}, not {text[:80]!r}")
    return Include(text)


class ObjectPrinter:
    """Shows objects of one kind in one way, with the time at which they are shown."""

    def __init__(
        self, kind: ResourceKind, look: ResponseFormat, include: Include, clock: Callable[[], float]
    ) -> None:
        self._kind, self._look, self._include, self._clock = kind, look, include, clock
        self._meta = f"meta.k8s.io/{look.version}"

    @property
    def key(self) -> tuple[str, ...]:
        """The same for viewers that show the same."""
        return (self._look.view, self._look.version, self._include)

    @property
    def plain(self) -> bool:
        """Whether objects are shown just as they are."""
        return self._look.view is Representation.OBJECT

    def one(self, obj: Object, *, columns: bool = True) -> Object:
        """One object; a later row of a stream has its columns already."""
        match self._look.view:
            case Representation.OBJECT:
                return obj
            case Representation.TABLE:
                version = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
                return self._table(version, [obj], columns=columns)
            case Representation.METADATA | Representation.METADATA_LIST:
                return self._metadata(obj)

    def many(self, metadata: Mapping[str, Any], texts: Iterable[bytes]) -> Object | bytes:
        """A list, as an object or as its text."""
        match self._look.view:
            case Representation.OBJECT:
                head = {"apiVersion": self._kind.api_version, "kind": f"{self._kind.kind}List"}
                opening = orjson.dumps({**head, "metadata": metadata})[:-1]
                return b'%b,"items":[%b]}' % (opening, b",".join(texts))
            case Representation.TABLE:
                return self._table(metadata, [orjson.loads(text) for text in texts])
            case Representation.METADATA | Representation.METADATA_LIST:
                items = [self._metadata(orjson.loads(text)) for text in texts]
                kind = Representation.METADATA_LIST.value
                return {"kind": kind, "apiVersion": self._meta, "metadata": metadata, "items": items}

    def bookmark(self, obj: Object) -> Object:
        """A bookmark, which has nothing but its metadata to show."""
        if self._look.view is not Representation.TABLE:
            return self.one(obj)
        cells: list[None] = [None] * len(shape_of(self._kind).columns)
        row = {"cells": cells, "object": self._metadata(obj)}
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        return {**self._table(metadata, [], columns=False), "rows": [row]}

    def _table(
        self, metadata: Mapping[str, Any], objects: Iterable[Object], *, columns: bool = True
    ) -> Object:
        shape, now = shape_of(self._kind), self._clock()
        return {
            "kind": Representation.TABLE.value,
            "apiVersion": self._meta,
            "metadata": metadata,
            "columnDefinitions": [_column(column) for column in shape.columns] if columns else None,
            "rows": [{"cells": shape.cells(obj, now), "object": self._included(obj)} for obj in objects],
        }

    def _included(self, obj: Object) -> Object | None:
        match self._include:
            case Include.NONE:
                return None
            case Include.OBJECT:
                return obj
            case Include.METADATA:
                return self._metadata(obj)

    def _metadata(self, obj: Object) -> Object:
        return {"kind": Representation.METADATA.value, "apiVersion": self._meta, "metadata": obj["metadata"]}


def _column(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": 1 if column.wide else 0,
    }
