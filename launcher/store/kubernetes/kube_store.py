"""Store over a Kubernetes cluster."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from functools import lru_cache
from typing import Self
from urllib.parse import quote

import orjson

from launcher.core.errors import BadRequest, Conflict, FieldError, InvalidObject, NotFound
from launcher.core.validation.names import name_error, namespace_error
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
from launcher.store.kubernetes.api_errors import ErrorResponse, to_error
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.http_client import (
    DEFAULT_TIMEOUTS,
    ApiRequest,
    ApiServerClient,
    Body,
    Timeouts,
    strip_managed_fields,
)
from launcher.store.selectors import EVERYTHING, FieldRequirement, LabelRequirement, Operator, Selector


class LineBuffer:
    """Splits chunks into lines."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []

    def take(self, chunk: bytes) -> list[bytes]:
        """Returns the lines completed by *chunk*, without newlines."""
        first, *rest = chunk.split(b"\n")
        if not rest:
            # Joined when the line is complete, so that a long one is copied only once.
            self._partial.append(first)
            return []
        self._partial.append(first)
        lines = [b"".join(self._partial), *rest[:-1]]
        self._partial = [rest[-1]]
        return lines


@lru_cache(maxsize=4096)
def collection_path(kind: ResourceKind, namespace: str | None) -> str:
    """Returns the path of a kind, in one or all namespaces."""
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if not kind.namespaced or namespace is None:
        return f"{base}/{kind.plural}"
    return f"{base}/namespaces/{quote(namespace, safe='')}/{kind.plural}"


def object_path(kind: ResourceKind, namespace: str, name: str, subresource: str | None = None) -> str:
    """Returns the path of one object. Raises NotFound if the name is invalid."""
    # Also rejects names such as "..", which would lead to another path.
    if name_error(name) or (kind.namespaced and namespace_error(namespace)):
        raise NotFound(f'{kind.resource} "{name}" not found')
    path = f"{collection_path(kind, namespace)}/{name}"
    return f"{path}/{subresource}" if subresource else path


def selector_query(selector: Selector) -> dict[str, str]:
    """Returns the query parameters of the selector."""
    query = {}
    if selector.labels:
        query["labelSelector"] = ",".join(map(_label, selector.labels))
    if selector.fields:
        query["fieldSelector"] = ",".join(map(_field, selector.fields))
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


#: Limit of concurrent calls.
CONNECTIONS = 64
#: Watches end after this time, plus up to as much again, so that not all end at once.
_WATCH_SECONDS = 300
#: The object exists until the garbage collector removes its finalizer.
_BLOCKING_PROPAGATION = (Propagation.FOREGROUND, Propagation.ORPHAN)


