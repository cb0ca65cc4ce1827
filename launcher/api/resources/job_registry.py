"""The registry of a job kind."""

from launcher.api.http.request_options import WriteOptions
from launcher.api.resources.registry import Registry
from launcher.core.json_access import as_object
from launcher.job_kinds.job_kind import WRITTEN_AS_ANNOTATION
from launcher.store.interface import Object


class JobRegistry(Registry):
    """Stores jobs of all versions of their kind in one."""

    def prepare_update(
        self,
        stored: Object,
        new: Object,
        options: WriteOptions,  # noqa: ARG002 - the same for all writes
        applied: Object | None,  # noqa: ARG002 - as above
    ) -> Object:
        """Returns *new*; a job that was created in the stored version is not marked by a change in an older one."""
        if not stored or WRITTEN_AS_ANNOTATION in as_object(stored["metadata"].get("annotations")):
            return new
        annotations = as_object(new["metadata"].get("annotations"))
        if WRITTEN_AS_ANNOTATION not in annotations:
            return new
        remaining = {name: value for name, value in annotations.items() if name != WRITTEN_AS_ANNOTATION}
        metadata = {name: value for name, value in new["metadata"].items() if name != "annotations"}
        return {**new, "metadata": metadata | ({"annotations": remaining} if remaining else {})}
