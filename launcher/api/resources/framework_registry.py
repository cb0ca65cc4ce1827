"""Frameworks on their way into the store, each with a record of who owns which of its fields once it is applied."""

from collections.abc import Callable, Sequence

from launcher.api.apply.field_sets import fields_in, without
from launcher.api.apply.managed_fields import (
    KUBECTL,
    LAST_APPLIED,
    NOTE,
    ManagerConflict,
    Owners,
    after_apply,
    after_update,
    clashes,
    dropped,
    first_owners,
    owners_to_wire,
    read_owners,
)
from launcher.api.apply.merge import applied, without_nulls
from launcher.api.http.request_options import WriteOptions
from launcher.api.http.status import FieldConflict
from launcher.api.resources.registry import FinalizeObject, Registry, ResourceStrategy
from launcher.core.errors import FieldError
from launcher.core.manifest import Manifest
from launcher.core.replicas import reconcile_replicas
from launcher.core.timestamps import format_rfc3339
from launcher.store.interface import FRAMEWORKS, Object, Store
from launcher.store.strategy import encoded

_FIELD = "managedFields"


class FrameworkKeeper(Registry):
    """Stores Frameworks, and knows who owns what of those that somebody has applied."""

    def __init__(self, rules: ResourceStrategy, store: Store, clock: Callable[[], float]) -> None:
        super().__init__(FRAMEWORKS, rules, store)
        self._clock = clock

    async def apply(
        self, namespace: str, name: str, wish: Object, writing: WriteOptions
    ) -> tuple[Object, Manifest]:
        """The object as stored once it holds *wish*. Raises FieldConflict, and as ``change`` does."""
        wish = without_nulls(wish)

        def merged(stored: Object) -> Object:
            gone = dropped(self._owners(stored, writing), fields_in(wish), writing.manager)
            new = applied(without(stored, gone), wish)
            return _noted(new, wish) if writing.manager == KUBECTL else new

        return await self._change(namespace, name, merged, writing, self._settle(wish, writing))

    async def apply_new(self, obj: Object, writing: WriteOptions) -> tuple[Object, Manifest]:
        """The object, which was applied where there was none, as stored. Raises as ``create`` does."""
        obj = without_nulls(obj)
        return await self._create_unread(obj, writing, self._settle(obj, writing))

    def _settle(self, wish: Object, writing: WriteOptions) -> FinalizeObject:
        wanted = fields_in(wish)

        def settle(stored: Object, new: Object) -> Object:
            owners = self._owners(stored, writing)
            found = () if writing.force else clashes(stored, new, owners, wanted, writing.manager)
            if found:
                raise _conflict(found)
            return _owned(new, after_apply(stored, new, owners, wanted, writing.manager, self._now()))

        return settle

    def _owners(self, stored: Object, writing: WriteOptions) -> Owners:
        if not stored:
            return ()
        if entries := stored["metadata"].get(_FIELD):
            return read_owners(entries)
        return first_owners(stored, writing.manager, self._now())

    def _replaced(self, old: Object, new: Object, writing: WriteOptions) -> Object:
        # Whoever does not speak of owners does not mean that there be none.
        held = {_FIELD: old["metadata"][_FIELD]} if _FIELD in old["metadata"] else {}
        return self._changed(
            old, reconcile_replicas({**new, "metadata": held | new["metadata"]}, old), writing
        )

    def _changed(self, old: Object, new: Object, writing: WriteOptions) -> Object:
        said = new["metadata"].get(_FIELD)
        if _FIELD not in old["metadata"] or said in (None, [], [{}]):
            return _owned(new, ())
        return _owned(new, after_update(old, new, read_owners(said), writing.manager, self._now()))

    def _now(self) -> str:
        return format_rfc3339(int(self._clock()))


def _owned(obj: Object, owners: Owners) -> Object:
    metadata = {field: value for field, value in obj["metadata"].items() if field != _FIELD}
    if entries := owners_to_wire(owners):
        metadata[_FIELD] = entries
    return {**obj, "metadata": metadata}


def _conflict(found: Sequence[ManagerConflict]) -> FieldConflict:
    """The refusal, in the words that clients of Kubernetes know."""
    causes = tuple(
        FieldError(clash.field, f"conflict with {clash.owner}", "FieldManagerConflict") for clash in found
    )
    if len(causes) == 1:
        return FieldConflict(f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}", causes)
    lines = []
    for owner in dict.fromkeys(clash.owner for clash in found):
        lines += [f"conflicts with {owner}:", *(f"- {each.field}" for each in found if each.owner == owner)]
    return FieldConflict(f"Apply failed with {len(found)} conflicts: " + "\n".join(lines), causes)


def _noted(new: Object, wish: Object) -> Object:
    """*new*, and on it what kubectl needs to know if its user goes back to applying without the server's help."""
    annotations = new["metadata"].get("annotations", {})
    # What has another form than it should is for the rules to refuse.
    if not isinstance(annotations, dict) or LAST_APPLIED not in annotations:
        return new
    note = encoded(without(wish, [NOTE])).decode() + "\n"
    metadata = {**new["metadata"], "annotations": {**annotations, LAST_APPLIED: note}}
    return {**new, "metadata": metadata}
