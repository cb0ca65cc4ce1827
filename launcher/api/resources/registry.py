"""Objects of one kind on their way into the store: nothing gets there that its rules do not allow."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from launcher.api.apply.merge import applied
from launcher.api.http.request_options import Validation, WriteOptions
from launcher.api.http.status import ErrorTarget, NamespaceTerminating
from launcher.core.errors import BadRequest, Conflict, FieldError, InvalidObject, NotFound
from launcher.core.manifest import Manifest
from launcher.core.parsing.decoder import Media
from launcher.core.validation.field_errors import truncate_errors
from launcher.store import strategy
from launcher.store.interface import NAMESPACES, Object, ResourceKind, Store

#: How often a change that others got ahead of is made anew. Requests wait for each other, so that those others are
#: few: the controller, and whoever replaces the whole object.
_TRIES = 50
#: The object to store, from the stored one and the one that was asked for; the stored one of a new object is empty.
FinalizeObject = Callable[[Object, Object], Object]


class ResourceStrategy(Protocol):
    """What a kind asks of its objects."""

    def read(self, data: bytes, media: Media, *, strict: bool) -> Manifest:
        """The object in a body. Raises BadRequest, TooLarge, InvalidObject."""
        ...

    def check(self, obj: Object, old: Object | None, *, strict: bool) -> Manifest:
        """What a patch has made of *old*, or has made anew. Raises BadRequest, InvalidObject."""
        ...

    def creation_problems(self, new: Object) -> Sequence[FieldError]:
        """What keeps *new*, which has been read or checked, from being created."""
        ...

    def change_problems(self, old: Object, new: Object) -> Sequence[FieldError]:
        """What may not be changed from *old* to *new*."""
        ...

    def status_problems(self, obj: Object) -> Sequence[FieldError]:
        """What is wrong with the status of *obj*."""
        ...


class Registry:
    """Stores objects of one kind, and changes them so that nobody else's change is lost."""

    def __init__(self, kind: ResourceKind, rules: ResourceStrategy, store: Store) -> None:
        self.kind, self._rules, self._store = kind, rules, store
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def read(self, data: bytes, media: Media, writing: WriteOptions) -> Manifest:
        """The object in a body. Raises BadRequest, TooLarge, InvalidObject."""
        return self._rules.read(data, media, strict=writing.validation is Validation.STRICT)

    async def create(self, obj: Object, writing: WriteOptions) -> Object:
        """The object, which has been read, as stored. Raises AlreadyExists, InvalidObject, Forbidden."""
        metadata = {field: value for field, value in obj["metadata"].items() if field != "managedFields"}
        return await self._create({**obj, "metadata": metadata}, writing)

    async def _create(self, obj: Object, writing: WriteOptions) -> Object:
        if problems := self._rules.creation_problems(obj):
            raise InvalidObject(tuple(problems))
        await self._check_namespace(obj["metadata"])
        return await self._store.create(self.kind, obj, dry_run=writing.dry_run)

    async def create_unread(self, obj: Object, writing: WriteOptions) -> tuple[Object, Manifest]:
        """The same for an object that was put together here."""
        return await self._create_unread(obj, writing, lambda _, new: new)

    async def _create_unread(
        self, obj: Object, writing: WriteOptions, settle: FinalizeObject
    ) -> tuple[Object, Manifest]:
        manifest = self._rules.check(obj, None, strict=writing.validation is Validation.STRICT)
        return await self._create(settle({}, manifest.object), writing), manifest

    async def _check_namespace(self, metadata: Object) -> None:
        name = metadata.get("namespace", "")
        try:
            namespace = await self._store.get(NAMESPACES, "", name)
        except NotFound:
            return  # nobody has made it, so nobody deletes it
        if "deletionTimestamp" in namespace["metadata"]:
            raise NamespaceTerminating(ErrorTarget(self.kind, metadata.get("name", "")), name)

    async def replace(self, obj: Object, writing: WriteOptions) -> Object:
        """The object, which has been read, in the place of the one of that version. Raises NotFound, Conflict."""
        metadata = obj["metadata"]
        stored = await self._store.get(self.kind, metadata.get("namespace", ""), metadata["name"])
        # What is compared with another version than it was made from is the store's to refuse.
        if metadata.get("resourceVersion") == stored["metadata"]["resourceVersion"]:
            self._check_change(stored, obj)
            obj = self._replaced(stored, obj, writing)
        return await self._store.update(self.kind, self._kept(stored, obj), dry_run=writing.dry_run)

    async def replace_any(self, obj: Object, writing: WriteOptions) -> Object:
        """The object, which has been read, in the place of the one that is there, whatever its version."""

        def change(stored: Object) -> Object:
            version = stored["metadata"]["resourceVersion"]
            self._check_change(stored, obj)
            new = self._kept(stored, obj)
            return {**new, "metadata": {**new["metadata"], "resourceVersion": version}}

        metadata = obj["metadata"]
        return await self._retry_on_conflict(
            metadata.get("namespace", ""),
            metadata["name"],
            change,
            lambda new: self._store.update(self.kind, new, dry_run=writing.dry_run),
        )

    async def change(
        self, namespace: str, name: str, change: Callable[[Object], Object], writing: WriteOptions
    ) -> tuple[Object, Manifest]:
        """The object as stored after *change*. Raises NotFound, Conflict, BadRequest, InvalidObject."""

        def settle(stored: Object, new: Object) -> Object:
            return self._changed(stored, new, writing)

        return await self._change(namespace, name, change, writing, settle)

    async def _change(
        self,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        writing: WriteOptions,
        settle: FinalizeObject,
    ) -> tuple[Object, Manifest]:
        manifest = Manifest({}, ())
        strict = writing.validation is Validation.STRICT

        def checked(stored: Object) -> Object:
            nonlocal manifest
            new = strategy.normalized(self.kind, change(stored))
            new = strategy.patched(self.kind, stored, self._kept(stored, new))
            manifest = self._rules.check(new, stored, strict=strict)
            metadata = {**manifest.object["metadata"]}
            metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
            wanted = settle(stored, {**manifest.object, "metadata": metadata})
            self._check_change(stored, wanted)
            return wanted

        saved = await self._retry_on_conflict(
            namespace,
            name,
            checked,
            lambda new: self._store.update(self.kind, new, dry_run=writing.dry_run),
        )
        return saved, manifest

    async def apply(
        self, namespace: str, name: str, wish: Object, writing: WriteOptions
    ) -> tuple[Object, Manifest]:
        """The object as stored once it holds *wish*, too. Raises as ``change`` does."""
        return await self.change(namespace, name, lambda stored: applied(stored, wish), writing)

    async def apply_new(self, obj: Object, writing: WriteOptions) -> tuple[Object, Manifest]:
        """The object, which was applied where there was none, as stored. Raises as ``create`` does."""
        return await self.create_unread(obj, writing)

    async def replace_status(self, obj: Object, writing: WriteOptions) -> Object:
        """The status alone replaced. Raises NotFound, Conflict, InvalidObject."""
        self._check_status(obj)
        return await self._store.update_status(self.kind, obj, dry_run=writing.dry_run)

    async def change_status(
        self, namespace: str, name: str, change: Callable[[Object], Object], writing: WriteOptions
    ) -> Object:
        """The object as stored after the status in it was changed. Raises as ``change``."""

        def checked(stored: Object) -> Object:
            new = strategy.normalized(self.kind, change(stored))
            wanted = {**stored, "status": strategy.status_patched(self.kind, stored, new)}
            self._check_status(wanted)
            return wanted

        return await self._retry_on_conflict(
            namespace,
            name,
            checked,
            lambda new: self._store.update_status(self.kind, new, dry_run=writing.dry_run),
        )

    async def _retry_on_conflict(
        self,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        save: Callable[[Object], Awaitable[Object]],
    ) -> Object:
        """
        What *save* answers about what *change* made of the stored object.

        Both are called again when somebody else's write came in between.
        """
        async with self._turn(namespace, name):
            for tries_left in reversed(range(_TRIES)):
                new = change(await self._store.get(self.kind, namespace, name))
                try:
                    return await save(new)
                except Conflict:
                    if not tries_left:
                        raise
        raise AssertionError("the last try returns or raises")

    def _turn(self, namespace: str, name: str) -> asyncio.Lock:
        """One after the other, in the order in which they came; forgotten when nobody waits."""
        turn = self._turns.get((namespace, name))
        if turn is None:
            turn = self._turns[namespace, name] = asyncio.Lock()
        return turn

    def _kept(self, old: Object, new: Object) -> Object:  # noqa: ARG002 - for those who keep something
        """*new* with what no change takes away from *old*."""
        return new

    def _replaced(self, old: Object, new: Object, writing: WriteOptions) -> Object:  # noqa: ARG002 - as above
        """*new*, which was sent to take the place of *old*, as it is stored."""
        return new

    def _changed(self, old: Object, new: Object, writing: WriteOptions) -> Object:  # noqa: ARG002 - as above
        """*new*, which a patch has made of *old*, as it is stored."""
        return new

    def _check_change(self, old: Object, new: Object) -> None:
        if problems := self._rules.change_problems(old, new):
            raise InvalidObject(tuple(problems))

    def _check_status(self, obj: Object) -> None:
        if problems := self._rules.status_problems(obj):
            raise InvalidObject(truncate_errors(problems))


def with_request_path(kind: ResourceKind, obj: Object, namespace: str, name: str | None = None) -> Object:
    """The object where its address says, in its namespace and under its *name*. Raises BadRequest."""
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    place = {"namespace": namespace} if kind.namespaced else {}
    if name is not None:
        place["name"] = name
    for field, value in place.items():
        if metadata.get(field) not in (None, "", value):
            raise BadRequest(
                f"metadata.{field} is {metadata[field]!r}, and the address of the request says {value!r}: "
                "make them the same, or leave it out of the object"
            )
    return {**obj, "metadata": {**metadata, **place}}
