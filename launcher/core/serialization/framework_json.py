"""Framework objects as typed values."""

from collections.abc import Mapping
from typing import Any

from launcher.core.framework import Framework
from launcher.core.pods.observed_pod import is_deleted
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.serialization.status_json import status_from_json
from launcher.core.spec import FrameworkName, FrameworkSpec


def framework_from_json(obj: Mapping[str, Any], spec_errors: str = "") -> Framework:
    """Parses a Framework; its spec is empty if there are *spec_errors*. Raises ValueError if its status is invalid."""
    meta = obj["metadata"]
    return Framework(
        name=FrameworkName(meta["name"]),
        namespace=meta["namespace"],
        uid=meta["uid"],
        generation=meta["generation"],
        # An invalid spec may not even be parsable.
        spec=FrameworkSpec(roles=()) if spec_errors else spec_from_json(obj["spec"], meta.get("annotations")),
        status=status_from_json(obj.get("status") or {}),
        deleting=is_deleted(obj),
        spec_errors=spec_errors,
    )
