"""
Conversion between the API version of a request and the version in which objects are stored.

``middleware.version_conversion`` decides for each request whether a conversion is needed. Request bodies are converted
when they are decoded (``request_body``), responses when they are encoded (``responses``, ``status``, watches); all code
in between works with stored objects.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from aiohttp import web

from launcher.api.http.request_types import JSON_PATCH
from launcher.core.errors import BadRequest
from launcher.core.validation.field_errors import quote_value
from launcher.job_kinds.job_kind import annotate_written_version
from launcher.store.interface import Object, ResourceKind

#: Kinds of request bodies that have an API version of their own at any path.
_OTHER_KINDS = frozenset({"Scale", "DeleteOptions"})


class VersionConversion(Protocol):
    """Converts between one API version and the stored one."""

    def to_stored(self, value: Any, content_type: str) -> Any:
        """Returns a decoded request body in the stored version. Raises BadRequest for a third version."""
        ...

    def to_requested(self, obj: Object) -> Object:
        """Returns an object, the head of a list, or a Status in the version of the request."""
        ...

    def with_written_version(self, obj: Object) -> Object:
        """Returns *obj*, which is about to be stored, with the version in which it was written if that matters."""
        ...


@dataclass(frozen=True, slots=True)
class JobVersionConversion:
    """Another version of a job kind: only the apiVersion differs, and an annotation records it at creation."""

    requested: ResourceKind
    stored: ResourceKind

    def to_stored(self, value: Any, content_type: str) -> Any:
        if content_type == JSON_PATCH and isinstance(value, list):
            return [self._operation_to_stored(operation) for operation in value]
        if not isinstance(value, dict) or not value.get("apiVersion"):
            return value
        if value["apiVersion"] != self.requested.api_version:
            if value.get("kind") in _OTHER_KINDS:
                return value
            raise BadRequest(
                f"apiVersion is {quote_value(value['apiVersion'])}; must be "
                f"{quote_value(self.requested.api_version)}"
            )
        return {**value, "apiVersion": self.stored.api_version}

    def _operation_to_stored(self, operation: Any) -> Any:
        match operation:
            case {"path": "/apiVersion", "value": version} if version == self.requested.api_version:
                return {**operation, "value": self.stored.api_version}
            case _:
                return operation

    def to_requested(self, obj: Object) -> Object:
        if obj.get("apiVersion") != self.stored.api_version:
            return obj
        return {**obj, "apiVersion": self.requested.api_version}

    def with_written_version(self, obj: Object) -> Object:
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations", {}), dict | None):
            return obj  # validation rejects it
        return annotate_written_version(self.requested, obj)


_CONVERSION: web.RequestKey[VersionConversion] = web.RequestKey("version_conversion")


def set_conversion(request: web.BaseRequest, conversion: VersionConversion) -> None:
    """Applies *conversion* to the body of *request* and to its response."""
    request[_CONVERSION] = conversion


def to_stored(request: web.BaseRequest, value: Any, content_type: str) -> Any:
    """Returns a decoded body of *request* in the stored version. Raises BadRequest."""
    conversion = request.get(_CONVERSION)
    return value if conversion is None else conversion.to_stored(value, content_type)


def with_written_version(request: web.BaseRequest, obj: Object) -> Object:
    """Returns *obj*, which *request* creates or replaces, with the version in which it was written."""
    conversion = request.get(_CONVERSION)
    return obj if conversion is None else conversion.with_written_version(obj)


def to_requested(request: web.BaseRequest, value: Object | bytes) -> Object | bytes:
    """Returns a response body, as an object or as JSON, in the version of *request*."""
    conversion = request.get(_CONVERSION)
    if conversion is None:
        return value
    return convert_all(orjson.loads(value) if isinstance(value, bytes) else value, conversion.to_requested)


def lines_to_requested(request: web.BaseRequest, lines: bytes) -> bytes:
    """Returns whole lines of a watch in the version of *request*."""
    conversion = request.get(_CONVERSION)
    return lines if conversion is None else convert_lines(lines, conversion.to_requested)


def convert_lines(lines: bytes, convert: Callable[[Object], Object]) -> bytes:
    """Returns watch events, one per line, with their objects converted."""
    events = [orjson.loads(line) for line in lines.splitlines()]
    converted = [{**event, "object": convert_all(event["object"], convert)} for event in events]
    return b"".join(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE) for event in converted)


def convert_all(value: Object, convert: Callable[[Object], Object]) -> Object:
    """Returns an object, or a list or table with all objects in it, converted."""
    if isinstance(items := value.get("items"), list):
        value = {**value, "items": [convert_all(item, convert) for item in items]}
    if isinstance(rows := value.get("rows"), list):
        value = {**value, "rows": [_row(row, convert) for row in rows]}
    return convert(value)


def _row(row: Object, convert: Callable[[Object], Object]) -> Object:
    obj = row.get("object")
    return {**row, "object": obj and convert_all(obj, convert)}
