"""The rules of the core kinds: their schema in Kubernetes, and what Kubernetes requires of their names and values."""

import base64
import binascii
import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any

from launcher.api.http.request_body import object_in
from launcher.core.errors import BadRequest, FieldError, InvalidObject
from launcher.core.manifest import Manifest
from launcher.core.parsing import field_path
from launcher.core.parsing.decoder import Media
from launcher.core.timestamps import parse_rfc3339
from launcher.core.validation.field_errors import (
    duplicate,
    duplicate_field,
    forbidden,
    invalid,
    quote_value,
    required,
    strict_errors,
    truncate_errors,
    type_invalid,
    unsupported,
)
from launcher.core.validation.names import (
    dns_label_fault,
    entry_key_fault,
    label_key_fault,
    label_value_fault,
    name_fault,
    port_name_fault,
)
from launcher.core.validation.pod_template import as_list, as_object
from launcher.core.validation.schema import core_validator
from launcher.store.interface import Object, ResourceKind

_OBJECT = "must be of type object"


class CoreRules:
    """An envelope of the right kind around an object of any content."""

    def __init__(self, kind: ResourceKind) -> None:
        self._kind = kind

    def read(self, data: bytes, media: Media, *, strict: bool) -> Manifest:
        """The object in a body. Raises BadRequest, TooLarge, InvalidObject."""
        decoded = object_in(data, media)
        twice = tuple(duplicate_field(field) for field in decoded.duplicates)
        manifest = self.check(self._enveloped(decoded.value), None, strict=strict)
        if strict and twice:
            raise InvalidObject(twice)
        return Manifest(manifest.object, (*(each.message for each in twice), *manifest.warnings))

    def check(self, obj: Object, old: Object | None, *, strict: bool) -> Manifest:
        """What a patch has made of *old*, or has made anew. Raises BadRequest, InvalidObject."""
        self._check_envelope(obj)
        shaped = self._shaped(obj)
        if problems := tuple(self._problems(shaped)):
            raise InvalidObject(truncate_errors(problems))
        findings = self._findings(shaped, old)
        if strict and (errors := strict_errors(findings)):
            raise InvalidObject(errors)
        return Manifest(shaped, tuple(finding.message for finding in findings))

    def creation_problems(self, new: Object) -> Sequence[FieldError]:
        """What keeps *new*, which has been read or checked, from being created."""
        del new
        return ()

    def change_problems(self, old: Object, new: Object) -> Sequence[FieldError]:
        """What may not be changed from *old* to *new*."""
        if old.get("immutable") is not True:
            return ()
        kept = ("data", "binaryData", "immutable")
        return [
            forbidden(field, "it is immutable; delete it and make a new one")
            for field in kept
            if old.get(field) != new.get(field)
        ]

    def status_problems(self, obj: Object) -> Sequence[FieldError]:
        """What is wrong with the status of *obj*."""
        status = obj.get("status")
        return () if isinstance(status, dict | None) else (type_invalid("status", status, _OBJECT),)

    def _enveloped(self, obj: Object) -> Object:
        """The object with its apiVersion and kind, which typed clients leave out: the address says as much."""
        own = {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
        return {**obj, **{name: obj.get(name) or value for name, value in own.items()}}

    def _check_envelope(self, obj: Object) -> None:
        version, kind = obj.get("apiVersion"), obj.get("kind")
        if version != self._kind.api_version:
            given = "missing" if version is None else quote_value(version)
            raise BadRequest(f"apiVersion is {given}, and it has to be {quote_value(self._kind.api_version)}")
        if kind is None:
            raise BadRequest(f"kind is missing, and it has to be {quote_value(self._kind.kind)}")
        if kind != self._kind.kind:
            raise InvalidObject((unsupported("kind", kind, [self._kind.kind]),))

    def _shaped(self, obj: Object) -> Object:
        """The object as it is stored."""
        return obj

    def _problems(self, obj: Object) -> Iterator[FieldError]:
        """Every rule of the kind that *obj* breaks."""
        yield from (
            type_invalid(field, obj[field], _OBJECT)
            for field in ("spec", "status")
            if obj.get(field) is not None and not isinstance(obj[field], dict)
        )

    def _findings(self, obj: Object, old: Object | None) -> tuple[FieldError, ...]:
        """Fields that no object of the kind has, and that *old* had not either."""
        del obj, old
        return ()


class SchemaRules(CoreRules):
    """An object whose fields have the types and values that its schema in Kubernetes allows; null means absent."""

    def _shaped(self, obj: Object) -> Object:
        if problems := core_validator(self._kind.kind).problems(obj):
            raise InvalidObject(truncate_errors(problems))
        present: Object = without_nulls(obj)
        return present

    def _problems(self, obj: Object) -> Iterator[FieldError]:
        """Every rule of the kind that *obj*, which has the structure of its schema, breaks."""
        del obj
        return iter(())


class ConfigMapRules(SchemaRules):
    """Entries are text, or base64, under keys that can be file names."""

    def _problems(self, obj: Object) -> Iterator[FieldError]:
        yield from _key_problems(obj, "data")
        yield from _key_problems(obj, "binaryData")
        yield from _base64_problems(obj, "binaryData")
        for key in obj.get("data", {}).keys() & obj.get("binaryData", {}).keys():
            yield invalid(_entry("binaryData", key), key, "there is an entry of that name in data already")


class SecretRules(SchemaRules):
    """Entries are base64; those written as text under ``stringData`` become so."""

    def _shaped(self, obj: Object) -> Object:
        plain = {"type": "Opaque", **super()._shaped(obj)}
        words = plain.pop("stringData", {})
        if words:
            coded = {key: base64.b64encode(value.encode()).decode() for key, value in words.items()}
            plain["data"] = {**plain.get("data", {}), **coded}
        return plain

    def _problems(self, obj: Object) -> Iterator[FieldError]:
        yield from _key_problems(obj, "data")
        yield from _base64_problems(obj, "data")


class ServiceRules(SchemaRules):
    """Ports, names, addresses and a selector that are written as Kubernetes requires."""

    def _problems(self, obj: Object) -> Iterator[FieldError]:
        if fault := _label_fault(as_object(obj.get("metadata")).get("name")):
            yield invalid("metadata.name", obj["metadata"]["name"], fault)
        spec = obj.get("spec", {})
        for key, value in spec.get("selector", {}).items():
            if fault := label_key_fault(key) or label_value_fault(value):
                yield invalid(field_path.written(("spec", "selector", key)), value, fault)
        yield from _port_problems(spec.get("ports", []))
        yield from _address_problems(spec)
        name = spec.get("externalName", "")
        if name and (fault := name_fault(name.removesuffix("."))):
            yield invalid("spec.externalName", name, fault)
        elif not name and spec.get("type") == "ExternalName":
            yield required("spec.externalName", "a Service of type ExternalName is an alias for this name")


class EventRules(SchemaRules):
    """Times that exist."""

    def _problems(self, obj: Object) -> Iterator[FieldError]:
        for field in ("eventTime", "firstTimestamp", "lastTimestamp"):
            yield from _time_problems(field, obj.get(field))
        yield from _time_problems("series.lastObservedTime", obj.get("series", {}).get("lastObservedTime"))


class NamespaceRules(SchemaRules):
    """A name that can be part of a host name."""

    def _problems(self, obj: Object) -> Iterator[FieldError]:
        if fault := _label_fault(as_object(obj.get("metadata")).get("name")):
            yield invalid("metadata.name", obj["metadata"]["name"], fault)


def rules_of(kind: ResourceKind) -> CoreRules:
    """The rules of a core kind; pods have their own."""
    return _RULES.get(kind.kind, CoreRules)(kind)


_RULES: dict[str, type[CoreRules]] = {
    "ConfigMap": ConfigMapRules,
    "Event": EventRules,
    "Namespace": NamespaceRules,
    "Secret": SecretRules,
    "Service": ServiceRules,
}


def without_nulls(value: Any) -> Any:
    """The value without the fields that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _label_fault(name: Any) -> str | None:
    # A name that is no text, or that is still to be generated, is validated by the store.
    return dns_label_fault(name) if isinstance(name, str) and name else None


def _entry(field: str, key: str) -> str:
    return field_path.written((field, key))


def _key_problems(obj: Object, field: str) -> Iterator[FieldError]:
    for key in obj.get(field, {}):
        if fault := entry_key_fault(key):
            yield invalid(_entry(field, key), key, fault)


def _base64_problems(obj: Object, field: str) -> Iterator[FieldError]:
    for key, value in obj.get(field, {}).items():
        if not _is_base64(value):
            yield invalid(_entry(field, key), "…", "must be base64")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _port_problems(ports: list[Object]) -> Iterator[FieldError]:
    names: set[str] = set()
    seen: set[tuple[int, str]] = set()
    for index, port in enumerate(ports):
        field = f"spec.ports[{index}]"
        name, target = port.get("name", ""), port.get("targetPort")
        if not name and len(ports) > 1:
            yield required(f"{field}.name", "each port of a Service with several ports has a name")
        elif name in names:
            yield duplicate(f"{field}.name", name, "each port of a Service needs a name of its own")
        elif name and (fault := dns_label_fault(name)):
            yield invalid(f"{field}.name", name, fault)
        names.add(name)
        number = (port["port"], port.get("protocol", "TCP"))
        if number in seen:
            yield duplicate(f"{field}.port", port["port"], "two ports have this number and protocol")
        seen.add(number)
        if isinstance(target, str) and (fault := port_name_fault(target)):
            yield invalid(f"{field}.targetPort", target, f"{fault}; a port number is written without quotes")


def _address_problems(spec: Object) -> Iterator[FieldError]:
    if (address := spec.get("clusterIP", "")) not in ("", "None") and not _is_address(address):
        yield invalid("spec.clusterIP", address, 'must be an IP address, "None" or left out')
    for index, address in enumerate(as_list(spec.get("clusterIPs"))):
        if address != "None" and not _is_address(address):
            yield invalid(f"spec.clusterIPs[{index}]", address, 'must be an IP address or "None"')
    for index, address in enumerate(as_list(spec.get("externalIPs"))):
        if not _is_address(address):
            yield invalid(f"spec.externalIPs[{index}]", address, "must be an IP address")
    for index, family in enumerate(as_list(spec.get("ipFamilies"))):
        if family not in ("IPv4", "IPv6"):
            yield unsupported(f"spec.ipFamilies[{index}]", family, ["IPv4", "IPv6"])


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _time_problems(field: str, text: str | None) -> Iterator[FieldError]:
    try:
        if text is not None:
            parse_rfc3339(text)
    except (ValueError, OverflowError):
        yield invalid(field, text, "there is no such day")
