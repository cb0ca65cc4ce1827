"""DELETE of one object, or of all that match."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import orjson
from aiohttp import web

from launcher.api.http.content_negotiation import (
    LIST_REPRESENTATIONS,
    OBJECT_REPRESENTATIONS,
    negotiate_format,
)
from launcher.api.http.request_body import convert_decoded, decode_object, read_body, request_media
from launcher.api.http.request_options import delete_options, list_options
from launcher.api.http.responses import respond
from launcher.api.resources.job_owned import deletion_warnings
from launcher.api.resources.object_views import ObjectPrinter, include_option
from launcher.api.resources.writes import respond_with_object
from launcher.core.errors import BadRequest, Conflict, NotFound
from launcher.core.pods.observed_pod import is_deleted
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.interface import (
    FRAMEWORKS,
    NAMESPACES,
    PODS,
    DeleteOptions,
    Object,
    Propagation,
    ResourceKind,
)

#: Concurrent deletions, which share the store's commits.
_BATCH = 100
#: Kinds whose response is the object even if it is removed at once.
_RESPOND_WITH_OBJECT = (PODS, NAMESPACES)


class DeleteHandler:
    """Deletes objects of one kind."""

    def __init__(self, kind: ResourceKind, store: EmbeddedStore, clock: Callable[[], float]) -> None:
        self._kind, self._store, self._clock = kind, store, clock

    async def delete(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """Returns the object if it is still being deleted, or a Status."""
        response_format = negotiate_format(request, OBJECT_REPRESENTATIONS)
        options, dry_run = delete_options(request, await self._options(request))
        last = await self._delete(namespace, name, options, dry_run=dry_run)
        warnings = self._warnings(last)
        if self._kind in _RESPOND_WITH_OBJECT or await self._exists(last, dry_run=dry_run):
            return await respond_with_object(
                request, self._kind, response_format, last, self._clock, warnings
            )
        return await respond(request, response_format, _success(self._kind, last), warnings=warnings)

    def _warnings(self, *deleted: Object) -> list[str]:
        if self._kind != FRAMEWORKS:
            return []
        return [text for obj in deleted for text in deletion_warnings(obj)]

    async def _delete(self, namespace: str, name: str, options: DeleteOptions, *, dry_run: bool) -> Object:
        stored = await self._store.get(self._kind, namespace, name)
        options = self._with_propagation(stored, options)
        return await self._store.delete(self._kind, namespace, name, options, dry_run=dry_run)

    async def delete_all(self, request: web.Request, namespace: str) -> web.StreamResponse:
        """Deletes all matching objects and returns them as they were; objects being deleted are skipped."""
        response_format = negotiate_format(request, LIST_REPRESENTATIONS)
        printer = ObjectPrinter(self._kind, response_format, include_option(request), self._clock)
        listing = list_options(request, self._kind, watch=False)
        options, dry_run = delete_options(request, await self._options(request))
        page = await self._store.list(self._kind, namespace, listing.selector, limit=listing.limit)
        candidates = [obj for obj in page.items if not is_deleted(obj)]
        deleted: list[Object] = []
        for first in range(0, len(candidates), _BATCH):
            batch = candidates[first : first + _BATCH]
            results = await asyncio.gather(
                *(self._delete_if_exists(obj, options, dry_run=dry_run) for obj in batch)
            )
            deleted += [obj for obj, is_deleted in zip(batch, results, strict=True) if is_deleted]
        metadata = {"resourceVersion": str(self._store.version)}
        body = printer.many(metadata, map(orjson.dumps, deleted))
        return await respond(request, response_format, body, warnings=self._warnings(*deleted))

    async def _delete_if_exists(self, obj: Object, options: DeleteOptions, *, dry_run: bool) -> bool:
        metadata = obj["metadata"]
        options = replace(self._with_propagation(obj, options), uid=metadata["uid"])
        try:
            await self._store.delete(
                self._kind, metadata.get("namespace", ""), metadata["name"], options, dry_run=dry_run
            )
        except (NotFound, Conflict):
            return False
        return True

    def _with_propagation(self, stored: Object, options: DeleteOptions) -> DeleteOptions:
        """
        Returns the options with the default propagation: foreground for Frameworks.

        A Framework's name is thus free only when all of its pods are deleted. A job is deleted in the background, as on
        a cluster: its clients recreate it at once, and the new job waits for the pods of the old one.
        """
        is_unset = options.propagation is None and not is_deleted(stored)
        if is_unset and self._kind == FRAMEWORKS:
            return replace(options, propagation=Propagation.FOREGROUND)
        return options

    async def _exists(self, last: Object, *, dry_run: bool) -> bool:
        """Whether the object is still stored."""
        metadata = last["metadata"]
        if dry_run or not is_deleted(last):
            return is_deleted(last)
        try:
            current = await self._store.get(self._kind, metadata.get("namespace", ""), metadata["name"])
        except NotFound:
            return False
        return bool(current["metadata"]["uid"] == metadata["uid"])

    async def _options(self, request: web.Request) -> Object:
        """Returns the options in the body, if there is one. Raises BadRequest."""
        data = await read_body(request)
        if not data.strip():
            return {}
        body: Object = convert_decoded(request, decode_object(data, request_media(request))).value
        if body.get("kind", "DeleteOptions") != "DeleteOptions":
            raise BadRequest(f"kind must be DeleteOptions in the body of a DELETE, not {body['kind']!r}")
        versions = ("v1", "meta.k8s.io/v1", self._kind.api_version)
        if body.get("apiVersion", "v1") not in versions:
            raise BadRequest(f"apiVersion must be one of {', '.join(versions)}, not {body['apiVersion']!r}")
        return {name: body[name] for name in body if name not in ("kind", "apiVersion")}


def _success(kind: ResourceKind, last: Object) -> Object:
    metadata = last["metadata"]
    details = {"name": metadata["name"], "group": kind.group, "kind": kind.plural, "uid": metadata["uid"]}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in details.items() if value},
    }
