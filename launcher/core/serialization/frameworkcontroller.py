"""
The API group of FrameworkController, an alias of the launcher's own for the same kind.

Objects are stored in the launcher's group; the alias is used only in requests and responses.
"""

from typing import Any

from launcher.core.names import API_VERSION
from launcher.core.spec import CleanPodPolicy

Json = dict[str, Any]

GROUP, VERSION = "frameworkcontroller.microsoft.com", "v1"
SECOND_API_VERSION = f"{GROUP}/{VERSION}"
#: FrameworkController deletes all pods of a completed attempt.
CLEAN = CleanPodPolicy.ALL.value


def to_launcher_group(obj: Json) -> Json:
    """The Framework in the launcher's group, with the default cleanPodPolicy of FrameworkController."""
    spec = obj.get("spec")
    if isinstance(spec, dict) and spec.get("cleanPodPolicy") is None:
        spec = {**spec, "cleanPodPolicy": CLEAN}
    return {**obj, "apiVersion": API_VERSION, **({} if spec is None else {"spec": spec})}
