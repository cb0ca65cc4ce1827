"""Representations of objects: whole, as rows of a table, or only the metadata."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

import orjson
from aiohttp import web

from launcher.api.http.content_negotiation import Representation, ResponseFormat
from launcher.api.resources.table_columns import Column, table_shape
from launcher.core.errors import BadRequest
from launcher.store.interface import Object, ResourceKind


class Include(StrEnum):
    """How much of its object a row of a table contains."""

    METADATA = "Metadata"
    OBJECT = "Object"
    NONE = "None"


def include_option(request: web.Request) -> Include:
    """Returns the includeObject parameter of the query. Raises BadRequest."""
    text = request.query.get("includeObject") or Include.METADATA
    if text not in set(Include):
        raise BadRequest(f"includeObject must be one of {', '.join(Include)}, not {text[:80]!r}")
    return Include(text)


class ObjectPrinter:
    """Converts objects of one kind to one representation."""

    def __init__(
        self,
        kind: ResourceKind,
        response_format: ResponseFormat,
        include: Include,
        clock: Callable[[], float],
    ) -> None:
        self._kind, self._include, self._clock = kind, include, clock
        self._representation, self._version = response_format.representation, response_format.version
        self._meta = f"meta.k8s.io/{response_format.version}"

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for printers with the same output."""
        return (self._representation, self._version, self._include)

    @property
    def plain(self) -> bool:
        """Whether objects are unchanged."""
        return self._representation is Representation.OBJECT

    def one(self, obj: Object, *, columns: bool = True) -> Object:
        """Returns one object; in a stream of rows, only the first needs *columns*."""
        match self._representation:
            case Representation.OBJECT:
                return obj
            case Representation.TABLE:
                version = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
                return self._table(version, [obj], columns=columns)
            case Representation.METADATA | Representation.METADATA_LIST:
                return self._metadata(obj)

    def many(self, metadata: Mapping[str, Any], texts: Iterable[bytes]) -> Object | bytes:
        """Returns a list, as an object or as JSON."""
        match self._representation:
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
        """Returns a bookmark, which has only metadata."""
        if self._representation is not Representation.TABLE:
            return self.one(obj)
        cells: list[None] = [None] * len(table_shape(self._kind).columns)
        row = {"cells": cells, "object": self._metadata(obj)}
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        return {**self._table(metadata, [], columns=False), "rows": [row]}

    def _table(
        self, metadata: Mapping[str, Any], objects: Iterable[Object], *, columns: bool = True
    ) -> Object:
        shape, now = table_shape(self._kind), self._clock()
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
