"""The port over a real cluster: every promise kept by its API server, or made good here."""

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import lru_cache
from typing import Self
from urllib.parse import quote

import orjson

from launcher.core.errors import BadRequest, Conflict, FieldError, InvalidObject, NotFound
from launcher.core.validation.names import name_fault, namespace_fault
from launcher.store import strategy
from launcher.store.interface import (
    FRAMEWORKS,
    PODS,
    Change,
    ChangeType,
    DeleteOptions,
    JsonPatch,
    Object,
    Page,
    Patch,
    Propagation,
    ResourceKind,
    Subresource,
    Version,
    key_of,
    version_of,
)
from launcher.store.kubernetes import kube_store
from launcher.store.kubernetes.api_errors import ErrorResponse, to_error
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.http_client import (
    PATIENCE,
    ApiRequest,
    ApiServerClient,
    Body,
    Timeouts,
    strip_managed_fields,
)
from launcher.store.selectors import EVERYTHING, FieldRequirement, LabelRequirement, Operator, Selector


class LineBuffer:
    """Takes pieces, gives the lines that they complete."""

    def __init__(self) -> None:
        self._open: list[bytes] = []

    def take(self, piece: bytes) -> list[bytes]:
        """Every line that ends in *piece*, without its newline."""
        first, *rest = piece.split(b"\n")
        if not rest:
            # Joined only when the line is complete, so that a long one is copied once and not with every piece.
            self._open.append(first)
            return []
        self._open.append(first)
        lines = [b"".join(self._open), *rest[:-1]]
        self._open = [rest[-1]]
        return lines


@lru_cache(maxsize=4096)
def collection(kind: ResourceKind, namespace: str | None) -> str:
    """The path of all objects of a kind, or of those in one namespace."""
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if not kind.namespaced or namespace is None:
        return f"{base}/{kind.plural}"
    return f"{base}/namespaces/{quote(namespace, safe='')}/{kind.plural}"


def item(kind: ResourceKind, namespace: str, name: str, subresource: str | None = None) -> str:
    """The path of one object. Raises NotFound when there can be none of that name."""
    # Also keeps out names that would lead elsewhere, such as "..".
    if name_fault(name) or (kind.namespaced and namespace_fault(namespace)):
        raise NotFound(f'{kind.resource} "{name}" not found')
    path = f"{collection(kind, namespace)}/{name}"
    return f"{path}/{subresource}" if subresource else path


def selectors(where: Selector) -> dict[str, str]:
    """The query that selects what *where* says."""
    query = {}
    if where.labels:
        query["labelSelector"] = ",".join(map(_label, where.labels))
    if where.fields:
        query["fieldSelector"] = ",".join(map(_field, where.fields))
    return query


def _label(requirement: LabelRequirement) -> str:
    key, values = requirement.key, ",".join(sorted(requirement.values))
    match requirement.operator:
        case Operator.EXISTS:
            return key
        case Operator.ABSENT:
            return f"!{key}"
        case Operator.GREATER | Operator.LESS:
            return f"{key}{requirement.operator}{values}"
        case Operator.IN | Operator.NOT_IN:
            return f"{key} {requirement.operator} ({values})"


def _field(requirement: FieldRequirement) -> str:
    value = requirement.value.replace("\\", r"\\").replace(",", r"\,").replace("=", r"\=")
    return f"{requirement.path}{'=' if requirement.equal else '!='}{value}"


#: How many calls are under way at one time; more wait.
CONNECTIONS = 64
#: The API server is asked to end a watch after so many seconds and up to twice as many, so that not all end at once.
_WATCH_SECONDS = 300
#: Ways of deletion after which the object is there until the garbage collector lets go of it.
_HELD = (Propagation.FOREGROUND, Propagation.ORPHAN)


