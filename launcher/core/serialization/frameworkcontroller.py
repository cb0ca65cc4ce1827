"""
The name that FrameworkController has for Frameworks: another group, the same kind.

An object goes by its first name wherever it is kept, and by its second only towards those who use that.
"""

from typing import Any

from launcher.core.names import API_VERSION
from launcher.core.spec import CleanPodPolicy

Json = dict[str, Any]

GROUP, VERSION = "frameworkcontroller.microsoft.com", "v1"
SECOND_API_VERSION = f"{GROUP}/{VERSION}"
#: FrameworkController deletes the pods of an attempt that has ended, all of them.
CLEAN = CleanPodPolicy.ALL.value


def to_launcher_group(obj: Json) -> Json:
    """The same Framework under our own name, with what the other one takes for granted."""
    spec = obj.get("spec")
    if isinstance(spec, dict) and spec.get("cleanPodPolicy") is None:
        spec = {**spec, "cleanPodPolicy": CLEAN}
    return {**obj, "apiVersion": API_VERSION, **({} if spec is None else {"spec": spec})}
