"""Files of Frameworks and jobs: read and checked, or every mistake with its place."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.cli.errors import UsageError
from launcher.core.errors import FieldError, InvalidObject, RequestError
from launcher.core.framework import Framework
from launcher.core.manifest import Manifest, parse_framework, validate_framework
from launcher.core.names import KIND
from launcher.core.parsing.decoder import Media, decode_utf8
from launcher.core.parsing.json_reader import read_json
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.spec import FrameworkName
from launcher.core.validation.field_errors import unsupported
from launcher.core.validation.framework import creation_problems

if TYPE_CHECKING:
    from launcher.api.validation.jobs import JobRules
    from launcher.store.interface import ResourceKind

#: Stands for the uid that the store will give.
_UID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file, or one document of it: its name in messages, its bytes, and their format."""

    name: str
    data: bytes
    media: Media

    def located(self, problems: Iterable[FieldError]) -> list[str]:
        """``FILE:7:3: spec.taskRoles[0].taskNumber: …``, a line for each of the problems."""
        # Only for those who made a mistake: it reads the text once more.
        from launcher.core.parsing.source_positions import placed

        found = placed(problems, self.data, self.media)
        return [f"{self.name}:{each.line}:{each.column}: {each}" for each in found]

    def value(self) -> Any:
        """What it spells, as plain JSON. Raises RequestError."""
        # Only for those who send or convert it: whoever checks it has read it anyway.
        from launcher.core.parsing.yaml_reader import read_yaml

        return (read_json if self.media is Media.JSON else read_yaml)(decode_utf8(self.data)).value

    def documents(self) -> "list[ManifestFile]":
        """The documents in it, each on the lines where it stands in the whole; none if there are only comments."""
        from launcher.converters.simpletfjob.per_task_objects import SEPARATOR, has_content

        if self.media is Media.JSON:
            return [self]
        found: list[ManifestFile] = []
        before = 0
        for part in SEPARATOR.split(self.data.decode(errors="surrogateescape")):
            if has_content(part):
                data = ("\n" * before + part).encode(errors="surrogateescape")
                found.append(ManifestFile(self.name, data, self.media))
            before += part.count("\n")
        return [self] if len(found) == 1 else found

    @property
    def namespace(self) -> str | None:
        """The namespace that it names; None where it names none or cannot be read, which others will tell."""
        match self._readable():
            case {"metadata": {"namespace": str() as namespace}}:
                return namespace
            case _:
                return None

    @property
    def job_kind(self) -> "ResourceKind | None":
        """The kind and version of the job in it; None if it is no job. Raises UsageError for another version."""
        match self._readable():
            case {"apiVersion": str() as version, "kind": str() as name} if name != KIND:
                from launcher.job_kinds.job_kind import FOREIGN

                kinds = {kind.api_version: kind for job in FOREIGN for kind in job.kinds if kind.kind == name}
                if kinds and version not in kinds:
                    raise UsageError(*self.located([unsupported("apiVersion", version, kinds)]))
                return kinds.get(version)
            case _:
                return None

    def _readable(self) -> Any:
        try:
            return self.value()
        except RequestError:
            return None


def load(path: Path) -> ManifestFile:
    """The bytes of that file, ``-`` being standard input. Raises UsageError."""
    name = "standard input" if path == Path("-") else str(path)
    try:
        data = sys.stdin.buffer.read() if path == Path("-") else path.read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    return ManifestFile(name, data, Media.JSON if path.suffix == ".json" else Media.YAML)


def documents_in(path: Path) -> list[ManifestFile]:
    """The documents of that file, at least one. Raises UsageError."""
    text = load(path)
    found = text.documents()
    if not found:
        raise UsageError(f"{text.name}: there is nothing in it; write a Framework or a job")
    return found


def check(text: ManifestFile, *, strict: bool = False) -> Manifest:
    """The new Framework or job that *text* spells. Raises UsageError."""
    try:
        if (kind := text.job_kind) is not None:
            rules = _job_rules(kind)
            manifest = rules.read(text.data, text.media, strict=strict)
            problems = tuple(rules.creation_problems(manifest.object))
        else:
            manifest = parse_framework(text.data, media=text.media, strict=strict)
            problems = creation_problems(manifest.object)
        if problems:
            raise InvalidObject(problems)
        return manifest
    except InvalidObject as error:
        raise UsageError(*text.located(error.errors)) from error
    except RequestError as error:
        raise UsageError(f"{text.name}: {error}") from error


def framework_in(text: ManifestFile) -> Manifest:
    """The Framework that *text* spells, or that its job becomes. Raises UsageError."""
    manifest = check(text)
    if (kind := text.job_kind) is None:
        return manifest
    from launcher.job_kinds.job_kind import convert_job, foreign_of

    foreign = foreign_of(kind)
    assert foreign is not None
    return Manifest(
        validate_framework(convert_job(foreign, manifest.object).framework).object, manifest.warnings
    )


def _job_rules(kind: "ResourceKind") -> "JobRules":
    """The rules of the API for jobs of that kind, without an admin's policy."""
    from launcher.api.validation.jobs import JobRules
    from launcher.core.validation.admission_policy import Policy
    from launcher.job_kinds.job_kind import foreign_of

    foreign = foreign_of(kind)
    assert foreign is not None
    return JobRules(kind, foreign, Policy())


def framework_of(obj: dict[str, Any]) -> Framework:
    """The Framework as it would be stored, with stand-ins for what the store alone can give: uid and suffix."""
    meta = obj["metadata"]
    name = FrameworkName(meta.get("name") or f"{meta['generateName']}xxxxx")
    spec = spec_from_json(obj["spec"], meta.get("annotations"))
    return Framework(name, meta.get("namespace", "default"), _UID, 1, spec)