class KubeStore:
    """
    Objects of a cluster.

    Field managers are left out of every object: nobody here reads them, and they are often half of it.
    """

    def __init__(self, wire: ApiServerClient, chance: Callable[[], float]) -> None:
        """*chance* gives numbers from 0 to 1."""
        self._wire, self._chance = wire, chance

    @classmethod
    async def open(
        cls,
        access: ClusterConfig,
        *,
        connections: int = CONNECTIONS,
        patience: Timeouts = PATIENCE,
        chance: Callable[[], float] = random.random,
    ) -> Self:
        """A store that is ready; nothing has been asked yet."""
        return cls(ApiServerClient(access, connections, patience), chance)

    async def close(self) -> None:
        """Let go of every connection; watches end."""
        await self._wire.close()

    async def discover(self, path: str) -> Object:
        """What the API server says that it serves: its groups at ``/apis``, the kinds of one below that."""
        return await self._wire.call(ApiRequest.reading(path, {}))

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._send("POST", _place(kind, obj), kind, obj, dry_run=dry_run)

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        return _own(await self._wire.call(ApiRequest.reading(kube_store.item(kind, namespace, name), {})))

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        token: str | None = None,
    ) -> Page:
        query = kube_store.selectors(where)
        if limit is not None and limit > 0:
            query["limit"] = str(limit)
        if token is not None:
            if not token:
                raise BadRequest("an empty token goes on with no list; leave it out to begin one")
            query["continue"] = token
        answer = await self._wire.call(ApiRequest.reading(kube_store.collection(kind, namespace), query))
        metadata, items = answer["metadata"], answer.get("items") or []
        for obj in items:
            # Lists of what is built in leave out what each of their items is.
            obj.setdefault("apiVersion", kind.api_version)
            obj.setdefault("kind", kind.kind)
            _own(obj)
        # The API server sorts by path, where "a-b/" comes before "a/".
        items.sort(key=key_of)
        further = metadata.get("continue") or None
        remaining = metadata.get("remainingItemCount") if further else 0
        return Page(items, int(metadata["resourceVersion"]), further, remaining)

    async def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncGenerator[Change, None]:
        query = kube_store.selectors(where) | {
            "watch": "true",
            "resourceVersion": str(since),
            # Always asked for, as signs of life.
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(_WATCH_SECONDS * (1 + self._chance()))),
        }
        call = ApiRequest.reading(kube_store.collection(kind, namespace), query)
        async with aclosing(self._wire.stream(call)) as pieces:
            lines = LineBuffer()
            async for piece in pieces:
                for line in lines.take(piece):
                    change = _change(line)
                    if bookmarks or change.happened is not ChangeType.BOOKMARK:
                        yield change

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._send("PUT", _address(kind, obj), kind, obj, dry_run=dry_run)

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        path = _address(kind, obj, "status")
        if kind == FRAMEWORKS:
            # The rest is often larger, and not looked at. Of what is built in, labels would be lost.
            obj = {key: obj[key] for key in ("apiVersion", "kind", "metadata", "status") if key in obj}
        return await self._send("PUT", path, kind, obj, dry_run=dry_run)

    async def patch(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        patch: Patch,
        *,
        subresource: Subresource | None = None,
        dry_run: bool = False,
    ) -> Object:
        path = kube_store.item(kind, namespace, name, subresource)
        if isinstance(patch, JsonPatch):
            body: Body = [*patch.operations]
            if any(operation.get("path") == "" for operation in patch.operations):
                # Some releases do as they are told, some say no, and some say yes and do nothing.
                raise BadRequest("a cluster cannot patch an object as a whole: patch its members")
            media = "application/json-patch+json"
        else:
            body, media = patch.changes, "application/merge-patch+json"
        return _own(await self._write("PATCH", path, body, media, dry_run=dry_run))

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        how: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        # Of what is gone at once, only pods and the like are shown a last time, so it is read before.
        last = None if kind == PODS or how.propagation in _HELD else await self.get(kind, namespace, name)
        uid = how.uid or (last["metadata"]["uid"] if last else None)
        path = kube_store.item(kind, namespace, name)
        try:
            answer = await self._write("DELETE", path, _options(how, uid, dry_run), dry_run=dry_run)
        except Conflict:
            if how.uid or how.version or uid is None or not await self._replaced(kind, namespace, name, uid):
                raise
            return await self.delete(kind, namespace, name, how, dry_run=dry_run)
        if last is not None and answer["kind"] == "Status":
            return last
        if "resourceVersion" not in answer["metadata"] and not dry_run:
            # Somebody ended it between the server's mark and its own try to. What it shows then is no version of it.
            raise NotFound(f'{kind.plural} "{name}" not found')
        return _own(answer)

    async def _replaced(self, kind: ResourceKind, namespace: str, name: str, uid: str) -> bool:
        """Whether the object of that *uid* has made room for another of its name."""
        now = await self.get(kind, namespace, name)
        return bool(now["metadata"]["uid"] != uid)

    async def _send(
        self, method: str, path: str, kind: ResourceKind, obj: Object, *, dry_run: bool
    ) -> Object:
        """The whole object, written."""
        try:
            return _own(await self._write(method, path, obj, dry_run=dry_run))
        except BadRequest:
            # Only here, where it costs nothing that matters: these name the field, and the server often does not.
            strategy.normalized(kind, obj)
            raise

    async def _write(
        self,
        method: str,
        path: str,
        body: Body,
        media: str = "application/json",
        *,
        dry_run: bool,
    ) -> Object:
        query = {"dryRun": "All"} if dry_run else {}
        return await self._wire.call(ApiRequest(method, path, query, body, media, mutates=not dry_run))


