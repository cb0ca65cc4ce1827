"""
A Framework as it was sent, read and checked: the object to store and what to warn about, or all that is wrong.

Bytes go through syntax and limits (``decode``, ``json_text``, ``yaml_text``), the envelope, shape and sense
(``schema``, ``validate``), unknown fields (``unknown``) and defaults (``defaults``). ``places`` finds the lines.
"""

from dataclasses import dataclass
from typing import Any

import orjson

from launcher.core.defaults import defaulted
from launcher.core.errors import BadRequest, InvalidObject
from launcher.core.names import API_VERSION, KIND
from launcher.core.parsing.decoder import Decoded, Media, decode_utf8
from launcher.core.parsing.json_reader import read_json
from launcher.core.serialization.frameworkcontroller import SECOND_API_VERSION
from launcher.core.validation.field_errors import (
    duplicate_field,
    quote_value,
    strict_errors,
    truncate_errors,
    unsupported,
)
from launcher.core.validation.framework import validation_errors, validation_warnings
from launcher.core.validation.unknown_fields import unknown_fields, without_unknown

#: How the versions of others begin that can become Frameworks, and the way out for those who bring such an object.
_CONVERTED = (SECOND_API_VERSION, "kubeflow.org/")
_CONVERT = "; launcher convert prints the Framework that it becomes"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A valid Framework with its defaults, and what its user should know about it."""

    object: dict[str, Any]
    warnings: tuple[str, ...]


def parse_framework(data: bytes, *, media: Media, strict: bool = False) -> Manifest:
    """
    The Framework that *data* spells, without any status.

    Raises TooLarge, BadRequest when it cannot be read, InvalidObject with every broken rule. Unknown and duplicate
    fields are warnings, or broken rules when *strict*.
    """
    decoded = _read(decode_utf8(data), media)
    manifest = _checked(decoded, strict)
    manifest.object.pop("status", None)
    return manifest


def validate_framework(obj: dict[str, Any], *, strict: bool = False) -> Manifest:
    """
    The same for an object that has been read already; its status is kept.

    What comes back shares nothing with *obj*, so that neither is changed by the other's holder.
    """
    try:
        copy = read_json(orjson.dumps(obj).decode()).value
    except orjson.JSONEncodeError as error:
        raise BadRequest(f"it is no plain JSON: {error}") from error
    status = copy.pop("status", None)
    manifest = _checked(Decoded(copy), strict)
    if status is not None:
        manifest.object["status"] = status
    return manifest


def _read(text: str, media: Media) -> Decoded:
    if media is Media.JSON:
        return read_json(text)
    # Slow to import, and whoever speaks JSON alone does without.
    from launcher.core.parsing.yaml_reader import read_yaml

    return read_yaml(text)


def _checked(decoded: Decoded, strict: bool) -> Manifest:
    obj = _enveloped(decoded.value)
    findings = (*map(duplicate_field, decoded.duplicates), *(unknown := unknown_fields(obj)))
    problems = (*validation_errors(obj), *(strict_errors(findings) if strict else ()))
    if problems:
        raise InvalidObject(truncate_errors(problems))
    known = without_unknown(obj) if unknown else obj
    return Manifest(defaulted(known), (*(finding.message for finding in findings), *validation_warnings(obj)))


def _enveloped(value: Any) -> dict[str, Any]:
    """The value, if it says that it is a Framework. Raises BadRequest, InvalidObject when it is another kind."""
    if not isinstance(value, dict):
        raise BadRequest("it has to be one object with apiVersion, kind, metadata and spec")
    version, kind = value.get("apiVersion"), value.get("kind")
    if version != API_VERSION:
        given = "missing" if version is None else quote_value(version)
        way_out = _CONVERT if str(version).startswith(_CONVERTED) else ""
        raise BadRequest(f"apiVersion is {given}, and it has to be {quote_value(API_VERSION)}{way_out}")
    if kind is None:
        raise BadRequest(f"kind is missing, and it has to be {quote_value(KIND)}")
    if kind != KIND:
        raise InvalidObject((unsupported("kind", kind, [KIND]),))
    return value
