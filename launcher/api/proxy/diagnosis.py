"""The diagnosis subresource on Kubernetes: all objects are read with the caller's credentials."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import aiohttp
import orjson
from aiohttp import web
from multidict import CIMultiDict

from launcher.api.http.content_negotiation import Representation, negotiate_format
from launcher.api.http.responses import respond
from launcher.api.http.status import set_error_target, status_response
from launcher.api.launcher_state import LauncherStateReader
from launcher.api.proxy.admission import check_path
from launcher.api.proxy.upstream import Authenticate, Headers, Upstream, json_headers
from launcher.api.resources.diagnosis import task_selector
from launcher.core.diagnosis.diagnosis_json import diagnosis_to_json
from launcher.core.diagnosis.inputs import DiagnosisInput, DiagnosisScope, diagnosable_framework, parsed_time
from launcher.core.diagnosis.needed_reads import (
    LAST_LINES,
    MAX_BYTES,
    RunningPod,
    log_of_failure,
    objects_with_events,
    running_pods,
)
from launcher.core.errors import LauncherError, NotFound
from launcher.core.json_access import as_list, as_object, text
from launcher.core.names import PodIdentityKey
from launcher.core.timestamps import Time
from launcher.core.validation.names import name_error, namespace_error
from launcher.scheduling.node_fit import node_fit
from launcher.store.interface import FRAMEWORKS

PATH = f"/apis/{FRAMEWORKS.group}/{FRAMEWORKS.version}/namespaces/{{namespace}}/{FRAMEWORKS.plural}/{{name}}/diagnosis"

Json = dict[str, Any]

_OBJECT_ONLY = frozenset({Representation.OBJECT})
_READ_SECONDS = 20.0
#: A node that does not respond must not delay the diagnosis.
_LOG_SECONDS = 5.0
_PAGE_SIZE = 500
#: Objects of one resource that are read: the pods of the largest Framework, and as many events.
_MAX_PAGES = 21


class ProxyDiagnosis:
    """Handles ``GET …/frameworks/{name}/diagnosis``."""

    def __init__(self, authenticate: Authenticate, headers: Headers, launcher: LauncherStateReader) -> None:
        """*headers* returns the headers of a request that are forwarded."""
        self._authenticate, self._headers, self._launcher = authenticate, headers, launcher

    async def get(self, request: web.Request) -> web.StreamResponse:
        """
        Returns the findings for the Framework, or the API server's error if the caller cannot read it.

        Other resources that the caller cannot read are listed as missing evidence.
        """
        check_path(request)
        response_format = negotiate_format(request, _OBJECT_ONLY)
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        set_error_target(request, FRAMEWORKS, name)
        if name_error(name) or namespace_error(namespace):
            raise NotFound(f'{FRAMEWORKS.resource} "{name}" not found')
        headers = json_headers(self._headers(request))
        reader = _Reader(self._authenticate(request, headers), headers)
        status, framework = await reader.get(request.rel_url.raw_path.removesuffix("/diagnosis"))
        if status != HTTPStatus.OK:
            return status_response(request, status, framework)
        selector = task_selector(request.query, framework)
        labels = {"labelSelector": f"{PodIdentityKey.FRAMEWORK_NAME}={name}"}
        inside = f"/api/v1/namespaces/{namespace}"
        pods, nodes, quotas = await asyncio.gather(
            reader.list(f"{inside}/pods", labels),
            reader.list("/api/v1/nodes"),
            reader.list(f"{inside}/resourcequotas"),
        )
        source = DiagnosisInput(
            framework,
            diagnosable_framework(framework),
            pods or (),
            nodes,
            (),
            int(time.time()),
            quotas or (),
            await self._launcher.read((namespace, name), [pod["metadata"]["name"] for pod in pods or ()]),
            node_fit,
        )
        source = await _with_events(reader, source, selector, f"{inside}/events")
        source = await _with_logs(reader, source, selector, f"{inside}/pods")
        result = await asyncio.to_thread(diagnosis_to_json, source, selector, reader.missing)
        return await respond(request, response_format, result)


async def _with_events(
    reader: "_Reader", source: DiagnosisInput, selector: DiagnosisScope | None, events: str
) -> DiagnosisInput:
    """Returns the input with the events of some objects: a namespace can have very many. *events* is their path."""
    uids = await asyncio.to_thread(objects_with_events, source, selector)
    lists = await asyncio.gather(
        *(reader.list(events, {"fieldSelector": f"involvedObject.uid={uid}"}) for uid in uids)
    )
    return replace(source, events=[event for each in lists for event in each or ()])


async def _with_logs(
    reader: "_Reader", source: DiagnosisInput, selector: DiagnosisScope | None, pods: str
) -> DiagnosisInput:
    """
    Returns the input with the last lines of the failure and, if one task is selected, the time of its last line.

    Each log is a request to a node, so only one is read for a failure, and those of one running pod. *pods* is the
    path of all pods.
    """
    lines: dict[tuple[str, str], str] = {}
    log = await asyncio.to_thread(log_of_failure, source, selector)
    if log is not None and any(pod["metadata"]["uid"] == log.uid for pod in source.pods):
        query = {"container": log.container, "tailLines": LAST_LINES, "previous": str(log.previous).lower()}
        lines[log.pod, log.container] = await reader.log(f"{pods}/{log.pod}/log", query) or ""
    written: dict[str, Time] = {}
    if selector is not None and selector.index is not None:
        for pod in running_pods(source, selector, limit=1):
            if (last := await _last_output(reader, pod, f"{pods}/{pod.name}/log")) is not None:
                written[pod.name] = last
    return replace(source, last_lines=lines, last_output=written)


async def _last_output(reader: "_Reader", pod: RunningPod, path: str) -> Time | None:
    """The time of the last line of the pod, or of its start; None if it is unknown."""
    query = {"tailLines": 1, "timestamps": "true"}
    last = [await reader.log(path, {**query, "container": name}) for name in pod.containers]
    if None in last:
        return None
    times = [pod.started, *(parsed_time((line or "").partition(" ")[0]) for line in last)]
    return max((each for each in times if each is not None), default=None)


class _Reader:
    """Reads from the API server, and records what cannot be read."""

    def __init__(self, upstream: Upstream, headers: CIMultiDict[str]) -> None:
        self._upstream, self._headers = upstream, headers
        self.missing: list[Mapping[str, str]] = []

    async def get(self, path: str) -> tuple[int, Json]:
        """Returns the status code and the object, or the Status of an error. Raises Unavailable."""
        return await self._upstream.call("GET", path, self._headers.copy(), timeout_seconds=_READ_SECONDS)

    async def log(self, path: str, query: Mapping[str, object]) -> str | None:
        """Returns the first part of a log; None, with a record in ``missing``, if it cannot be read."""
        target = f"{path}?{urlencode({**query, 'limitBytes': MAX_BYTES})}"
        try:
            async with (
                asyncio.timeout(_LOG_SECONDS),
                self._upstream.answer("GET", target, self._headers.copy()) as answer,
            ):
                body = (await answer.read())[:MAX_BYTES].decode(errors="replace")
        except (aiohttp.ClientError, TimeoutError, LauncherError):
            self._add_missing("pods/log", "no response from the node")
            return None
        if answer.status == HTTPStatus.OK:
            return body
        self._add_missing("pods/log", _message_of(body) or f"HTTP status {answer.status}")
        return None

    async def list(self, path: str, parameters: Mapping[str, str] | None = None) -> Sequence[Json] | None:
        """Returns all objects; None, and a record in ``missing``, if they cannot be read."""
        resource, items, token = path.rpartition("/")[2], list[Json](), ""
        for _ in range(_MAX_PAGES):
            query = {**(parameters or {}), "limit": str(_PAGE_SIZE), **({"continue": token} if token else {})}
            try:
                status, page = await self.get(f"{path}?{urlencode(query)}")
            except LauncherError as error:
                self._add_missing(resource, str(error))
                return None
            if status != HTTPStatus.OK:
                self._add_missing(resource, text(page.get("message")) or f"HTTP status {status}")
                return None
            items += as_list(page.get("items"))
            token = text(as_object(page.get("metadata")).get("continue"))
            if not token:
                return items
        self._add_missing(resource, f"only the first {len(items)} objects were read")
        return items

    def _add_missing(self, resource: str, reason: str) -> None:
        entry = {"resource": resource, "reason": reason}
        if entry not in self.missing:
            self.missing.append(entry)


def _message_of(status: str) -> str:
    try:
        return text(as_object(orjson.loads(status)).get("message"))
    except orjson.JSONDecodeError:
        return ""
