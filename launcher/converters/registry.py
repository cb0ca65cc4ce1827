"""Any object that can be moved in, as the Framework that it becomes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow import jaxjob, mpijob, pytorchjob, tfjob, xgboostjob
from launcher.converters.kubeflow.job_spec import JobFamily
from launcher.converters.kubeflow.tfjob import TFJOBS
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.names import API_VERSION, KIND
from launcher.core.serialization.frameworkcontroller import CLEAN, SECOND_API_VERSION, to_launcher_group
from launcher.core.validation.field_errors import unsupported

Json = dict[str, Any]

#: The kinds of Kubeflow's that can be moved in, each with its way.
FAMILIES: tuple[tuple[JobFamily, Callable[[Json], Conversion]], ...] = (
    (TFJOBS, tfjob.framework_of),
    (pytorchjob.PYTORCHJOBS, pytorchjob.framework_of),
    (mpijob.MPIJOBS, mpijob.framework_of),
    (xgboostjob.XGBOOSTJOBS, xgboostjob.framework_of),
    (jaxjob.JAXJOBS, jaxjob.framework_of),
)
#: What only a server writes into an object, and what it makes of it.
_SERVERS_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


def objects_in(value: Any, where: str = "") -> Iterator[tuple[str, Json]]:
    """
    The objects in a document: itself, or those of a list, as kubectl prints it; each with what its fields begin with.

    Raises InvalidObject.
    """
    match value:
        case {"kind": str() as kind, "items": [*items]} if kind.endswith("List"):
            for at, item in enumerate(items):
                yield from objects_in(item, f"{where}items[{at}].")
        case dict():
            yield where, value
        case _:
            raise InvalidObject("it has to be an object with apiVersion, kind, metadata and spec")


def framework_for(obj: Json) -> Conversion:
    """
    The Framework that *obj* becomes.

    Raises InvalidObject with everything that is wrong or has no counterpart. Of a Framework nothing is checked here:
    its rules do that.
    """
    version, kind = obj.get("apiVersion"), obj.get("kind")
    way = _WAYS.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None
    if way is None:
        raise InvalidObject((_unknown(version, kind),))
    return way(obj)


def _unknown(version: Any, kind: Any) -> FieldError:
    if versions := [known for known, name in _WAYS if name == kind]:
        return unsupported("apiVersion", version, versions)
    return unsupported("kind", kind, dict.fromkeys(name for _, name in _WAYS))


def _framework(obj: Json) -> Conversion:
    return Conversion(_as_written(obj))


def _second(obj: Json) -> Conversion:
    framework = to_launcher_group(_as_written(obj))
    match obj.get("spec"):
        case {"cleanPodPolicy": str()}:
            return Conversion(framework)
        case _:
            note = f"cleanPodPolicy: {CLEAN}, as FrameworkController has it; Running keeps ended pods and their logs"
            return Conversion(framework, (note,))


def _as_written(obj: Json) -> Json:
    """The object as its user would write it, whoever it was read from."""
    kept = {name: value for name, value in obj.items() if name != "status"}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        kept["metadata"] = {name: value for name, value in metadata.items() if name not in _SERVERS_OWN}
    return kept


_WAYS: Mapping[tuple[str, str], Callable[[Json], Conversion]] = {
    (API_VERSION, KIND): _framework,
    (SECOND_API_VERSION, KIND): _second,
    **{(version, family.kind): way for family, way in FAMILIES for version in family.versions},
}
