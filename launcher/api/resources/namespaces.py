"""Namespaces: any that could be named is there, so that nobody has to make one first."""

import uuid
from collections.abc import Callable
from contextlib import suppress

import orjson

from launcher.api.http.request_options import ListOptions, WriteOptions
from launcher.api.resources.delete import DeleteHandler
from launcher.api.resources.reads import Reader
from launcher.api.resources.registry import Registry, with_request_path
from launcher.api.validation.core_objects import NamespaceRules
from launcher.core.errors import AlreadyExists, Conflict, Forbidden, NotFound
from launcher.core.manifest import Manifest
from launcher.core.timestamps import format_rfc3339
from launcher.core.validation.names import namespace_fault
from launcher.store.embedded.embedded_store import RawJsonStore, TextPage
from launcher.store.interface import NAMESPACES, DeleteOptions, Object
from launcher.store.strategy import NAMESPACE_FINALIZER

#: There from the beginning, and to the end.
DEFAULT = "default"


class ImplicitNamespaces:
    """Namespaces as they would be if somebody had made them when the server began, at *began* seconds since 1970."""

    def __init__(self, store: RawJsonStore, began: float) -> None:
        self._store, self._began = store, format_rfc3339(int(began))

    def one(self, name: str) -> Object:
        """The namespace of that name; the same one every time, except for its version."""
        return {
            "apiVersion": NAMESPACES.api_version,
            "kind": NAMESPACES.kind,
            "metadata": {
                "name": name,
                "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.namespaces")),
                "resourceVersion": str(self._store.version),
                "creationTimestamp": self._began,
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }


class NamespaceReader(Reader):
    """Stored namespaces, and made-up ones where objects stand or might."""

    def __init__(
        self, store: RawJsonStore, clock: Callable[[], float], imagination: ImplicitNamespaces
    ) -> None:
        super().__init__(NAMESPACES, store, clock)
        self._imagination = imagination

    async def one(self, namespace: str, name: str) -> Object:
        try:
            return await super().one(namespace, name)
        except NotFound:
            if namespace_fault(name):
                raise
            return self._imagination.one(name)

    async def page(self, namespace: str | None, listing: ListOptions) -> TextPage:
        stored = await self._store.list_raw(self._kind, namespace)
        found = {obj["metadata"]["name"]: obj for obj in map(orjson.loads, stored.texts)}
        for name in {DEFAULT, *self._store.namespaces()} - found.keys():
            found[name] = self._imagination.one(name)
        shown = [found[name] for name in sorted(found) if listing.where.matches(found[name])]
        return TextPage([orjson.dumps(obj) for obj in shown], stored.version, None, 0)


class NamespaceKeeper(Registry):
    """Changes namespaces; one that nobody has made is made by being changed."""

    def __init__(self, store: RawJsonStore, imagination: ImplicitNamespaces) -> None:
        super().__init__(NAMESPACES, NamespaceRules(NAMESPACES), store)
        self._imagination = imagination

    async def replace(self, obj: Object, writing: WriteOptions) -> Object:
        try:
            return await super().replace(obj, writing)
        except NotFound:
            return await self._made(obj, writing)

    async def replace_any(self, obj: Object, writing: WriteOptions) -> Object:
        try:
            return await super().replace_any(obj, writing)
        except NotFound:
            return await self._made(obj, writing)

    async def change(
        self, namespace: str, name: str, change: Callable[[Object], Object], writing: WriteOptions
    ) -> tuple[Object, Manifest]:
        try:
            return await super().change(namespace, name, change, writing)
        except NotFound:
            if namespace_fault(name):
                raise
        new = with_request_path(NAMESPACES, change(self._imagination.one(name)), namespace, name)
        try:
            return await self.create_unread(_unversioned(new), writing)
        except AlreadyExists:
            # Somebody else was quicker, so that there is something to change by now.
            return await super().change(namespace, name, change, writing)

    def _kept(self, old: Object, new: Object) -> Object:
        """*new*, held until it is empty as long as *old* is: who writes a namespace anew does not mean to let go."""
        before, after = (obj["metadata"].get("finalizers") or [] for obj in (old, new))
        if NAMESPACE_FINALIZER not in before or NAMESPACE_FINALIZER in after:
            return new
        return {**new, "metadata": {**new["metadata"], "finalizers": [*after, NAMESPACE_FINALIZER]}}

    async def _made(self, obj: Object, writing: WriteOptions) -> Object:
        try:
            return await self.create(_unversioned(obj), writing)
        except AlreadyExists as error:
            raise Conflict(f"{error}: somebody has made it meanwhile; read it, then change that") from error


def _unversioned(obj: Object) -> Object:
    # An imagined one has a version to show, which the store has never given.
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}


class NamespaceRemover(DeleteHandler):
    """Deletes namespaces, also those that nobody has made; the garbage collector empties them."""

    def __init__(self, store: RawJsonStore, clock: Callable[[], float]) -> None:
        super().__init__(NAMESPACES, store, clock)

    async def _delete(self, namespace: str, name: str, how: DeleteOptions, *, dry_run: bool) -> Object:
        if name == DEFAULT:
            raise Forbidden(f'namespaces "{name}" is forbidden: this namespace may not be deleted')
        if name in self._store.namespaces():
            # What is to be deleted has to be there; then it is emptied like any other.
            made = {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": {"name": name}}
            with suppress(AlreadyExists):
                stored = await self._store.create(NAMESPACES, made, dry_run=dry_run)
                if dry_run:
                    return stored
        return await super()._delete(namespace, name, how, dry_run=dry_run)
