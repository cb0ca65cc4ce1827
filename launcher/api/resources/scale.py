"""``…/scale``: one number of an object as ``kubectl scale`` knows it; of a Framework, the tasks of its only role."""

from collections.abc import Callable
from typing import Any, Protocol

from aiohttp import web

from launcher.api.http.content_negotiation import Representation, negotiate_format
from launcher.api.http.request_body import body_of, media_of, object_in
from launcher.api.http.request_options import WriteOptions, writing_of
from launcher.api.http.responses import respond
from launcher.api.http.status import InvalidOptions
from launcher.api.resources.patch import wish_of
from launcher.api.resources.registry import Registry, with_request_path
from launcher.core.errors import BadRequest, Conflict, FieldError
from launcher.core.names import role_selector
from launcher.core.replicas import scaled, tasks_of_roles
from launcher.core.validation.field_errors import invalid, type_invalid
from launcher.core.validation.pod_template import as_list, as_object
from launcher.store.interface import Object, ResourceKind, Store

SCALES = ResourceKind("autoscaling", "v1", "scales", "Scale")
_ONE = frozenset({Representation.OBJECT})
#: What a scale has of the metadata of its object.
_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Scale(Protocol):
    """What is scaled of an object of one kind."""

    def of(self, obj: Object) -> tuple[int, int, str]:
        """How many there should be, how many there are, and the selector of their pods. Raises BadRequest."""
        ...

    def put(self, obj: Object, replicas: int) -> Object:
        """The object with that many wanted; *obj* itself is not changed."""
        ...


class FrameworkScale:
    """The number of tasks of a Framework that has one role."""

    def of(self, obj: Object) -> tuple[int, int, str]:
        role = _only_role(obj)
        (tasks,) = tasks_of_roles(obj["spec"])
        counts = as_object(as_object(obj.get("status")).get("taskCounts"))
        return tasks, sum(counts.values()), role_selector(obj["metadata"]["name"], role["name"])

    def put(self, obj: Object, replicas: int) -> Object:
        return scaled(obj, replicas)


class Scaler:
    """Answers reads and writes of the scale of objects."""

    def __init__(self, keeper: Registry, store: Store, scale: Scale) -> None:
        self._keeper, self._store, self._scale = keeper, store, scale

    async def handle(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """``GET``, ``PUT`` and ``PATCH`` of ``…/frameworks/{name}/scale``."""
        look = negotiate_format(request, _ONE)
        match request.method:
            case "PUT":
                stored = await self._replaced(request, namespace, name)
            case "PATCH":
                stored = await self._patched(request, namespace, name)
            case _:
                stored = await self._store.get(self._keeper.kind, namespace, name)
        return await respond(request, look, self._shown(stored))

    async def _replaced(self, request: web.Request, namespace: str, name: str) -> Object:
        writing = writing_of(request, "UpdateOptions")
        media = media_of(request)
        wanted = with_request_path(SCALES, object_in(await body_of(request), media).value, namespace, name)
        return await self._scaled(namespace, name, lambda _: wanted, writing)

    async def _patched(self, request: web.Request, namespace: str, name: str) -> Object:
        wish = await wish_of(request, SCALES)
        return await self._scaled(namespace, name, wish.of, wish.writing)

    async def _scaled(
        self, namespace: str, name: str, change: Callable[[Object], Object], writing: WriteOptions
    ) -> Object:
        def rescaled(stored: Object) -> Object:
            wanted = change(self._shown(stored))
            _check_version(self._keeper.kind, stored, wanted)
            return self._scale.put(stored, _replicas(wanted, name))

        saved, _ = await self._keeper.change(namespace, name, rescaled, writing)
        return saved

    def _shown(self, obj: Object) -> Object:
        """The scale of the object. Raises BadRequest when it has none."""
        wanted, there, selector = self._scale.of(obj)
        metadata = obj["metadata"]
        return {
            "kind": SCALES.kind,
            "apiVersion": SCALES.api_version,
            "metadata": {field: metadata[field] for field in _KEPT if field in metadata},
            "spec": {"replicas": wanted},
            "status": {"replicas": there, "selector": selector},
        }


def _only_role(framework: Object) -> dict[str, Any]:
    roles = as_list(as_object(framework.get("spec")).get("taskRoles"))
    if len(roles) != 1:
        raise BadRequest(
            f'Framework "{framework["metadata"]["name"]}" has {len(roles)} task roles, and only one with a single '
            "role has a scale; change spec.taskRoles[].taskNumber of the role you mean instead"
        )
    return as_object(roles[0])


def _replicas(scale: Object, name: str) -> int:
    tasks = as_object(scale.get("spec")).get("replicas", 0)
    if isinstance(tasks, bool) or not isinstance(tasks, int):
        raise _invalid(type_invalid("spec.replicas", tasks, "must be of type integer"), name)
    if tasks < 0:
        raise _invalid(invalid("spec.replicas", tasks, "must be at least 0"), name)
    return tasks


def _invalid(problem: FieldError, name: str) -> InvalidOptions:
    return InvalidOptions(SCALES.kind, (problem,), group=SCALES.group, name=name)


def _check_version(kind: ResourceKind, obj: Object, scale: Object) -> None:
    metadata = obj["metadata"]
    for field in ("resourceVersion", "uid"):
        if as_object(scale.get("metadata")).get(field) not in (None, "", metadata[field]):
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.resource} "{metadata["name"]}": '
                "the object has been modified since it was read; read it again, then change that"
            )
