"""Jobs in files, validated by the rules of the API."""

from launcher.api.http.request_body import decode_object
from launcher.api.validation.jobs import JobStrategy
from launcher.core.errors import InvalidObject
from launcher.core.manifest import Manifest
from launcher.core.parsing.decoder import Media
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.job_kinds.job_kind import job_kind_of
from launcher.store.interface import ResourceKind


def parse_job(data: bytes, media: Media, kind: ResourceKind, strict: bool) -> Manifest:
    """The job of that kind, validated for creation without an admission policy. Raises RequestError."""
    foreign = job_kind_of(kind)
    assert foreign is not None
    strategy = JobStrategy(kind, foreign, AdmissionPolicy())
    manifest = strategy.validate(decode_object(data, media), strict=strict)
    if problems := tuple(strategy.creation_errors(manifest.object)):
        raise InvalidObject(problems)
    return manifest
