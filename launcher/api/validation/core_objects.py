"""Validation of the core kinds: Kubernetes' schema, and its rules for names and values."""

import base64
import binascii
import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any

from launcher.core.errors import BadRequest, FieldError, InvalidObject
from launcher.core.json_access import as_list, as_object
from launcher.core.manifest import Manifest
from launcher.core.parsing import field_path
from launcher.core.parsing.decoder import Decoded
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
    dns_label_error,
    entry_key_error,
    label_key_error,
    label_value_error,
    name_error,
    port_name_error,
)
from launcher.core.validation.schema import core_validator
from launcher.store.interface import Object, ResourceKind

_OBJECT = "must be of type object"


class CoreStrategy:
    """Validates apiVersion and kind; the content of the object is free."""

    def __init__(self, kind: ResourceKind) -> None:
        self._kind = kind

    def validate(self, obj: Decoded | Object, old: Object | None = None, *, strict: bool) -> Manifest:
        """See ``ResourceStrategy``."""
        if not isinstance(obj, Decoded):
            return self._validate(obj, old, strict=strict)
        duplicates = tuple(duplicate_field(field) for field in obj.duplicates)
        manifest = self._validate(self._with_type(obj.value), old, strict=strict)
        if strict and duplicates:
            raise InvalidObject(duplicates)
        return Manifest(manifest.object, (*(each.message for each in duplicates), *manifest.warnings))

    def _validate(self, obj: Object, old: Object | None, *, strict: bool) -> Manifest:
        self._check_type(obj)
        stored = self._stored(obj)
        if errors := tuple(self._errors(stored)):
            raise InvalidObject(truncate_errors(errors))
        unknown = self._unknown_fields(stored, old)
        if strict and (errors := strict_errors(unknown)):
            raise InvalidObject(errors)
        return Manifest(stored, tuple(each.message for each in unknown))

    def creation_errors(self, new: Object) -> Sequence[FieldError]:
        """See ``ResourceStrategy``."""
        del new
        return ()

    def update_errors(self, old: Object, new: Object) -> Sequence[FieldError]:
        """See ``ResourceStrategy``."""
        if old.get("immutable") is not True:
            return ()
        return [
            forbidden(field, "field is immutable when `immutable` is set")
            for field in ("data", "binaryData", "immutable")
            if old.get(field) != new.get(field)
        ]

    def status_errors(self, obj: Object) -> Sequence[FieldError]:
        """See ``ResourceStrategy``."""
        status = obj.get("status")
        return () if isinstance(status, dict | None) else (type_invalid("status", status, _OBJECT),)

    def _with_type(self, obj: Object) -> Object:
        """Returns the object with apiVersion and kind, which typed clients omit: the URL implies them."""
        implied = {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
        return {**obj, **{name: obj.get(name) or value for name, value in implied.items()}}

    def _check_type(self, obj: Object) -> None:
        version, kind = obj.get("apiVersion"), obj.get("kind")
        if version != self._kind.api_version:
            actual = "missing" if version is None else quote_value(version)
            raise BadRequest(f"apiVersion is {actual}; must be {quote_value(self._kind.api_version)}")
        if kind is None:
            raise BadRequest(f"kind is missing; must be {quote_value(self._kind.kind)}")
        if kind != self._kind.kind:
            raise InvalidObject((unsupported("kind", kind, [self._kind.kind]),))

    def _stored(self, obj: Object) -> Object:
        """Returns the object as it is stored."""
        return obj

    def _errors(self, obj: Object) -> Iterator[FieldError]:
        """Yields every rule of the kind that *obj* violates."""
        yield from (
            type_invalid(field, obj[field], _OBJECT)
            for field in ("spec", "status")
            if obj.get(field) is not None and not isinstance(obj[field], dict)
        )

    def _unknown_fields(self, obj: Object, old: Object | None) -> tuple[FieldError, ...]:
        """Returns the unknown fields of *obj* that *old* does not have."""
        del obj, old
        return ()


class SchemaStrategy(CoreStrategy):
    """Validates the types and values of Kubernetes' schema; null means absent."""

    def _stored(self, obj: Object) -> Object:
        if errors := core_validator(self._kind.kind).errors(obj):
            raise InvalidObject(truncate_errors(errors))
        present: Object = without_null_fields(obj)
        return present

    def _errors(self, obj: Object) -> Iterator[FieldError]:
        """Yields every rule of the kind that *obj*, which matches the schema, violates."""
        del obj
        return iter(())


class ConfigMapStrategy(SchemaStrategy):
    """Values are text or base64; keys are valid file names."""

    def _errors(self, obj: Object) -> Iterator[FieldError]:
        yield from _key_errors(obj, "data")
        yield from _key_errors(obj, "binaryData")
        yield from _base64_errors(obj, "binaryData")
        for key in obj.get("data", {}).keys() & obj.get("binaryData", {}).keys():
            yield invalid(_entry("binaryData", key), key, "duplicate of key present in data")


class SecretStrategy(SchemaStrategy):
    """Values are base64; ``stringData`` is merged into ``data``."""

    def _stored(self, obj: Object) -> Object:
        secret = {"type": "Opaque", **super()._stored(obj)}
        texts = secret.pop("stringData", {})
        if texts:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in texts.items()}
            secret["data"] = {**secret.get("data", {}), **encoded}
        return secret

    def _errors(self, obj: Object) -> Iterator[FieldError]:
        yield from _key_errors(obj, "data")
        yield from _base64_errors(obj, "data")


