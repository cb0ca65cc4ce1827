"""What is asked of the objects that pods need: light rules, so that nothing is stored which cannot be used."""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.api.bodies import object_in
from launcher.core.checking.podrules import part
from launcher.core.checking.problems import (
    duplicate_field,
    forbidden,
    invalid,
    shown,
    unsupported,
    wrong_kind,
)
from launcher.core.errors import BadRequest, InvalidObject, Problem
from launcher.core.manifest import Manifest
from launcher.core.reading.decode import Media
from launcher.store.port import Kind, Object


class CoreRules:
    """An envelope of the right kind, and nothing else."""

    def __init__(self, kind: Kind) -> None:
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
            raise InvalidObject(problems)
        findings = self._findings(shaped, old)
        if strict and findings:
            raise InvalidObject(findings)
        return Manifest(shaped, tuple(finding.message for finding in findings))

    def change_problems(self, old: Object, new: Object) -> Sequence[Problem]:
        """What may not be changed from *old* to *new*."""
        if old.get("immutable") is not True:
            return ()
        kept = ("data", "binaryData", "immutable")
        return [
            forbidden(field, "it is immutable; delete it and make a new one")
            for field in kept
            if old.get(field) != new.get(field)
        ]

    def _enveloped(self, obj: Object) -> Object:
        """The object with its apiVersion and kind, which typed clients leave out: the address says as much."""
        own = {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
        return {**obj, **{name: obj.get(name) or value for name, value in own.items()}}

    def _check_envelope(self, obj: Object) -> None:
        version, kind = obj.get("apiVersion"), obj.get("kind")
        if version != self._kind.api_version:
            given = "missing" if version is None else shown(version)
            raise BadRequest(f"apiVersion is {given}, and it has to be {shown(self._kind.api_version)}")
        if kind is None:
            raise BadRequest(f"kind is missing, and it has to be {shown(self._kind.kind)}")
        if kind != self._kind.kind:
            raise InvalidObject((unsupported("kind", kind, [self._kind.kind]),))

    def _shaped(self, obj: Object) -> Object:
        """The object as it is stored."""
        return obj

    def _problems(self, obj: Object) -> Iterator[Problem]:
        """Every rule of the kind that *obj* breaks."""
        yield from (
            wrong_kind(field, obj[field], "must be of type object")
            for field in ("spec", "status")
            if obj.get(field) is not None and not isinstance(obj[field], dict)
        )

    def _findings(self, obj: Object, old: Object | None) -> tuple[Problem, ...]:
        """Fields that no object of the kind has, and that *old* had not either."""
        del obj, old
        return ()


class ConfigMapRules(CoreRules):
    """Entries are text."""

    def _problems(self, obj: Object) -> Iterator[Problem]:
        yield from _text_problems(obj, "data")
        yield from _base64_problems(obj, "binaryData")
        for key in part(obj.get("data")).keys() & part(obj.get("binaryData")).keys():
            yield invalid(f"binaryData.{key}", key, "there is an entry of that name in data already")


class SecretRules(CoreRules):
    """Entries are base64; those written as text under ``stringData`` become so."""

    def _shaped(self, obj: Object) -> Object:
        plain = {"type": "Opaque", **{name: value for name, value in obj.items() if value is not None}}
        words = plain.pop("stringData", {})
        if problems := tuple(_text_problems({"stringData": words}, "stringData")):
            raise InvalidObject(problems)
        if words:
            coded = {key: base64.b64encode(value.encode()).decode() for key, value in words.items()}
            plain["data"] = {**part(plain.get("data")), **coded}
        return plain

    def _problems(self, obj: Object) -> Iterator[Problem]:
        yield from _base64_problems(obj, "data")


def _entries(obj: Object, field: str) -> Iterator[tuple[str, Any] | Problem]:
    entries = obj.get(field)
    if isinstance(entries, Mapping):
        yield from entries.items()
    elif entries is not None:
        yield wrong_kind(field, entries, "must be of type object")


def _text_problems(obj: Object, field: str) -> Iterator[Problem]:
    for entry in _entries(obj, field):
        if isinstance(entry, Problem):
            yield entry
        elif not isinstance(entry[1], str):
            must = "must be of type string: put it in quotes"
            yield wrong_kind(f"{field}.{entry[0]}", entry[1], must)


def _base64_problems(obj: Object, field: str) -> Iterator[Problem]:
    for entry in _entries(obj, field):
        if isinstance(entry, Problem):
            yield entry
        elif not isinstance(entry[1], str) or not _is_base64(entry[1]):
            yield invalid(f"{field}.{entry[0]}", "…", "must be base64")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