def _metadata(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    return metadata


def _place(kind: ResourceKind, obj: Object) -> str:
    """Where *obj* is to be created. Raises what the API server does not say, or says otherwise than the port."""
    metadata = _metadata(obj)
    if metadata.get("resourceVersion"):
        raise BadRequest("metadata.resourceVersion must not be set on an object to be created")
    namespace = metadata.get("namespace")
    if not kind.namespaced:
        if namespace:
            raise BadRequest(f"metadata.namespace must not be set: a {kind.kind} has none")
        return kube_store.collection(kind, None)
    if not namespace:
        strategy.normalized(kind, obj)  # raises that, or whatever else is wrong before it
    if fault := namespace_fault(namespace):
        raise InvalidObject((FieldError("metadata.namespace", f'Invalid value: "{namespace}": {fault}'),))
    return kube_store.collection(kind, namespace)


def _address(kind: ResourceKind, obj: Object, subresource: Subresource | None = None) -> str:
    """Where *obj* is. Raises BadRequest, InvalidObject when the caller cannot have read it there."""
    metadata = _metadata(obj)
    if not metadata.get("name"):
        raise BadRequest("metadata.name is missing")
    version = metadata.get("resourceVersion") or "0"
    if version == "0":
        # Of what is built in, the API server would replace whatever there is.
        message = (
            "Invalid value: 0: must be specified for an update: read the object, change that, send it whole"
        )
        raise InvalidObject((FieldError("metadata.resourceVersion", message),))
    if not version.isascii() or not version.isdigit():
        raise BadRequest(f"metadata.resourceVersion must be a number, not {version!r}")
    return kube_store.item(kind, metadata.get("namespace", ""), metadata["name"], subresource)


def _options(how: DeleteOptions, uid: str | None, dry_run: bool) -> Object:
    preconditions = {}
    if uid is not None:
        preconditions["uid"] = uid
    if how.version is not None:
        preconditions["resourceVersion"] = str(how.version)
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if dry_run:
        # Beside a body, the query of a DELETE counts for nothing.
        options["dryRun"] = ["All"]
    if preconditions:
        options["preconditions"] = preconditions
    if how.grace is not None:
        options["gracePeriodSeconds"] = how.grace
    if how.propagation is not None:
        options["propagationPolicy"] = how.propagation.value
    return options


def _own(obj: Object) -> Object:
    """The object without what nobody here reads."""
    obj["metadata"].pop("managedFields", None)
    return obj


def _change(line: bytes) -> Change:
    """What a line of a watch tells. Raises what the API server says when it ends the watch with an error."""
    event = orjson.loads(strip_managed_fields(line))
    obj: Object = event["object"]
    if event["type"] == "ERROR":
        raise to_error(ErrorResponse(int(obj.get("code") or 500), obj), changes=False)
    return Change(ChangeType(event["type"]), _own(obj), version_of(obj))
