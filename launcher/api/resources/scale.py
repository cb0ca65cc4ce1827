"""The scale subresource: the number of tasks of a Framework's only role, or of workers of a job."""

from collections.abc import Callable
from typing import Any, Protocol

from aiohttp import web

from launcher.api.http.content_negotiation import Representation, negotiate_format
from launcher.api.http.request_body import decode_request_object, request_media
from launcher.api.http.request_options import WriteOptions, write_options
from launcher.api.http.responses import respond
from launcher.api.http.status import InvalidOptions
from launcher.api.resources.patch import parse_patch
from launcher.api.resources.registry import Registry, with_request_path
from launcher.core.errors import BadRequest, Conflict, FieldError
from launcher.core.json_access import as_list, as_object
from launcher.core.names import role_selector
from launcher.core.replicas import tasks_of_roles, with_task_count
from launcher.core.validation.field_errors import invalid, type_invalid
from launcher.store.interface import Object, ResourceKind, Store

SCALES = ResourceKind("autoscaling", "v1", "scales", "Scale")
_OBJECT_ONLY = frozenset({Representation.OBJECT})
#: The metadata that a scale shares with its object.
_METADATA_FIELDS = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Scale(Protocol):
    """Reads and sets the replicas of objects of one kind."""

    def read(self, obj: Object) -> tuple[int, int, str]:
        """Returns the desired and the current replicas, and the selector of their pods. Raises BadRequest."""
        ...

    def with_replicas(self, obj: Object, replicas: int) -> Object:
        """Returns the object with so many desired replicas; *obj* itself is not changed."""
        ...


class FrameworkScale:
    """The number of tasks of a Framework that has one role."""

    def read(self, obj: Object) -> tuple[int, int, str]:
        role = _only_role(obj)
        (tasks,) = tasks_of_roles(obj["spec"])
        counts = as_object(as_object(obj.get("status")).get("taskCounts"))
        return tasks, sum(counts.values()), role_selector(obj["metadata"]["name"], role["name"])

    def with_replicas(self, obj: Object, replicas: int) -> Object:
        return with_task_count(obj, replicas)


class ScaleHandler:
    """Handles the scale subresource of one kind."""

    def __init__(self, registry: Registry, store: Store, scale: Scale) -> None:
        self._registry, self._store, self._scale = registry, store, scale

    async def handle(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """``GET``, ``PUT`` and ``PATCH`` of ``…/frameworks/{name}/scale``."""
        response_format = negotiate_format(request, _OBJECT_ONLY)
        match request.method:
            case "PUT":
                stored = await self._update(request, namespace, name)
            case "PATCH":
                stored = await self._patch(request, namespace, name)
            case _:
                stored = await self._store.get(self._registry.kind, namespace, name)
        return await respond(request, response_format, self._scale_object(stored))

    async def _update(self, request: web.Request, namespace: str, name: str) -> Object:
        options = write_options(request, "UpdateOptions")
        body = await decode_request_object(request, request_media(request))
        scale = with_request_path(SCALES, body.value, namespace, name)
        return await self._set_replicas(namespace, name, lambda _: scale, options)

    async def _patch(self, request: web.Request, namespace: str, name: str) -> Object:
        patch = await parse_patch(request, SCALES)
        return await self._set_replicas(namespace, name, patch.apply_to, patch.options)

    async def _set_replicas(
        self, namespace: str, name: str, change: Callable[[Object], Object], options: WriteOptions
    ) -> Object:
        def change_replicas(stored: Object) -> Object:
            scale = change(self._scale_object(stored))
            _check_version(self._registry.kind, stored, scale)
            return self._scale.with_replicas(stored, _replicas(scale, name))

        saved, _ = await self._registry.change(namespace, name, change_replicas, options)
        return saved

    def _scale_object(self, obj: Object) -> Object:
        """Returns the scale of the object. Raises BadRequest if it has none."""
        desired, current, selector = self._scale.read(obj)
        metadata = obj["metadata"]
        return {
            "kind": SCALES.kind,
            "apiVersion": SCALES.api_version,
            "metadata": {field: metadata[field] for field in _METADATA_FIELDS if field in metadata},
            "spec": {"replicas": desired},
            "status": {"replicas": current, "selector": selector},
        }


def _only_role(framework: Object) -> dict[str, Any]:
    roles = as_list(as_object(framework.get("spec")).get("taskRoles"))
    if len(roles) != 1:
        raise BadRequest(
            f'Framework "{framework["metadata"]["name"]}" has {len(roles)} task roles: only a Framework with a single '
            "task role can be scaled; change spec.taskRoles[].taskNumber instead"
        )
    return as_object(roles[0])


def _replicas(scale: Object, name: str) -> int:
    tasks = as_object(scale.get("spec")).get("replicas", 0)
    if isinstance(tasks, bool) or not isinstance(tasks, int):
        raise _invalid(type_invalid("spec.replicas", tasks, "must be of type integer"), name)
    if tasks < 0:
        raise _invalid(invalid("spec.replicas", tasks, "must be at least 0"), name)
    return tasks


def _invalid(error: FieldError, name: str) -> InvalidOptions:
    return InvalidOptions(SCALES.kind, (error,), group=SCALES.group, name=name)


def _check_version(kind: ResourceKind, obj: Object, scale: Object) -> None:
    metadata = obj["metadata"]
    for field in ("resourceVersion", "uid"):
        if as_object(scale.get("metadata")).get(field) not in (None, "", metadata[field]):
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.resource} "{metadata["name"]}": '
                "the object has been modified; please apply your changes to the latest version and try again"
            )
