"""DELETE: of one object, or of all that match."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import orjson
from aiohttp import web

from launcher.api.http.content_negotiation import MANY, ONE, negotiate_format
from launcher.api.http.request_body import body_of, media_of, object_in
from launcher.api.http.request_options import deletion_of, listing_of
from launcher.api.http.responses import respond
from launcher.api.resources.job_owned import deletion_warnings
from launcher.api.resources.object_views import ObjectPrinter, include_of
from launcher.api.resources.writes import written
from launcher.core.errors import BadRequest, Conflict, NotFound
from launcher.store.embedded.embedded_store import RawJsonStore
from launcher.store.interface import (
    FRAMEWORKS,
    NAMESPACES,
    PODS,
    DeleteOptions,
    Object,
    Propagation,
    ResourceKind,
)

#: Deletions that are under way at one time, so that they share the store's commits.
_AT_ONCE = 100
#: Kinds that answer with the object even when nothing holds it.
_SHOWN = (PODS, NAMESPACES)


class DeleteHandler:
    """Deletes objects of one kind."""

    def __init__(self, kind: ResourceKind, store: RawJsonStore, clock: Callable[[], float]) -> None:
        self._kind, self._store, self._clock = kind, store, clock

    async def delete(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """The object as it waits for its end, or that it is gone."""
        look = negotiate_format(request, ONE)
        how, dry_run = deletion_of(request, await self._options(request))
        last = await self._delete(namespace, name, how, dry_run=dry_run)
        warnings = self._warnings(last)
        if self._kind in _SHOWN or await self._waits(last, dry_run=dry_run):
            return await written(request, self._kind, look, last, self._clock, warnings)
        return await respond(request, look, _gone(self._kind, last), warnings=warnings)

    def _warnings(self, *deleted: Object) -> list[str]:
        if self._kind != FRAMEWORKS:
            return []
        return [text for obj in deleted for text in deletion_warnings(obj)]

    async def _delete(self, namespace: str, name: str, how: DeleteOptions, *, dry_run: bool) -> Object:
        stored = await self._store.get(self._kind, namespace, name)
        how = self._chosen(stored, how)
        return await self._store.delete(self._kind, namespace, name, how, dry_run=dry_run)

    async def delete_all(self, request: web.Request, namespace: str) -> web.StreamResponse:
        """Every object that matches, as it was before; those that are on their way out already are left alone."""
        look = negotiate_format(request, MANY)
        viewer = ObjectPrinter(self._kind, look, include_of(request), self._clock)
        listing = listing_of(request, self._kind, watch=False)
        how, dry_run = deletion_of(request, await self._options(request))
        page = await self._store.list(self._kind, namespace, listing.where, limit=listing.limit)
        doomed = [obj for obj in page.items if "deletionTimestamp" not in obj["metadata"]]
        went: list[Object] = []
        for first in range(0, len(doomed), _AT_ONCE):
            batch = doomed[first : first + _AT_ONCE]
            done = await asyncio.gather(*(self._delete_if_there(obj, how, dry_run=dry_run) for obj in batch))
            went += [obj for obj, is_done in zip(batch, done, strict=True) if is_done]
        metadata = {"resourceVersion": str(self._store.version)}
        texts = map(orjson.dumps, went)
        return await respond(request, look, viewer.many(metadata, texts), warnings=self._warnings(*went))

    async def _delete_if_there(self, obj: Object, how: DeleteOptions, *, dry_run: bool) -> bool:
        metadata = obj["metadata"]
        how = replace(self._chosen(obj, how), uid=metadata["uid"])
        try:
            await self._store.delete(
                self._kind, metadata.get("namespace", ""), metadata["name"], how, dry_run=dry_run
            )
        except (NotFound, Conflict):
            return False
        return True

    def _chosen(self, stored: Object, how: DeleteOptions) -> DeleteOptions:
        """
        How to delete this one: a Framework in the foreground unless the request says otherwise.

        So its name is free only when nothing runs under it any more. A job is deleted in the background, as on a
        cluster: its clients create it again at once, and the new one waits for what the old one has left.
        """
        unsaid = how.propagation is None and "deletionTimestamp" not in stored["metadata"]
        if unsaid and self._kind == FRAMEWORKS:
            return replace(how, propagation=Propagation.FOREGROUND)
        return how

    async def _waits(self, last: Object, *, dry_run: bool) -> bool:
        """Whether the object is still there."""
        metadata = last["metadata"]
        if "deletionTimestamp" not in metadata or dry_run:
            return "deletionTimestamp" in metadata
        try:
            now = await self._store.get(self._kind, metadata.get("namespace", ""), metadata["name"])
        except NotFound:
            return False
        return bool(now["metadata"]["uid"] == metadata["uid"])

    async def _options(self, request: web.Request) -> Object:
        """The options in the body, if there is one. Raises BadRequest."""
        data = await body_of(request)
        if not data.strip():
            return {}
        body: Object = object_in(data, media_of(request)).value
        if body.get("kind", "DeleteOptions") != "DeleteOptions":
            raise BadRequest(f"the body of a DELETE may be DeleteOptions, not a {body['kind']!r}")
        versions = ("v1", "meta.k8s.io/v1", self._kind.api_version)
        if body.get("apiVersion", "v1") not in versions:
            raise BadRequest(f"apiVersion must be one of {', '.join(versions)}, not {body['apiVersion']!r}")
        return {name: body[name] for name in body if name not in ("kind", "apiVersion")}


def _gone(kind: ResourceKind, last: Object) -> Object:
    metadata = last["metadata"]
    details = {"name": metadata["name"], "group": kind.group, "kind": kind.plural, "uid": metadata["uid"]}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in details.items() if value},
    }