class ServiceStrategy(SchemaStrategy):
    """Validates names, ports, addresses and the selector."""

    def _errors(self, obj: Object) -> Iterator[FieldError]:
        if error := _label_error(as_object(obj.get("metadata")).get("name")):
            yield invalid("metadata.name", obj["metadata"]["name"], error)
        spec = obj.get("spec", {})
        for key, value in spec.get("selector", {}).items():
            if error := label_key_error(key) or label_value_error(value):
                yield invalid(field_path.format_path(("spec", "selector", key)), value, error)
        is_external, is_headless = spec.get("type") == "ExternalName", spec.get("clusterIP") == "None"
        if not spec.get("ports") and not is_external and not is_headless:
            yield required("spec.ports")
        if is_headless and spec.get("type", "ClusterIP") != "ClusterIP":
            yield invalid("spec.clusterIP", "None", f"may not be None for a Service of type {spec['type']}")
        yield from _port_errors(spec.get("ports", []))
        yield from _address_errors(spec)
        name = spec.get("externalName", "")
        if name and (error := name_error(name.removesuffix("."))):
            yield invalid("spec.externalName", name, error)
        elif not name and is_external:
            yield required("spec.externalName", "must be set for a Service of type ExternalName")

    def update_errors(self, old: Object, new: Object) -> Sequence[FieldError]:
        """See ``ResourceStrategy``. A cluster IP that is omitted is kept."""
        before, after = (as_object(each.get("spec")).get("clusterIP") for each in (old, new))
        if not before or not after or before == after or new["spec"].get("type") == "ExternalName":
            return ()
        return [invalid("spec.clusterIP", after, "may not change once set")]


class EventStrategy(SchemaStrategy):
    """Validates the timestamps."""

    def _errors(self, obj: Object) -> Iterator[FieldError]:
        for field in ("eventTime", "firstTimestamp", "lastTimestamp"):
            yield from _time_errors(field, obj.get(field))
        yield from _time_errors("series.lastObservedTime", obj.get("series", {}).get("lastObservedTime"))


class NamespaceStrategy(SchemaStrategy):
    """The name must be a DNS label."""

    def _errors(self, obj: Object) -> Iterator[FieldError]:
        if error := _label_error(as_object(obj.get("metadata")).get("name")):
            yield invalid("metadata.name", obj["metadata"]["name"], error)


def core_strategy(kind: ResourceKind) -> CoreStrategy:
    """Returns the strategy of a core kind other than pods."""
    return _STRATEGIES.get(kind.kind, CoreStrategy)(kind)


_STRATEGIES: dict[str, type[CoreStrategy]] = {
    "ConfigMap": ConfigMapStrategy,
    "Event": EventStrategy,
    "Namespace": NamespaceStrategy,
    "Secret": SecretStrategy,
    "Service": ServiceStrategy,
}


def without_null_fields(value: Any) -> Any:
    """Returns the value without null fields, at any depth."""
    if isinstance(value, dict):
        return {key: without_null_fields(inner) for key, inner in value.items() if inner is not None}
    return [without_null_fields(inner) for inner in value] if isinstance(value, list) else value


def _label_error(name: Any) -> str | None:
    # The store validates other types and generated names.
    return dns_label_error(name) if isinstance(name, str) and name else None


def _entry(field: str, key: str) -> str:
    return field_path.format_path((field, key))


def _key_errors(obj: Object, field: str) -> Iterator[FieldError]:
    for key in obj.get(field, {}):
        if error := entry_key_error(key):
            yield invalid(_entry(field, key), key, error)


def _base64_errors(obj: Object, field: str) -> Iterator[FieldError]:
    for key, value in obj.get(field, {}).items():
        if not _is_base64(value):
            yield invalid(_entry(field, key), "…", "must be base64 encoded")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _port_errors(ports: list[Object]) -> Iterator[FieldError]:
    names: set[str] = set()
    seen: set[tuple[int, str]] = set()
    for index, port in enumerate(ports):
        field = f"spec.ports[{index}]"
        name, target = port.get("name", ""), port.get("targetPort")
        if not name and len(ports) > 1:
            yield required(f"{field}.name", "must be set for a Service with several ports")
        elif name in names:
            yield duplicate(f"{field}.name", name, "port names must be unique")
        elif name and (error := dns_label_error(name)):
            yield invalid(f"{field}.name", name, error)
        names.add(name)
        number = (port["port"], port.get("protocol", "TCP"))
        if number in seen:
            yield duplicate(f"{field}.port", port["port"], "port and protocol must be unique")
        seen.add(number)
        if isinstance(target, str) and (error := port_name_error(target)):
            yield invalid(f"{field}.targetPort", target, f"{error}; write a port number without quotes")


def _address_errors(spec: Object) -> Iterator[FieldError]:
    if (address := spec.get("clusterIP", "")) not in ("", "None") and not _is_address(address):
        yield invalid("spec.clusterIP", address, 'must be an IP address, "None" or empty')
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


def _time_errors(field: str, text: str | None) -> Iterator[FieldError]:
    try:
        if text is not None:
            parse_rfc3339(text)
    except (ValueError, OverflowError):
        yield invalid(field, text, "must be a valid time")
