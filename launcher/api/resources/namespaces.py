"""Namespaces. Every valid name is an implicit namespace, so that users need not create one first."""

import uuid
from collections.abc import Callable
from contextlib import suppress

import orjson

from launcher.api.http.request_options import ListOptions, WriteOptions
from launcher.api.resources.delete import DeleteHandler
from launcher.api.resources.reads import ReadHandler
from launcher.api.resources.registry import Registry, with_request_path
from launcher.api.validation.core_objects import NamespaceStrategy
from launcher.core.errors import AlreadyExists, Conflict, Forbidden, NotFound
from launcher.core.manifest import Manifest
from launcher.core.timestamps import format_rfc3339
from launcher.core.validation.names import namespace_error
from launcher.store.embedded.embedded_store import EmbeddedStore, TextPage
from launcher.store.interface import NAMESPACES, DeleteOptions, Object
from launcher.store.strategy import NAMESPACE_FINALIZER

#: Always listed, and cannot be deleted.
DEFAULT_NAMESPACE = "default"


class ImplicitNamespaces:
    """Namespaces that are not stored; they appear as created at *start_time*, in seconds since 1970."""

    def __init__(self, store: EmbeddedStore, start_time: float) -> None:
        self._store, self._start_time = store, format_rfc3339(int(start_time))

    def one(self, name: str) -> Object:
        """Returns the namespace of that name; only its resourceVersion changes."""
        return {
            "apiVersion": NAMESPACES.api_version,
            "kind": NAMESPACES.kind,
            "metadata": {
                "name": name,
                "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.namespaces")),
                "resourceVersion": str(self._store.version),
                "creationTimestamp": self._start_time,
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }


class NamespaceReadHandler(ReadHandler):
    """Returns stored and implicit namespaces."""

    def __init__(
        self, store: EmbeddedStore, clock: Callable[[], float], implicit: ImplicitNamespaces
    ) -> None:
        super().__init__(NAMESPACES, store, clock)
        self._implicit = implicit

    async def one(self, namespace: str, name: str) -> Object:
        try:
            return await super().one(namespace, name)
        except NotFound:
            if namespace_error(name):
                raise
            return self._implicit.one(name)

    async def page(self, namespace: str | None, options: ListOptions) -> TextPage:
        stored = await self._store.list_raw(self._kind, namespace)
        by_name = {obj["metadata"]["name"]: obj for obj in map(orjson.loads, stored.texts)}
        for name in {DEFAULT_NAMESPACE, *self._store.namespaces()} - by_name.keys():
            by_name[name] = self._implicit.one(name)
        matching = [by_name[name] for name in sorted(by_name) if options.selector.matches(by_name[name])]
        return TextPage([orjson.dumps(obj) for obj in matching], stored.version, None, 0)


class NamespaceRegistry(Registry):
    """Changes namespaces; an implicit one is stored when it is changed."""

    def __init__(self, store: EmbeddedStore, implicit: ImplicitNamespaces) -> None:
        super().__init__(NAMESPACES, NamespaceStrategy(NAMESPACES), store)
        self._implicit = implicit

    async def replace(self, obj: Object, options: WriteOptions) -> Object:
        try:
            return await super().replace(obj, options)
        except NotFound:
            return await self._create_implicit(obj, options)

    async def replace_any(self, obj: Object, options: WriteOptions) -> Object:
        try:
            return await super().replace_any(obj, options)
        except NotFound:
            return await self._create_implicit(obj, options)

    async def change(
        self,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        options: WriteOptions,
        applied: Object | None = None,
    ) -> tuple[Object, Manifest]:
        try:
            return await super().change(namespace, name, change, options, applied)
        except NotFound:
            if namespace_error(name):
                raise
        new = with_request_path(NAMESPACES, change(self._implicit.one(name)), namespace, name)
        try:
            return await self.validate_and_create(_without_version(new), options)
        except AlreadyExists:
            # Another request has created it in the meantime.
            return await super().change(namespace, name, change, options, applied)

    def prepare_update(
        self,
        stored: Object,
        new: Object,
        options: WriteOptions,  # noqa: ARG002 - the same for all writes
        applied: Object | None,  # noqa: ARG002 - as above
    ) -> Object:
        """Returns *new* with the finalizer of *stored*: only the namespace controller removes it."""
        before, after = (obj.get("metadata", {}).get("finalizers") or [] for obj in (stored, new))
        if NAMESPACE_FINALIZER not in before or NAMESPACE_FINALIZER in after:
            return new
        return {**new, "metadata": {**new["metadata"], "finalizers": [*after, NAMESPACE_FINALIZER]}}

    async def _create_implicit(self, obj: Object, options: WriteOptions) -> Object:
        try:
            return await self.create(_without_version(obj), options)
        except AlreadyExists as error:
            raise Conflict(f"{error}: it was created in the meantime; read it and retry") from error


def _without_version(obj: Object) -> Object:
    # The resourceVersion of an implicit namespace is not one of the store's.
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}


class NamespaceDeleteHandler(DeleteHandler):
    """Deletes stored and implicit namespaces; the namespace controller deletes their content."""

    def __init__(self, store: EmbeddedStore, clock: Callable[[], float]) -> None:
        super().__init__(NAMESPACES, store, clock)

    async def _delete(self, namespace: str, name: str, options: DeleteOptions, *, dry_run: bool) -> Object:
        if name == DEFAULT_NAMESPACE:
            raise Forbidden(f'namespaces "{name}" is forbidden: this namespace may not be deleted')
        if name in self._store.namespaces():
            # An implicit namespace is stored first, so that its deletion takes the same path.
            obj = {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": {"name": name}}
            with suppress(AlreadyExists):
                stored = await self._store.create(NAMESPACES, obj, dry_run=dry_run)
                if dry_run:
                    return stored
        return await super()._delete(namespace, name, options, dry_run=dry_run)
