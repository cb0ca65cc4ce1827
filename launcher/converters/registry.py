"""Converts any supported object to a Framework."""

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

#: The supported job kinds of Kubeflow with their converters.
FAMILIES: tuple[tuple[JobFamily, Callable[[Json], Conversion]], ...] = (
    (TFJOBS, tfjob.convert),
    (pytorchjob.PYTORCHJOBS, pytorchjob.convert),
    (mpijob.MPIJOBS, mpijob.convert),
    (xgboostjob.XGBOOSTJOBS, xgboostjob.convert),
    (jaxjob.JAXJOBS, jaxjob.convert),
)
#: Metadata that an API server sets.
_SERVER_METADATA = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


def objects_in_document(value: Any, prefix: str = "") -> Iterator[tuple[str, Json]]:
    """
    The objects in a document, which may be a list as printed by kubectl, each with the prefix of its fields.

    Raises InvalidObject.
    """
    match value:
        case {"kind": str() as kind, "items": [*items]} if kind.endswith("List"):
            for index, item in enumerate(items):
                yield from objects_in_document(item, f"{prefix}items[{index}].")
        case dict():
            yield prefix, value
        case _:
            raise InvalidObject("must be an object with apiVersion, kind, metadata and spec")


def convert_to_framework(obj: Json) -> Conversion:
    """
    Converts *obj* to a Framework.

    Raises InvalidObject with all errors and unsupported fields. Frameworks are not validated here.
    """
    version, kind = obj.get("apiVersion"), obj.get("kind")
    convert = _CONVERTERS.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None
    if convert is None:
        raise InvalidObject((_unknown_kind_error(version, kind),))
    return convert(obj)


def _unknown_kind_error(version: Any, kind: Any) -> FieldError:
    if versions := [version_of_kind for version_of_kind, name in _CONVERTERS if name == kind]:
        return unsupported("apiVersion", version, versions)
    return unsupported("kind", kind, dict.fromkeys(name for _, name in _CONVERTERS))


def _framework(obj: Json) -> Conversion:
    return Conversion(_without_server_fields(obj))


def _frameworkcontroller(obj: Json) -> Conversion:
    framework = to_launcher_group(_without_server_fields(obj))
    match obj.get("spec"):
        case {"cleanPodPolicy": str()}:
            return Conversion(framework)
        case _:
            note = f"cleanPodPolicy: {CLEAN}, as in FrameworkController; Running keeps terminated pods and their logs"
            return Conversion(framework, (note,))


def _without_server_fields(obj: Json) -> Json:
    """The object without status and metadata of an API server."""
    result = {name: value for name, value in obj.items() if name != "status"}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        result["metadata"] = {name: value for name, value in metadata.items() if name not in _SERVER_METADATA}
    return result


_CONVERTERS: Mapping[tuple[str, str], Callable[[Json], Conversion]] = {
    (API_VERSION, KIND): _framework,
    (SECOND_API_VERSION, KIND): _frameworkcontroller,
    **{(version, family.kind): convert for family, convert in FAMILIES for version in family.versions},
}