class KubeStore:
    """
    Objects of a cluster.

    managedFields are removed from every object: they are not used, and often half of its size.
    """

    def __init__(self, client: ApiServerClient, jitter: Callable[[], float]) -> None:
        """*jitter* returns numbers between 0 and 1."""
        self._client, self._jitter = client, jitter

    @classmethod
    async def open(
        cls,
        config: ClusterConfig,
        *,
        connections: int = CONNECTIONS,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        jitter: Callable[[], float] = random.random,
    ) -> Self:
        """Creates a store, without sending a request."""
        return cls(ApiServerClient(config, connections, timeouts), jitter)

    @property
    def throttled_seconds(self) -> float:
        """Seconds until the API server accepts calls again; 0 if it does."""
        return self._client.throttled_seconds

    async def close(self) -> None:
        """Closes all connections; watches end."""
        await self._client.close()

    async def discover(self, path: str) -> Object:
        """Returns a discovery document: the groups at ``/apis``, or the kinds of one group."""
        return await self._client.call(ApiRequest.get(path, {}))

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._send("POST", _collection_path(kind, obj), kind, obj, dry_run=dry_run)

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        return _without_managed_fields(
            await self._client.call(ApiRequest.get(object_path(kind, namespace, name), {}))
        )

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        continue_token: str | None = None,
    ) -> Page:
        query = selector_query(selector)
        if limit is not None and limit > 0:
            query["limit"] = str(limit)
        if continue_token is not None:
            if not continue_token:
                raise BadRequest("the continue token is empty; omit it to start a list")
            query["continue"] = continue_token
        response = await self._client.call(ApiRequest.get(collection_path(kind, namespace), query))
        metadata, items = response["metadata"], response.get("items") or []
        for obj in items:
            # Items of built-in lists have neither apiVersion nor kind.
            obj.setdefault("apiVersion", kind.api_version)
            obj.setdefault("kind", kind.kind)
            _without_managed_fields(obj)
        # The API server sorts by path, where "a-b/" precedes "a/".
        items.sort(key=key_of)
        next_token = metadata.get("continue") or None
        remaining = metadata.get("remainingItemCount") if next_token else 0
        return Page(items, int(metadata["resourceVersion"]), next_token, remaining)

    async def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncGenerator[Change, None]:
        query = selector_query(selector) | {
            "watch": "true",
            "resourceVersion": str(since),
            # Always requested, to detect dead connections.
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(_WATCH_SECONDS * (1 + self._jitter()))),
        }
        call = ApiRequest.get(collection_path(kind, namespace), query)
        async with aclosing(self._client.stream(call)) as chunks:
            lines = LineBuffer()
            async for chunk in chunks:
                for line in lines.take(chunk):
                    change = _change(line)
                    if bookmarks or change.type is not ChangeType.BOOKMARK:
                        yield change

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._send("PUT", _object_path(kind, obj), kind, obj, dry_run=dry_run)

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        path = _object_path(kind, obj, "status")
        if kind == FRAMEWORKS:
            # The rest is often larger and ignored. For built-in kinds, labels would be lost.
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
        path = object_path(kind, namespace, name, subresource)
        if isinstance(patch, JsonPatch):
            body: Body = [*patch.operations]
            if any(operation.get("path") == "" for operation in patch.operations):
                # Releases differ: some apply it, some reject it, some accept it without effect.
                raise BadRequest(
                    "a cluster does not support a JSON patch of the whole object: patch its members"
                )
            content_type = "application/json-patch+json"
        else:
            body, content_type = patch.changes, "application/merge-patch+json"
        return _without_managed_fields(await self._write("PATCH", path, body, content_type, dry_run=dry_run))

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        options: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        # Only some kinds, such as pods, return the last state when they are removed at once, so it is read first.
        last_state = (
            None
            if kind == PODS or options.propagation in _BLOCKING_PROPAGATION
            else await self.get(kind, namespace, name)
        )
        uid = options.uid or (last_state["metadata"]["uid"] if last_state else None)
        path = object_path(kind, namespace, name)
        try:
            response = await self._write("DELETE", path, _delete_body(options, uid, dry_run), dry_run=dry_run)
        except Conflict:
            if (
                options.uid
                or options.version
                or uid is None
                or not await self._was_replaced(kind, namespace, name, uid)
            ):
                raise
            return await self.delete(kind, namespace, name, options, dry_run=dry_run)
        if last_state is not None and response["kind"] == "Status":
            return last_state
        if "resourceVersion" not in response["metadata"] and not dry_run:
            # Another client removed it during the request. The response then has no version.
            raise NotFound(f'{kind.plural} "{name}" not found')
        return _without_managed_fields(response)

    def open_log(
        self, namespace: str, pod: str, container: str, *, previous: bool, follow: bool, tail_lines: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """
        Opens the last lines of a container's log, with timestamps; with *follow* until the container ends.

        Raises NotFound, BadRequest, Forbidden, and Unavailable, also while the log is read.
        """
        query = {"container": container, "timestamps": "true", "tailLines": str(tail_lines)}
        query |= {name: "true" for name, value in (("previous", previous), ("follow", follow)) if value}
        return self._client.download(ApiRequest.get(object_path(PODS, namespace, pod, "log"), query))

    async def _was_replaced(self, kind: ResourceKind, namespace: str, name: str, uid: str) -> bool:
        """Whether the object with that *uid* was replaced by another of the same name."""
        current = await self.get(kind, namespace, name)
        return bool(current["metadata"]["uid"] != uid)

    async def _send(
        self, method: str, path: str, kind: ResourceKind, obj: Object, *, dry_run: bool
    ) -> Object:
        """Writes the whole object."""
        try:
            return _without_managed_fields(await self._write(method, path, obj, dry_run=dry_run))
        except BadRequest:
            # Only after a failure, where time does not matter: these messages name the field, which the server's
            # often do not.
            strategy.normalize(kind, obj)
            raise

    async def _write(
        self,
        method: str,
        path: str,
        body: Body,
        content_type: str = "application/json",
        *,
        dry_run: bool,
    ) -> Object:
        query = {"dryRun": "All"} if dry_run else {}
        return await self._client.call(
            ApiRequest(method, path, query, body, content_type, mutates=not dry_run)
        )


def _metadata(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    return metadata


def _collection_path(kind: ResourceKind, obj: Object) -> str:
    """Returns the path for the creation of *obj*. Raises errors that the API server does not report, or differently."""
    metadata = _metadata(obj)
    if metadata.get("resourceVersion"):
        raise BadRequest("metadata.resourceVersion must not be set on an object to be created")
    namespace = metadata.get("namespace")
    if not kind.namespaced:
        if namespace:
            raise BadRequest(f"metadata.namespace must not be set: a {kind.kind} has none")
        return collection_path(kind, None)
    if not namespace:
        strategy.normalize(kind, obj)  # raises this or an earlier error
    if error := namespace_error(namespace):
        raise InvalidObject((FieldError("metadata.namespace", f'Invalid value: "{namespace}": {error}'),))
    return collection_path(kind, namespace)


def _object_path(kind: ResourceKind, obj: Object, subresource: Subresource | None = None) -> str:
    """Returns the path of *obj*. Raises BadRequest, or InvalidObject if it was not read from the store."""
    metadata = _metadata(obj)
    if not metadata.get("name"):
        raise BadRequest("metadata.name is missing")
    version = metadata.get("resourceVersion") or "0"
    if version == "0":
        # For built-in kinds the API server would overwrite any version.
        message = (
            "Invalid value: 0: must be specified for an update: read the object and send it with your changes"
        )
        raise InvalidObject((FieldError("metadata.resourceVersion", message),))
    if not version.isascii() or not version.isdigit():
        raise BadRequest(f"metadata.resourceVersion must be a number, not {version!r}")
    return object_path(kind, metadata.get("namespace", ""), metadata["name"], subresource)


def _delete_body(options: DeleteOptions, uid: str | None, dry_run: bool) -> Object:
    preconditions = {}
    if uid is not None:
        preconditions["uid"] = uid
    if options.version is not None:
        preconditions["resourceVersion"] = str(options.version)
    body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if dry_run:
        # With a body, the query of a DELETE is ignored.
        body["dryRun"] = ["All"]
    if preconditions:
        body["preconditions"] = preconditions
    if options.grace is not None:
        body["gracePeriodSeconds"] = options.grace
    if options.propagation is not None:
        body["propagationPolicy"] = options.propagation.value
    return body


def _without_managed_fields(obj: Object) -> Object:
    """Removes managedFields in place."""
    obj["metadata"].pop("managedFields", None)
    return obj


def _change(line: bytes) -> Change:
    """Parses a line of a watch. Raises the error that ends the watch."""
    event = orjson.loads(strip_managed_fields(line))
    obj: Object = event["object"]
    if event["type"] == "ERROR":
        raise to_error(ErrorResponse(int(obj.get("code") or 500), obj), mutates=False)
    return Change(ChangeType(event["type"]), _without_managed_fields(obj), version_of(obj))
