"""
Frameworks in FrameworkController's API group, which is an alias of the launcher's own.

Requests to ``/apis/frameworkcontroller.microsoft.com/v1`` use that apiVersion in bodies and responses. The objects,
their resourceVersions and their watches are those of ``/apis/launcher.microsoft.com/v1``.
"""

from typing import Any

from launcher.api.http.request_types import JSON_PATCH, MERGE
from launcher.core.names import API_VERSION
from launcher.core.serialization.frameworkcontroller import GROUP, SECOND_API_VERSION, to_launcher_group
from launcher.core.serialization.status_json import listed_in_full
from launcher.core.spec import FrameworkName
from launcher.store.interface import FRAMEWORKS, Object


class AliasConversion:
    """The conversion between FrameworkController's API group and the launcher's; see ``VersionConversion``."""

    def to_stored(self, value: Any, content_type: str) -> Any:
        match value:
            case list() if content_type == JSON_PATCH:
                return [_operation_to_stored(operation) for operation in value]
            case {"apiVersion": version} if version == SECOND_API_VERSION and content_type == MERGE:
                return {**value, "apiVersion": API_VERSION}
            case {"apiVersion": version} if version == SECOND_API_VERSION:
                return to_launcher_group(value)
            case _:
                return value

    def to_requested(self, obj: Object) -> Object:
        if obj.get("kind") == "Status":
            return _status(obj)
        if obj.get("apiVersion") != API_VERSION:
            return obj
        return {**_with_full_status(obj), "apiVersion": SECOND_API_VERSION}

    def with_written_version(self, obj: Object) -> Object:
        return obj


def _operation_to_stored(operation: Any) -> Any:
    match operation:
        case {"path": "/apiVersion", "value": version} if version == SECOND_API_VERSION:
            return {**operation, "value": API_VERSION}
        case _:
            return operation


def _with_full_status(obj: Object) -> Object:
    """Returns the Framework with one status entry per task: scripts of FrameworkController's users expect them."""
    match obj:
        case {"status": dict() as status, "metadata": {"name": str() as name, "uid": str() as uid}}:
            try:
                return {**obj, "status": listed_in_full(status, FrameworkName(name), uid)}
            except (ValueError, TypeError, AttributeError):
                return obj  # another client has written the status
        case _:
            return obj


def _status(status: Object) -> Object:
    result = dict(status)
    if isinstance(message := status.get("message"), str):
        result["message"] = message.replace(FRAMEWORKS.group, GROUP)
    details = status.get("details")
    if isinstance(details, dict) and details.get("group") == FRAMEWORKS.group:
        result["details"] = {**details, "group": GROUP}
    return result
