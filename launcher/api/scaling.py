"""``frameworks/scale``: the number of tasks of a Framework that has one role, in the form ``kubectl scale`` knows."""

from collections.abc import Callable
from typing import Any

from aiohttp import web

from launcher.api.answers import answer
from launcher.api.bodies import body_of, media_of, object_in
from launcher.api.errors import InvalidOptions
from launcher.api.keeping import Keeper, placed
from launcher.api.negotiation import View, look_of
from launcher.api.options import Writing, writing_of
from launcher.api.patching import wish_of
from launcher.core.checking.podrules import items, part
from launcher.core.checking.problems import invalid, wrong_kind
from launcher.core.errors import BadRequest, Conflict, Problem
from launcher.core.names import role_selector
from launcher.core.replicas import scaled, tasks_of_roles
from launcher.store.port import Kind, Object, Store

SCALES = Kind("autoscaling", "v1", "scales", "Scale")
_ONE = frozenset({View.OBJECT})


class Scaler:
    """Answers reads and writes of a Framework's scale."""

    def __init__(self, keeper: Keeper, store: Store) -> None:
        self._keeper, self._store = keeper, store

    async def handle(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """``GET``, ``PUT`` and ``PATCH`` of ``…/frameworks/{name}/scale``."""
        look = look_of(request, _ONE)
        match request.method:
            case "PUT":
                stored = await self._replaced(request, namespace, name)
            case "PATCH":
                stored = await self._patched(request, namespace, name)
            case _:
                stored = await self._store.get(self._keeper.kind, namespace, name)
        return await answer(request, look, scale_of(stored))

    async def _replaced(self, request: web.Request, namespace: str, name: str) -> Object:
        writing = writing_of(request, "UpdateOptions")
        media = media_of(request)
        wanted = placed(SCALES, object_in(await body_of(request), media).value, namespace, name)
        return await self._scaled(namespace, name, lambda _: wanted, writing)

    async def _patched(self, request: web.Request, namespace: str, name: str) -> Object:
        wish = await wish_of(request, SCALES)
        return await self._scaled(namespace, name, wish.of, wish.writing)

    async def _scaled(
        self, namespace: str, name: str, change: Callable[[Object], Object], writing: Writing
    ) -> Object:
        def rescaled(stored: Object) -> Object:
            wanted = change(scale_of(stored))
            _check_version(stored, wanted)
            return scaled(stored, _replicas(wanted, name))

        saved, _ = await self._keeper.change(namespace, name, rescaled, writing)
        return saved


def scale_of(framework: Object) -> Object:
    """The scale of a Framework. Raises BadRequest when it has several roles, which no one number can scale."""
    role, metadata = _only_role(framework), framework["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    (tasks,) = tasks_of_roles(framework["spec"])
    counts = part(part(framework.get("status")).get("taskCounts"))
    return {
        "kind": SCALES.kind,
        "apiVersion": SCALES.api_version,
        "metadata": {field: metadata[field] for field in kept if field in metadata},
        "spec": {"replicas": tasks},
        "status": {
            "replicas": sum(counts.values()),
            "selector": role_selector(metadata["name"], role["name"]),
        },
    }


def _only_role(framework: Object) -> dict[str, Any]:
    roles = items(part(framework.get("spec")).get("taskRoles"))
    if len(roles) != 1:
        raise BadRequest(
            f'Framework "{framework["metadata"]["name"]}" has {len(roles)} task roles, and only one with a single '
            "role has a scale; change spec.taskRoles[].taskNumber of the role you mean instead"
        )
    return part(roles[0])


def _replicas(scale: Object, name: str) -> int:
    tasks = part(scale.get("spec")).get("replicas", 0)
    if isinstance(tasks, bool) or not isinstance(tasks, int):
        raise _invalid(wrong_kind("spec.replicas", tasks, "must be of type integer"), name)
    if tasks < 0:
        raise _invalid(invalid("spec.replicas", tasks, "must be at least 0"), name)
    return tasks


def _invalid(problem: Problem, name: str) -> InvalidOptions:
    return InvalidOptions(SCALES.kind, (problem,), group=SCALES.group, name=name)


def _check_version(framework: Object, scale: Object) -> None:
    metadata = framework["metadata"]
    for field in ("resourceVersion", "uid"):
        if part(scale.get("metadata")).get(field) not in (None, "", metadata[field]):
            raise Conflict(
                f'Operation cannot be fulfilled on frameworks.launcher.microsoft.com "{metadata["name"]}": '
                "the object has been modified since it was read; read it again, then change that"
            )
