"""Files of Frameworks and jobs: parsed and validated, each error with its line and column."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.cli.command import load_module
from launcher.cli.errors import UsageError
from launcher.core.errors import FieldError, InvalidObject, RequestError
from launcher.core.manifest import Manifest, parse_framework, validate_framework
from launcher.core.names import KIND
from launcher.core.parsing.decoder import Media, decode_utf8
from launcher.core.parsing.json_reader import read_json
from launcher.core.parsing.source_positions import with_positions
from launcher.core.parsing.yaml_documents import yaml_documents
from launcher.core.parsing.yaml_reader import read_yaml
from launcher.core.validation.field_errors import unsupported
from launcher.core.validation.framework import creation_errors
from launcher.job_kinds.job_kind import JOB_KINDS, convert_job, job_kind_of
from launcher.store.interface import ResourceKind


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file, or one document of it: its name in messages, its bytes and their format."""

    name: str
    data: bytes
    media: Media

    def located(self, problems: Iterable[FieldError]) -> list[str]:
        """``FILE:7:3: spec.taskRoles[0].taskNumber: …``, one line for each of the problems."""
        found = with_positions(problems, self.data, self.media)
        return [f"{self.name}:{each.line}:{each.column}: {each}" for each in found]

    def value(self) -> Any:
        """The content as plain JSON. Raises RequestError."""
        return (read_json if self.media is Media.JSON else read_yaml)(decode_utf8(self.data)).value

    def documents(self) -> "list[ManifestFile]":
        """The documents of the file, with unchanged line numbers; none if there are only comments."""
        if self.media is Media.JSON:
            return [self]
        return [ManifestFile(self.name, data, self.media) for data in yaml_documents(self.data)]

    @property
    def namespace(self) -> str | None:
        """``metadata.namespace``; None where it is missing or the file cannot be parsed."""
        match self._value_or_none():
            case {"metadata": {"namespace": str() as namespace}}:
                return namespace
            case _:
                return None

    @property
    def job_kind(self) -> ResourceKind | None:
        """The kind and version of the job; None if the object is no job. Raises UsageError for another version."""
        match self._value_or_none():
            case {"apiVersion": str() as version, "kind": str() as name} if name != KIND:
                kinds = {
                    kind.api_version: kind for job in JOB_KINDS for kind in job.kinds if kind.kind == name
                }
                if kinds and version not in kinds:
                    raise UsageError(*self.located([unsupported("apiVersion", version, kinds)]))
                return kinds.get(version)
            case _:
                return None

    def _value_or_none(self) -> Any:
        try:
            return self.value()
        except RequestError:
            return None


def load(path: Path) -> ManifestFile:
    """The content of the file; ``-`` is standard input. Raises UsageError."""
    name = "standard input" if path == Path("-") else str(path)
    try:
        data = sys.stdin.buffer.read() if path == Path("-") else path.read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    return ManifestFile(name, data, Media.JSON if path.suffix == ".json" else Media.YAML)


def documents_in(path: Path) -> list[ManifestFile]:
    """The documents of the file, at least one. Raises UsageError."""
    file = load(path)
    documents = file.documents()
    if not documents:
        raise UsageError(f"{file.name}: the file is empty; it must contain a Framework or a job")
    return documents


def check(document: ManifestFile, *, strict: bool = False) -> Manifest:
    """The Framework or job, validated for creation. Raises UsageError."""
    try:
        if (kind := document.job_kind) is not None:
            # The rules of jobs are those of the API, whose modules import aiohttp.
            manifest: Manifest = load_module("job_manifest").parse_job(
                document.data, document.media, kind, strict
            )
            return manifest
        manifest = parse_framework(document.data, media=document.media, strict=strict)
        if problems := creation_errors(manifest.object):
            raise InvalidObject(problems)
        return manifest
    except InvalidObject as error:
        raise UsageError(*document.located(error.errors)) from error
    except RequestError as error:
        raise UsageError(f"{document.name}: {error}") from error


def framework_in(document: ManifestFile) -> Manifest:
    """The Framework, or the one that the job is converted to. Raises UsageError."""
    manifest = check(document)
    kind = document.job_kind
    foreign = None if kind is None else job_kind_of(kind)
    if foreign is None:
        return manifest
    framework = convert_job(foreign, manifest.object).framework
    return Manifest(validate_framework(framework).object, manifest.warnings)
