"""Namespaces: any that could be named is there, so that nobody has to make one first."""

import uuid
from collections.abc import Callable
from contextlib import suppress

import orjson

from launcher.api.deleting import Remover
from launcher.api.options import Listing
from launcher.api.reading import Reader
from launcher.core.errors import AlreadyExists, Forbidden, NotFound
from launcher.store.local import LocalStore, TextPage
from launcher.store.port import NAMESPACES, Deletion, Object
from launcher.store.syntax import namespace_fault

#: There from the beginning, and to the end.
DEFAULT = "default"


class NamespaceReader(Reader):
    """Stored namespaces, and made-up ones where objects stand or might."""

    def __init__(self, store: LocalStore, clock: Callable[[], float]) -> None:
        super().__init__(NAMESPACES, store, clock)

    async def one(self, namespace: str, name: str) -> Object:
        try:
            return await super().one(namespace, name)
        except NotFound:
            if namespace_fault(name):
                raise
            return _made_up(name, self._store.version)

    async def page(self, namespace: str | None, listing: Listing) -> TextPage:
        stored = await self._store.list_texts(self._kind, namespace)
        found = {obj["metadata"]["name"]: obj for obj in map(orjson.loads, stored.texts)}
        for name in {DEFAULT, *self._store.namespaces()} - found.keys():
            found[name] = _made_up(name, stored.version)
        shown = [found[name] for name in sorted(found) if listing.where.matches(found[name])]
        return TextPage([orjson.dumps(obj) for obj in shown], stored.version, None, 0)


class NamespaceRemover(Remover):
    """Deletes namespaces, also those that nobody has made; the garbage collector empties them."""

    def __init__(self, store: LocalStore, clock: Callable[[], float]) -> None:
        super().__init__(NAMESPACES, store, clock)

    async def _delete(self, namespace: str, name: str, how: Deletion, *, dry_run: bool) -> Object:
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


def _made_up(name: str, version: int) -> Object:
    return {
        "apiVersion": NAMESPACES.api_version,
        "kind": NAMESPACES.kind,
        "metadata": {
            "name": name,
            "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.namespaces")),
            "resourceVersion": str(version),
            "labels": {"kubernetes.io/metadata.name": name},
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
