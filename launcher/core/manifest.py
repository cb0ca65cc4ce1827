"""
Parses and validates Frameworks: the object to store with its warnings, or all errors.

Steps: syntax and limits (``parsing``), apiVersion and kind, schema and rules (``validation``), unknown fields
(``validation.unknown_fields``), defaults (``defaults``).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import orjson

from launcher.core.defaults import with_defaults
from launcher.core.errors import BadRequest, InvalidObject
from launcher.core.framework import Framework
from launcher.core.names import API_VERSION, KIND
from launcher.core.parsing.decoder import Decoded, Media, decode_utf8
from launcher.core.parsing.json_reader import read_json
from launcher.core.parsing.yaml_reader import read_yaml
from launcher.core.serialization.frameworkcontroller import SECOND_API_VERSION
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.spec import FrameworkName
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.core.validation.field_errors import (
    duplicate_field,
    quote_value,
    strict_errors,
    truncate_errors,
    unsupported,
)
from launcher.core.validation.framework import validation_errors, validation_warnings
from launcher.core.validation.unknown_fields import unknown_fields, without_unknown

#: Prefixes of the apiVersions of objects that can be converted to Frameworks.
_CONVERTIBLE = (SECOND_API_VERSION, "kubeflow.org/")
_CONVERT_HINT = "; convert it with: launcher convert FILE"
#: In place of the uid that the store assigns.
_UID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A valid Framework with its defaults, and warnings for its user."""

    object: dict[str, Any]
    warnings: tuple[str, ...]


def framework_manifest(
    decoded: Decoded,
    *,
    strict: bool = False,
    reported: Collection[str] = (),
    policy: AdmissionPolicy | None = None,
) -> Manifest:
    """
    Returns the valid Framework in a decoded value, without any status.

    Raises BadRequest, InvalidObject with every violated rule, also of the *policy*. Unknown and duplicate fields are
    warnings, or errors if *strict*. Messages that were *reported* before are neither.
    """
    manifest = _validate(decoded, strict, reported, policy)
    manifest.object.pop("status", None)
    return manifest


def copy_as_decoded(obj: dict[str, Any]) -> Decoded:
    """Returns a copy of *obj*, within the limits of the decoder. Raises BadRequest."""
    try:
        return read_json(orjson.dumps(obj).decode())
    except orjson.JSONEncodeError as error:
        raise BadRequest(f"must be plain JSON: {error}") from error


def parse_framework(data: bytes, *, media: Media, strict: bool = False) -> Manifest:
    """
    The Framework in *data*, without its status.

    Raises TooLarge, BadRequest when it cannot be parsed, InvalidObject with all validation errors. Unknown and
    duplicate fields are warnings, or errors when *strict*.
    """
    return framework_manifest(_read(decode_utf8(data), media), strict=strict)


def validate_framework(obj: dict[str, Any], *, strict: bool = False) -> Manifest:
    """
    As ``parse_framework``, for a parsed object; its status is kept.

    The result shares no data with *obj*.
    """
    copy = copy_as_decoded(obj).value
    status = copy.pop("status", None)
    manifest = _validate(Decoded(copy), strict)
    if status is not None:
        manifest.object["status"] = status
    return manifest


def framework_of(obj: dict[str, Any]) -> Framework:
    """The Framework as it would be stored, with placeholders for its uid and the suffix of generateName."""
    meta = obj["metadata"]
    name = FrameworkName(meta.get("name") or f"{meta['generateName']}xxxxx")
    spec = spec_from_json(obj["spec"], meta.get("annotations"))
    return Framework(name, meta.get("namespace", "default"), _UID, 1, spec)


def _read(text: str, media: Media) -> Decoded:
    return read_json(text) if media is Media.JSON else read_yaml(text)


def _validate(
    decoded: Decoded, strict: bool, reported: Collection[str] = (), policy: AdmissionPolicy | None = None
) -> Manifest:
    obj = _check_kind(decoded.value)
    unknown = unknown_fields(obj)
    findings = [
        finding
        for finding in (*map(duplicate_field, decoded.duplicates), *unknown)
        if finding.message not in reported
    ]
    errors = validation_errors(obj, policy)
    if strict:
        fields = {error.field for error in errors}
        errors += tuple(error for error in strict_errors(findings) if error.field not in fields)
    if errors:
        raise InvalidObject(truncate_errors(errors))
    known = without_unknown(obj) if unknown else obj
    warnings = [text for text in validation_warnings(obj) if text not in reported]
    return Manifest(with_defaults(known), (*(finding.message for finding in findings), *warnings))


def _check_kind(value: Any) -> dict[str, Any]:
    """The value, if it is a Framework by apiVersion and kind. Raises BadRequest, or InvalidObject for another kind."""
    if not isinstance(value, dict):
        raise BadRequest("must be a single object with apiVersion, kind, metadata and spec")
    version, kind = value.get("apiVersion"), value.get("kind")
    if version != API_VERSION:
        found_version = "missing" if version is None else quote_value(version)
        hint = _CONVERT_HINT if str(version).startswith(_CONVERTIBLE) else ""
        raise BadRequest(f"apiVersion is {found_version}; must be {quote_value(API_VERSION)}{hint}")
    if kind is None:
        raise BadRequest(f"kind is missing; must be {quote_value(KIND)}")
    if kind != KIND:
        raise InvalidObject((unsupported("kind", kind, [KIND]),))
    return value
