"""Validation of Frameworks and jobs before the proxy forwards them, by the same rules as in local mode."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import unquote

import orjson
from aiohttp import web

from launcher.api.http.request_body import (
    convert_decoded,
    decode_object,
    explain_syntax_error,
    read_body,
    request_media,
)
from launcher.api.http.request_options import write_options
from launcher.api.http.status import set_error_target
from launcher.api.http.warnings import warning_headers
from launcher.api.resources.registry import with_request_path
from launcher.api.resources.writes import write_warnings
from launcher.api.validation.manifest_strategies import SUBMITTED_KINDS, manifest_strategies
from launcher.core.errors import BadRequest, InvalidObject
from launcher.core.json_access import as_object
from launcher.core.replicas import with_replicas
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.job_kinds.job_kind import JobKind, annotate_written_version, job_kind_of
from launcher.store.interface import FRAMEWORKS, Object, ResourceKind

T = TypeVar("T")

#: The validated kinds by group, version and plural.
_VALIDATED = {(kind.group, kind.version, kind.plural): kind for kind in SUBMITTED_KINDS}


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """The namespace and name of an object; without a name, the collection."""

    namespace: str
    name: str | None = None
    kind: ResourceKind = FRAMEWORKS


def parse_resource_path(path: str) -> ResourcePath | None:
    """Returns the Framework or job at an encoded *path*, or None for other resources and subresources."""
    # Unquoted before it is split, as in kube-apiserver: both must see the same path.
    match unquote(path).strip("/").split("/"):
        case ["apis", group, version, "namespaces", namespace, plural, *name] if len(name) <= 1:
            kind = _VALIDATED.get((group, version, plural))
            return None if kind is None else ResourcePath(namespace, name[0] if name else None, kind)
        case _:
            return None


def check_path(request: web.BaseRequest) -> None:
    """Raises BadRequest for a path with ``.`` or ``..``, which could leave the base path of the API server."""
    if not {".", ".."}.isdisjoint(unquote(request.rel_url.raw_path).split("/")):
        raise BadRequest("the path must not contain '.' or '..'")


#: Larger bodies are parsed in a thread, so that the lease is renewed and other requests are served.
_MAX_INLINE_BYTES = 16 * 1024
#: Concurrent threads; more would only compete for the interpreter.
_MAX_THREADS = 2
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions"}


@dataclass(frozen=True, slots=True)
class AdmittedBody:
    """A valid body as JSON, and the Warning headers of the response."""

    body: bytes
    warnings: tuple[str, ...]


class ProxyAdmission:
    """Validates whole objects in POST and PUT requests."""

    def __init__(
        self, policy: AdmissionPolicy, serves_kind: Callable[[JobKind], bool] = lambda _: False
    ) -> None:
        """*serves_kind* returns whether this launcher runs jobs of a kind; another operator may run them."""
        self._serves_kind = serves_kind
        self._strategies = manifest_strategies(policy)
        self._threads = asyncio.Semaphore(_MAX_THREADS)

    def validates(self, kind: ResourceKind) -> bool:
        """Whether objects of that *kind* are validated."""
        job_kind = job_kind_of(kind)
        return job_kind is None or self._serves_kind(job_kind)

    async def admit(self, request: web.Request, path: ResourcePath) -> AdmittedBody:
        """Returns the valid object in the body of *request*. Raises BadRequest, TooLarge, InvalidObject."""
        options = write_options(request, _OPTIONS[request.method])
        media = request_media(request)
        data = await read_body(request)
        strategy = self._strategies[path.kind]
        decoded = convert_decoded(request, await self._run(len(data), lambda: decode_object(data, media)))
        try:
            manifest = await self._run(len(data), lambda: strategy.validate(decoded, strict=options.strict))
        except BadRequest as error:
            raise explain_syntax_error(error, data) from error
        except InvalidObject:
            # A name or namespace other than the URL's is reported first.
            obj = with_request_path(path.kind, decoded.value, path.namespace, path.name)
            _set_target(request, path.kind, obj)
            raise
        new = with_request_path(path.kind, manifest.object, path.namespace, path.name)
        if path.name is None and (errors := strategy.creation_errors(new)):
            _set_target(request, path.kind, new)
            raise InvalidObject(tuple(errors))
        if path.kind == FRAMEWORKS:
            new = with_replicas(new)
        elif path.name is None:
            new = annotate_written_version(path.kind, new)
        # The API server itself warns about metadata.
        return AdmittedBody(orjson.dumps(new), tuple(warning_headers(write_warnings(manifest, {}, options))))

    async def _run(self, size: int, function: Callable[[], T]) -> T:
        """Returns the result of *function*, which processes a body of that *size*."""
        if size <= _MAX_INLINE_BYTES:
            return function()
        async with self._threads:
            return await asyncio.to_thread(function)


def _set_target(request: web.Request, kind: ResourceKind, obj: Object) -> None:
    metadata = as_object(obj.get("metadata"))
    set_error_target(request, kind, str(metadata.get("name") or metadata.get("generateName") or ""))
