"""Validates volumes of a pod: names, sources and paths."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from launcher.core.errors import FieldError
from launcher.core.json_access import as_list, as_object, text
from launcher.core.validation.field_errors import duplicate, forbidden, invalid, required
from launcher.core.validation.field_references import POD_FIELDS, reference_errors
from launcher.core.validation.names import dns_label_error, entry_key_error, name_error
from launcher.core.validation.placeholders import Fill
from launcher.core.validation.resources import amount_errors
from launcher.core.validation.schema import framework_schema

Source = dict[str, Any]


def volume_errors(volumes: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    """Errors of the volumes at *field*; values of a wrong type are skipped."""
    names: set[str] = set()
    for index, volume in enumerate(as_list(volumes)):
        path, fields = f"{field}[{index}]", as_object(volume)
        yield from name_errors(fields.get("name"), f"{path}.name", fill, names, "volume")
        sources = [name for name in _sources() if fields.get(name) is not None]
        if len(sources) > 1:
            yield forbidden(
                f"{path}.{sources[1]}", f"may not specify more than one volume type; {sources[0]} is set"
            )
        for source in sources:
            if check := _CHECKS.get(source):
                yield from check(as_object(fields[source]), f"{path}.{source}", fill)


def name_errors(name: Any, field: str, fill: Fill, names: set[str], what: str) -> Iterator[FieldError]:
    """Errors of the name of a volume or container; *names* are the previous names, and the name is added to them."""
    if not isinstance(name, str):
        return
    whole = fill(name)
    if not whole:
        yield required(field)
    elif error := dns_label_error(whole):
        yield invalid(field, name, error)
    elif whole in names:
        yield duplicate(field, name, f"names of {what}s must be unique in a pod")
    names.add(whole)


def object_name_errors(name: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    """Errors of the required name of a referenced object."""
    if not text(name):
        if isinstance(name, str | None):
            yield required(field)
    elif error := name_error(fill(name)):
        yield invalid(field, name, error)


def relative_path_error(path: str) -> str | None:
    """The error of a relative path, if any."""
    if path.startswith("/"):
        return "must be a relative path"
    return "must not contain '..'" if ".." in path.split("/") else None


@cache
def _sources() -> tuple[str, ...]:
    """The types of volumes."""
    return tuple(name for name in framework_schema()["$defs"]["Volume"]["properties"] if name != "name")


def _host_path_errors(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    yield from _absolute_errors(source.get("path"), f"{field}.path", fill)


def _nfs_errors(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    if source.get("server") == "":
        yield required(f"{field}.server")
    yield from _absolute_errors(source.get("path"), f"{field}.path", fill)


def _empty_dir_errors(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    yield from amount_errors(source.get("sizeLimit"), f"{field}.sizeLimit", fill)


def _claim_errors(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    yield from object_name_errors(source.get("claimName"), f"{field}.claimName", fill)


def _secret_errors(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    yield from object_name_errors(source.get("secretName"), f"{field}.secretName", fill)
    yield from _entry_errors(source, field, fill)


def _named_errors(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    """Errors of a ConfigMap, or of a Secret in a projected volume."""
    yield from object_name_errors(source.get("name"), f"{field}.name", fill)
    yield from _entry_errors(source, field, fill)


def _downward_errors(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    for index, item in enumerate(as_list(source.get("items"))):
        path = f"{field}.items[{index}]"
        yield from _file_errors(as_object(item).get("path"), f"{path}.path", fill)
        yield from reference_errors(as_object(item), path, POD_FIELDS, fill)


def _token_errors(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    yield from _file_errors(source.get("path"), f"{field}.path", fill)


def _projected_errors(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    for index, projection in enumerate(as_list(source.get("sources"))):
        for name, inner in as_object(projection).items():
            if (check := _PROJECTED.get(name)) and inner is not None:
                yield from check(as_object(inner), f"{field}.sources[{index}].{name}", fill)


_Check = Callable[[Source, str, Fill], Iterator[FieldError]]
_PROJECTED: dict[str, _Check] = {
    "configMap": _named_errors,
    "secret": _named_errors,
    "downwardAPI": _downward_errors,
    "serviceAccountToken": _token_errors,
    "clusterTrustBundle": _token_errors,
}
_CHECKS: dict[str, _Check] = {
    "hostPath": _host_path_errors,
    "nfs": _nfs_errors,
    "emptyDir": _empty_dir_errors,
    "persistentVolumeClaim": _claim_errors,
    "configMap": _named_errors,
    "secret": _secret_errors,
    "downwardAPI": _downward_errors,
    "projected": _projected_errors,
}


def _absolute_errors(path: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    if not isinstance(path, str):
        return
    whole = fill(path)
    if not whole:
        yield required(field)
    elif not whole.startswith("/"):
        yield invalid(field, path, "must be an absolute path")
    elif ".." in whole.split("/"):
        yield invalid(field, path, "must not contain '..'")


def _entry_errors(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    for index, item in enumerate(as_list(source.get("items"))):
        key, path = as_object(item).get("key"), f"{field}.items[{index}]"
        if isinstance(key, str) and (error := entry_key_error(fill(key))):
            yield invalid(f"{path}.key", key, error)
        yield from _file_errors(as_object(item).get("path"), f"{path}.path", fill)


def _file_errors(path: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    """Errors of the path of a file in a volume."""
    if not isinstance(path, str):
        return
    whole = fill(path)
    if not whole.strip("/"):
        yield required(field)
    elif error := relative_path_error(whole):
        yield invalid(field, path, error)
    elif whole.startswith(".."):
        yield invalid(field, path, "must not start with '..'")
