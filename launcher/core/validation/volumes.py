"""Volumes of a pod: their names, and what they are made of; paths stay below the place where they belong."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from launcher.core.errors import FieldError
from launcher.core.validation.field_errors import duplicate, forbidden, invalid, required
from launcher.core.validation.field_references import POD_FIELDS, reference_problems
from launcher.core.validation.names import dns_label_fault, entry_key_fault, name_fault
from launcher.core.validation.placeholders import Fill
from launcher.core.validation.pod_template import as_list, as_object, text
from launcher.core.validation.resources import amount_problems
from launcher.core.validation.schema import framework_schema

Source = dict[str, Any]


def volume_problems(volumes: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    """Each rule that the volumes at *field* break; what has not its proper shape is passed over."""
    names: set[str] = set()
    for index, volume in enumerate(as_list(volumes)):
        where, given = f"{field}[{index}]", as_object(volume)
        yield from name_problems(given.get("name"), f"{where}.name", fill, names, "volume")
        sources = [name for name in _sources() if given.get(name) is not None]
        if len(sources) > 1:
            yield forbidden(f"{where}.{sources[1]}", f"a volume is of one type, and this one is {sources[0]}")
        for source in sources:
            if check := _CHECKS.get(source):
                yield from check(as_object(given[source]), f"{where}.{source}", fill)


def name_problems(name: Any, field: str, fill: Fill, names: set[str], what: str) -> Iterator[FieldError]:
    """Each rule that the name of a volume or container breaks; *names* are those seen before, and get it, too."""
    if not isinstance(name, str):
        return
    whole = fill(name)
    if not whole:
        yield required(field)
    elif fault := dns_label_fault(whole):
        yield invalid(field, name, fault)
    elif whole in names:
        yield duplicate(field, name, f"each {what} of a pod needs a name of its own")
    names.add(whole)


def object_name_problems(name: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    """Each rule that the required name of another object breaks."""
    if not text(name):
        if isinstance(name, str | None):
            yield required(field)
    elif fault := name_fault(fill(name)):
        yield invalid(field, name, fault)


def relative_path_fault(path: str) -> str | None:
    """What is wrong with a path below some directory."""
    if path.startswith("/"):
        return "must be a relative path"
    return "must not contain '..'" if ".." in path.split("/") else None


@cache
def _sources() -> tuple[str, ...]:
    """The types of volumes."""
    return tuple(name for name in framework_schema()["$defs"]["Volume"]["properties"] if name != "name")


def _host_path_problems(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    yield from _absolute_problems(source.get("path"), f"{field}.path", fill)


def _nfs_problems(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    if source.get("server") == "":
        yield required(f"{field}.server")
    yield from _absolute_problems(source.get("path"), f"{field}.path", fill)


def _empty_dir_problems(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    yield from amount_problems(source.get("sizeLimit"), f"{field}.sizeLimit", fill)


def _claim_problems(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    yield from object_name_problems(source.get("claimName"), f"{field}.claimName", fill)


def _secret_problems(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    yield from object_name_problems(source.get("secretName"), f"{field}.secretName", fill)
    yield from _entry_problems(source, field, fill)


def _named_problems(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    """Of a ConfigMap, and of a Secret among the sources of a projected volume."""
    yield from object_name_problems(source.get("name"), f"{field}.name", fill)
    yield from _entry_problems(source, field, fill)


def _downward_problems(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    for index, item in enumerate(as_list(source.get("items"))):
        where = f"{field}.items[{index}]"
        yield from _file_problems(as_object(item).get("path"), f"{where}.path", fill)
        yield from reference_problems(as_object(item), where, POD_FIELDS, fill)


def _token_problems(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    yield from _file_problems(source.get("path"), f"{field}.path", fill)


def _projected_problems(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    for index, each in enumerate(as_list(source.get("sources"))):
        for name, inner in as_object(each).items():
            if (check := _PROJECTED.get(name)) and inner is not None:
                yield from check(as_object(inner), f"{field}.sources[{index}].{name}", fill)


_Check = Callable[[Source, str, Fill], Iterator[FieldError]]
_PROJECTED: dict[str, _Check] = {
    "configMap": _named_problems,
    "secret": _named_problems,
    "downwardAPI": _downward_problems,
    "serviceAccountToken": _token_problems,
    "clusterTrustBundle": _token_problems,
}
_CHECKS: dict[str, _Check] = {
    "hostPath": _host_path_problems,
    "nfs": _nfs_problems,
    "emptyDir": _empty_dir_problems,
    "persistentVolumeClaim": _claim_problems,
    "configMap": _named_problems,
    "secret": _secret_problems,
    "downwardAPI": _downward_problems,
    "projected": _projected_problems,
}


def _absolute_problems(path: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    if not isinstance(path, str):
        return
    whole = fill(path)
    if not whole:
        yield required(field)
    elif not whole.startswith("/"):
        yield invalid(field, path, "must be an absolute path")
    elif ".." in whole.split("/"):
        yield invalid(field, path, "must not contain '..'")


def _entry_problems(source: Source, field: str, fill: Fill) -> Iterator[FieldError]:
    for index, item in enumerate(as_list(source.get("items"))):
        key, where = as_object(item).get("key"), f"{field}.items[{index}]"
        if isinstance(key, str) and (fault := entry_key_fault(fill(key))):
            yield invalid(f"{where}.key", key, fault)
        yield from _file_problems(as_object(item).get("path"), f"{where}.path", fill)


def _file_problems(path: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    """Of the path of a file in a volume."""
    if not isinstance(path, str):
        return
    whole = fill(path)
    if not whole.strip("/"):
        yield required(field)
    elif fault := relative_path_fault(whole):
        yield invalid(field, path, fault)
    elif whole.startswith(".."):
        yield invalid(field, path, "must not start with '..'")
