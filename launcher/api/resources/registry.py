"""The registry of a kind: validates objects and stores them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from launcher.api.apply.merge import merge_applied
from launcher.api.http.request_options import WriteOptions
from launcher.api.http.status import ErrorTarget, NamespaceTerminating
from launcher.core.errors import BadRequest, Conflict, FieldError, InvalidObject, NotFound
from launcher.core.manifest import Manifest
from launcher.core.parsing.decoder import Decoded
from launcher.core.pods.observed_pod import is_deleted
from launcher.core.validation.field_errors import truncate_errors
from launcher.store import strategy as storage
from launcher.store.interface import NAMESPACES, Object, ResourceKind, Store

#: Attempts of a change that conflicts with other writes. Patches of one object are serialised, so that only the
#: controller and replacing clients conflict.
_MAX_ATTEMPTS = 50


class ResourceStrategy(Protocol):
    """Validation rules of a kind."""

    def validate(self, obj: Decoded | Object, old: Object | None = None, *, strict: bool) -> Manifest:
        """
        Returns the valid object with its defaults, and warnings.

        *obj* is a decoded request body, or an object computed from a patch of *old*. Warnings that also hold for *old*
        are omitted. Raises BadRequest, InvalidObject.
        """
        ...

    def creation_errors(self, new: Object) -> Sequence[FieldError]:
        """Returns the rules that prevent the creation of the valid object *new*."""
        ...

    def update_errors(self, old: Object, new: Object) -> Sequence[FieldError]:
        """Returns the changes from *old* to *new* that are not allowed."""
        ...

    def status_errors(self, obj: Object) -> Sequence[FieldError]:
        """Returns the errors in the status of *obj*."""
        ...


class Registry:
    """Stores objects of one kind; concurrent changes are not lost."""

    def __init__(self, kind: ResourceKind, strategy: ResourceStrategy, store: Store) -> None:
        self.kind, self._strategy, self._store = kind, strategy, store
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def parse(self, decoded: Decoded, options: WriteOptions) -> Manifest:
        """Returns the valid object in a decoded body. Raises BadRequest, InvalidObject."""
        return self._strategy.validate(decoded, strict=options.strict)

    async def create(self, obj: Object, options: WriteOptions) -> Object:
        """Stores the parsed object and returns it. Raises AlreadyExists, InvalidObject, Forbidden."""
        metadata = {field: value for field, value in obj["metadata"].items() if field != "managedFields"}
        return await self._create({**obj, "metadata": metadata}, options)

    async def _create(self, obj: Object, options: WriteOptions) -> Object:
        if errors := self._strategy.creation_errors(obj):
            raise InvalidObject(tuple(errors))
        await self._check_namespace(obj["metadata"])
        return await self._store.create(self.kind, obj, dry_run=options.dry_run)

    async def validate_and_create(
        self, obj: Object, options: WriteOptions, applied: Object | None = None
    ) -> tuple[Object, Manifest]:
        """Like ``create``, for a computed object that has not been validated."""
        manifest = self._strategy.validate(obj, strict=options.strict)
        return await self._create(
            self.prepare_update({}, manifest.object, options, applied), options
        ), manifest

    async def _check_namespace(self, metadata: Object) -> None:
        name = metadata.get("namespace", "")
        try:
            namespace = await self._store.get(NAMESPACES, "", name)
        except NotFound:
            return  # an implicit namespace, which is never being deleted
        if is_deleted(namespace):
            raise NamespaceTerminating(ErrorTarget(self.kind, metadata.get("name", "")), name)

    async def replace(self, obj: Object, options: WriteOptions) -> Object:
        """Replaces the stored object of the same version by the parsed *obj*. Raises NotFound, Conflict."""
        metadata = obj["metadata"]
        stored = await self._store.get(self.kind, metadata.get("namespace", ""), metadata["name"])
        # With another version, the comparison means nothing, and the store raises Conflict.
        if metadata.get("resourceVersion") == stored["metadata"]["resourceVersion"]:
            obj = self._prepared(stored, _with_managed_fields(stored, obj), options)
        return await self._store.update(self.kind, obj, dry_run=options.dry_run)

    async def replace_any(self, obj: Object, options: WriteOptions) -> Object:
        """Replaces the stored object of any version by the parsed *obj*."""

        def change(stored: Object) -> Object:
            version = stored["metadata"]["resourceVersion"]
            new = self._prepared(stored, obj, options)
            return {**new, "metadata": {**new["metadata"], "resourceVersion": version}}

        metadata = obj["metadata"]
        return await self._retry_on_conflict(
            metadata.get("namespace", ""),
            metadata["name"],
            change,
            lambda new: self._store.update(self.kind, new, dry_run=options.dry_run),
        )

    async def change(
        self,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        options: WriteOptions,
        applied: Object | None = None,
    ) -> tuple[Object, Manifest]:
        """
        Stores the result of *change* and returns it; *applied* is the configuration of a server-side apply.

        Raises NotFound, Conflict, BadRequest, InvalidObject.
        """
        manifest = Manifest({}, ())

        def validated(stored: Object) -> Object:
            nonlocal manifest
            new = storage.normalize(self.kind, change(stored))
            new = storage.prepare_patch(self.kind, stored, new)
            manifest = self._strategy.validate(new, stored, strict=options.strict)
            metadata = {**manifest.object["metadata"]}
            metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
            return self._prepared(stored, {**manifest.object, "metadata": metadata}, options, applied)

        saved = await self._retry_on_conflict(
            namespace,
            name,
            validated,
            lambda new: self._store.update(self.kind, new, dry_run=options.dry_run),
        )
        return saved, manifest

    async def apply(
        self, namespace: str, name: str, applied: Object, options: WriteOptions
    ) -> tuple[Object, Manifest]:
        """Merges the *applied* configuration into the stored object. Raises as ``change`` does."""
        return await self.change(namespace, name, lambda stored: merge_applied(stored, applied), options)

    async def apply_new(self, obj: Object, options: WriteOptions) -> tuple[Object, Manifest]:
        """Stores an applied object that does not exist yet. Raises as ``create`` does."""
        return await self.validate_and_create(obj, options)

    async def replace_status(self, obj: Object, options: WriteOptions) -> Object:
        """Replaces only the status. Raises NotFound, Conflict, InvalidObject."""
        self._check_status(obj)
        return await self._store.update_status(self.kind, obj, dry_run=options.dry_run)

    async def change_status(
        self, namespace: str, name: str, change: Callable[[Object], Object], options: WriteOptions
    ) -> Object:
        """Stores the status in the result of *change*. Raises as ``change`` does."""

        def validated(stored: Object) -> Object:
            new = storage.normalize(self.kind, change(stored))
            result = {**stored, "status": storage.prepare_status_patch(self.kind, stored, new)}
            self._check_status(result)
            return result

        return await self._retry_on_conflict(
            namespace,
            name,
            validated,
            lambda new: self._store.update_status(self.kind, new, dry_run=options.dry_run),
        )

    async def _retry_on_conflict(
        self,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        save: Callable[[Object], Awaitable[Object]],
    ) -> Object:
        """Returns the result of *save*; after a conflict, *change* is repeated with the new stored object."""
        async with self._lock(namespace, name):
            for remaining in reversed(range(_MAX_ATTEMPTS)):
                new = change(await self._store.get(self.kind, namespace, name))
                try:
                    return await save(new)
                except Conflict:
                    if not remaining:
                        raise
        raise AssertionError("the last attempt returns or raises")

    def _lock(self, namespace: str, name: str) -> asyncio.Lock:
        """Returns the lock of an object, which is dropped when no request holds it."""
        lock = self._locks.get((namespace, name))
        if lock is None:
            lock = self._locks[namespace, name] = asyncio.Lock()
        return lock

    def _prepared(
        self, stored: Object, new: Object, options: WriteOptions, applied: Object | None = None
    ) -> Object:
        result = self.prepare_update(stored, new, options, applied)
        if errors := self._strategy.update_errors(stored, result):
            raise InvalidObject(tuple(errors))
        return result

    def prepare_update(
        self,
        stored: Object,  # noqa: ARG002 - for registries that override this
        new: Object,
        options: WriteOptions,  # noqa: ARG002 - as above
        applied: Object | None,  # noqa: ARG002 - as above
    ) -> Object:
        """
        Returns the valid object *new* as it is stored in place of *stored*, which is empty at creation.

        *applied* is the configuration of a server-side apply, or None for other writes. Raises Conflict.
        """
        return new

    def _check_status(self, obj: Object) -> None:
        if errors := self._strategy.status_errors(obj):
            raise InvalidObject(truncate_errors(errors))


def _with_managed_fields(stored: Object, new: Object) -> Object:
    """Returns *new* with the managed fields of *stored* if it has none: a client that omits them keeps them."""
    if "managedFields" in new["metadata"] or "managedFields" not in stored["metadata"]:
        return new
    managed_fields = {"managedFields": stored["metadata"]["managedFields"]}
    return {**new, "metadata": managed_fields | new["metadata"]}


def with_request_path(kind: ResourceKind, obj: Object, namespace: str, name: str | None = None) -> Object:
    """Returns the object with the namespace and the *name* of the request's URL. Raises BadRequest if they differ."""
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    expected = {"namespace": namespace} if kind.namespaced else {}
    if name is not None:
        expected["name"] = name
    for field, value in expected.items():
        if metadata.get(field) not in (None, "", value):
            raise BadRequest(
                f"the {field} of the object ({metadata[field]}) does not match the {field} on the URL ({value})"
            )
    return {**obj, "metadata": {**metadata, **expected}}
