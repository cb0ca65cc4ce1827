"""The registry of Frameworks, which records field managers once an object is applied."""

from collections.abc import Callable, Sequence

from launcher.api.apply.field_sets import fields_in, without
from launcher.api.apply.managed_fields import (
    KUBECTL,
    LAST_APPLIED,
    LAST_APPLIED_PATH,
    FieldManagers,
    ManagerConflict,
    dropped_fields,
    initial_managers,
    manager_conflicts,
    managers_after_apply,
    managers_after_update,
    managers_from_json,
    managers_to_json,
)
from launcher.api.apply.merge import merge_applied, without_nulls
from launcher.api.http.request_options import WriteOptions
from launcher.api.http.status import FieldConflict
from launcher.api.resources.registry import Registry, ResourceStrategy
from launcher.core.errors import FieldError
from launcher.core.manifest import Manifest
from launcher.core.replicas import reconcile_replicas
from launcher.core.timestamps import format_rfc3339
from launcher.store.interface import FRAMEWORKS, Object, Store
from launcher.store.strategy import canonical_json

_FIELD = "managedFields"


class FrameworkRegistry(Registry):
    """Stores Frameworks with their managed fields."""

    def __init__(self, strategy: ResourceStrategy, store: Store, clock: Callable[[], float]) -> None:
        super().__init__(FRAMEWORKS, strategy, store)
        self._clock = clock

    async def apply(
        self, namespace: str, name: str, applied: Object, options: WriteOptions
    ) -> tuple[Object, Manifest]:
        """Merges the *applied* configuration. Raises FieldConflict, and as ``change`` does."""
        applied = without_nulls(applied)

        def merged(stored: Object) -> Object:
            dropped = dropped_fields(self._managers(stored, options), fields_in(applied), options.manager)
            new = merge_applied(without(stored, dropped), applied)
            return _with_last_applied(new, applied) if options.manager == KUBECTL else new

        return await self.change(namespace, name, merged, options, applied)

    async def apply_new(self, obj: Object, options: WriteOptions) -> tuple[Object, Manifest]:
        obj = without_nulls(obj)
        return await self.validate_and_create(obj, options, obj)

    def prepare_update(
        self, stored: Object, new: Object, options: WriteOptions, applied: Object | None
    ) -> Object:
        if applied is not None:
            return self._prepare_apply(stored, new, options, applied)
        new = reconcile_replicas(new, stored)
        managers = new["metadata"].get(_FIELD)
        if _FIELD not in stored.get("metadata", {}) or managers in (None, [], [{}]):
            return _with_managers(new, ())
        return _with_managers(
            new,
            managers_after_update(stored, new, managers_from_json(managers), options.manager, self._now()),
        )

    def _prepare_apply(self, stored: Object, new: Object, options: WriteOptions, applied: Object) -> Object:
        fields = fields_in(applied)
        managers = self._managers(stored, options)
        conflicts = () if options.force else manager_conflicts(stored, new, managers, fields, options.manager)
        if conflicts:
            raise _conflict_error(conflicts)
        return _with_managers(
            new, managers_after_apply(stored, new, managers, fields, options.manager, self._now())
        )

    def _managers(self, stored: Object, options: WriteOptions) -> FieldManagers:
        if not stored:
            return ()
        if entries := stored["metadata"].get(_FIELD):
            return managers_from_json(entries)
        return initial_managers(stored, options.manager, self._now())

    def _now(self) -> str:
        return format_rfc3339(int(self._clock()))


def _with_managers(obj: Object, managers: FieldManagers) -> Object:
    metadata = {field: value for field, value in obj["metadata"].items() if field != _FIELD}
    if entries := managers_to_json(managers):
        metadata[_FIELD] = entries
    return {**obj, "metadata": metadata}


def _conflict_error(conflicts: Sequence[ManagerConflict]) -> FieldConflict:
    """Returns the error in kube-apiserver's words."""
    causes = tuple(
        FieldError(conflict.field, f"conflict with {conflict.manager}", "FieldManagerConflict")
        for conflict in conflicts
    )
    if len(causes) == 1:
        return FieldConflict(f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}", causes)
    lines = []
    for manager in dict.fromkeys(conflict.manager for conflict in conflicts):
        fields = [conflict.field for conflict in conflicts if conflict.manager == manager]
        lines += [f"conflicts with {manager}:", *(f"- {field}" for field in fields)]
    return FieldConflict(f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines), causes)


def _with_last_applied(new: Object, applied: Object) -> Object:
    """Returns *new* with kubectl's annotation updated, for users who return to client-side apply."""
    annotations = new["metadata"].get("annotations", {})
    # Annotations of another type are rejected by validation.
    if not isinstance(annotations, dict) or LAST_APPLIED not in annotations:
        return new
    text = canonical_json(without(applied, [LAST_APPLIED_PATH])).decode() + "\n"
    metadata = {**new["metadata"], "annotations": {**annotations, LAST_APPLIED: text}}
    return {**new, "metadata": metadata}
