"""
Previews of manifests: the errors of each document with line and column, its first pods, and its simulated course.

Nothing is stored, and nothing but the request is read. The size of the body, the number of documents and steps and the
time of a simulation are limited.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from launcher.api.http.content_negotiation import Representation, negotiate_format
from launcher.api.http.request_body import decode_object, read_body, request_media
from launcher.api.http.request_options import write_options
from launcher.api.http.responses import respond
from launcher.api.resources.registry import with_request_path
from launcher.api.validation.manifest_strategies import SUBMITTED_KINDS, manifest_strategies
from launcher.core.errors import BadRequest, FieldError, InvalidObject, RequestError
from launcher.core.framework import Framework
from launcher.core.json_access import as_object
from launcher.core.manifest import Manifest, framework_of, validate_framework
from launcher.core.parsing.decoder import Media
from launcher.core.parsing.source_positions import with_positions
from launcher.core.parsing.yaml_documents import yaml_documents
from launcher.core.rendered_pods import rendered_pods
from launcher.core.simulation import SimulatedStep, simulate
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.job_kinds.job_kind import JobKind, convert_job, job_kind_of
from launcher.store.interface import FRAMEWORKS, ResourceKind

PATH = f"/apis/{FRAMEWORKS.group}/{FRAMEWORKS.version}/namespaces/{{namespace}}/previews"

Json = dict[str, Any]

_OBJECT_ONLY = frozenset({Representation.OBJECT})
MAX_BYTES = 256 * 1024
MAX_DOCUMENTS = 20
MAX_STEPS = 1000
_SIMULATION_SECONDS = 1.0
#: Concurrent threads; more would only compete for the interpreter.
_MAX_THREADS = 2
_POSITION = re.compile(r"line (\d+), column (\d+): ")
_KINDS = {(kind.api_version, kind.kind): kind for kind in SUBMITTED_KINDS}


class PreviewHandler:
    """Handles ``POST …/namespaces/{namespace}/previews``."""

    def __init__(
        self, policy: AdmissionPolicy, serves_kind: Callable[[JobKind], bool] = lambda _: True
    ) -> None:
        """*serves_kind* returns whether this launcher runs jobs of a kind."""
        self._serves_kind = serves_kind
        self._strategies = manifest_strategies(policy)
        self._threads = asyncio.Semaphore(_MAX_THREADS)

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Returns the preview of every document in the body."""
        response_format = negotiate_format(request, _OBJECT_ONLY)
        strict = write_options(request, "CreateOptions").strict
        media = request_media(request)
        data = await read_body(request, MAX_BYTES)
        documents = [data] if media is Media.JSON else yaml_documents(data)
        if len(documents) > MAX_DOCUMENTS:
            raise BadRequest(f"{len(documents)} documents; at most {MAX_DOCUMENTS} are previewed at once")
        namespace = request.match_info["namespace"]
        async with self._threads:
            previews = [
                await asyncio.to_thread(self._preview, document, media, namespace, strict)
                for document in documents
            ]
        body = {"apiVersion": FRAMEWORKS.api_version, "kind": "Preview", "documents": previews}
        return await respond(request, response_format, body)

    def _preview(self, data: bytes, media: Media, namespace: str, strict: bool) -> Json:
        """Returns the preview of one document."""
        preview = _location(data)
        try:
            decoded = decode_object(data, media)
        except RequestError as error:
            return {**preview, "errors": [_syntax_error(str(error), preview["firstLine"])]}
        obj = decoded.value
        preview |= _identity(obj, namespace)
        namespace = preview["namespace"]
        try:
            kind = self._kind(obj)
            strategy = self._strategies[kind]
            manifest = strategy.validate(decoded, strict=strict)
            new = with_request_path(kind, manifest.object, namespace)
            if errors := strategy.creation_errors(new):
                raise InvalidObject(tuple(errors))
        except InvalidObject as error:
            located = with_positions(error.errors, data, media)
            return {**preview, "errors": [_field_error(each) for each in located]}
        except RequestError as error:
            return {**preview, "errors": [_syntax_error(str(error), preview["firstLine"])]}
        framework = framework_of(_framework(kind, Manifest(new, manifest.warnings)))
        resource = {"path": f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.plural}"}
        return {**preview, **resource, "warnings": list(manifest.warnings), **_result(framework)}

    def _kind(self, obj: Json) -> ResourceKind:
        """Returns the kind of the object; an unknown one is validated as a Framework. Raises BadRequest."""
        kind = _KINDS.get((str(obj.get("apiVersion")), str(obj.get("kind"))), FRAMEWORKS)
        job_kind = job_kind_of(kind)
        if job_kind is not None and not self._serves_kind(job_kind):
            raise BadRequest(f"this launcher does not run objects of kind {kind.kind}")
        return kind


def _location(data: bytes) -> Json:
    """Returns the lines of the document, from 1."""
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return {"firstLine": len(data) - len(data.lstrip(b"\n")) + 1, "lastLine": lines, "errors": []}


def _identity(obj: Json, namespace: str) -> Json:
    metadata = as_object(obj.get("metadata"))
    name = metadata.get("name") or metadata.get("generateName")
    return {
        "objectKind": str(obj.get("kind", "")),
        "name": str(name or ""),
        "namespace": str(metadata.get("namespace") or namespace),
    }


def _syntax_error(message: str, line: int) -> Json:
    if (position := _POSITION.match(message)) is None:
        return {"field": "", "message": message, "line": line, "column": 1}
    line, column = map(int, position.groups())
    return {"field": "", "message": message[position.end() :], "line": line, "column": column}


def _field_error(error: FieldError) -> Json:
    return {"field": error.field, "message": error.message, "line": error.line, "column": error.column}


def _framework(kind: ResourceKind, manifest: Manifest) -> Json:
    """Returns the Framework, or the one that the job is converted to."""
    job_kind = job_kind_of(kind)
    if job_kind is None:
        return manifest.object
    return validate_framework(convert_job(job_kind, manifest.object).framework).object


def _result(framework: Framework) -> Json:
    pods = list(rendered_pods(framework, max_per_role=1))
    roles = [role for role in framework.spec.roles if role.tasks]
    steps, complete = _steps(simulate(framework))
    return {
        "taskRoles": [
            {"name": role.name, "tasks": role.tasks, "firstPod": pod}
            for role, pod in zip(roles, pods, strict=True)
        ],
        "steps": steps,
        "stepsComplete": complete,
    }


def _steps(steps: Iterator[SimulatedStep]) -> tuple[list[Json], bool]:
    """Returns the first steps, and whether they are all."""
    end = time.monotonic() + _SIMULATION_SECONDS
    found: list[Json] = []
    for step in steps:
        if len(found) == MAX_STEPS or time.monotonic() > end:
            return found, False
        change = step.transition
        task = {} if change.role is None else {"role": change.role, "index": change.index}
        reason = "nothing changes from now on" if step.is_stuck else change.reason
        found.append({"seconds": step.seconds, **task, "state": change.after, "reason": reason})
    return found, True
