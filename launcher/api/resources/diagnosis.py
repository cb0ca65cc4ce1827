"""The diagnosis subresource: why a Framework or its tasks do not run."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from aiohttp import web

from launcher.api.http.content_negotiation import Representation, negotiate_format
from launcher.api.http.responses import respond
from launcher.api.launcher_state import LauncherStateReader
from launcher.api.resources.pod_logs import PodLogReader
from launcher.core.diagnosis.diagnosis_json import diagnosis_to_json
from launcher.core.diagnosis.inputs import (
    DiagnosisInput,
    DiagnosisScope,
    LogReference,
    diagnosable_framework,
)
from launcher.core.diagnosis.needed_reads import (
    LAST_LINES,
    MAX_BYTES,
    RunningPod,
    log_of_failure,
    running_pods,
)
from launcher.core.errors import BadRequest, LauncherError, NotFound
from launcher.core.json_access import as_list, as_object
from launcher.core.names import PodIdentityKey
from launcher.core.pods.log_options import PodLogOptions
from launcher.core.timestamps import Time
from launcher.scheduling.node_fit import node_fit
from launcher.store.interface import EVENTS, FRAMEWORKS, NODES, PODS, Object, Store
from launcher.store.selectors import Selector

_OBJECT_ONLY = frozenset({Representation.OBJECT})
#: Running pods whose logs are checked for the time of their last line.
_MAX_RUNNING_PODS = 200


class DiagnosisHandler:
    """Handles ``GET …/frameworks/{name}/diagnosis`` in local mode. *clock* returns seconds since 1970."""

    def __init__(
        self, store: Store, logs: PodLogReader, launcher: LauncherStateReader, clock: Callable[[], float]
    ) -> None:
        self._store, self._logs, self._launcher, self._clock = store, logs, launcher, clock

    async def get(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """Returns the findings for the Framework, or for the tasks that ``role`` and ``index`` select."""
        response_format = negotiate_format(request, _OBJECT_ONLY)
        framework = await self._store.get(FRAMEWORKS, namespace, name)
        selector = task_selector(request.query, framework)
        pods = await self._store.list(
            PODS, namespace, Selector.for_labels({PodIdentityKey.FRAMEWORK_NAME: name})
        )
        nodes = await self._store.list(NODES)
        events = await self._store.list(EVENTS, namespace)
        source = DiagnosisInput(
            framework,
            diagnosable_framework(framework),
            pods.items,
            nodes.items,
            events.items,
            int(self._clock()),
            launcher=await self._launcher.read(
                (namespace, name), [pod["metadata"]["name"] for pod in pods.items]
            ),
            node_fit=node_fit,
        )
        source = await self._with_logs(source, selector, namespace)
        # In a thread, since it takes some milliseconds for thousands of tasks.
        result = await asyncio.to_thread(diagnosis_to_json, source, selector)
        return await respond(request, response_format, result)

    async def _with_logs(
        self, source: DiagnosisInput, selector: DiagnosisScope | None, namespace: str
    ) -> DiagnosisInput:
        """Returns the input with the last lines of the failure, and the times of the last lines of running pods."""
        log = await asyncio.to_thread(log_of_failure, source, selector)
        lines = {(log.pod, log.container): await self._last_lines(namespace, log)} if log is not None else {}
        pods = running_pods(source, selector, _MAX_RUNNING_PODS)
        written = await asyncio.to_thread(self._last_output, namespace, pods, source.now)
        return replace(source, last_lines=lines, last_output=written)

    async def _last_lines(self, namespace: str, log: LogReference) -> str:
        options = PodLogOptions(previous=log.previous, tail_lines=LAST_LINES, limit_bytes=MAX_BYTES)
        try:
            chunks = self._logs.read(namespace, log.pod, log.uid, log.container, options)
            return b"".join([chunk async for chunk in chunks]).decode(errors="replace")
        except LauncherError:
            return ""  # the log was removed

    def _last_output(self, namespace: str, pods: Sequence[RunningPod], now: Time) -> Mapping[str, Time]:
        # Files have the system time, from which the launcher's clock may differ.
        times = {pod.name: self._logs.last_written(namespace, pod.name, pod.uid) for pod in pods}
        return {name: now - int(time.time() - last) for name, last in times.items() if last is not None}


def task_selector(query: Mapping[str, str], framework: Object) -> DiagnosisScope | None:
    """Returns the selected tasks; None for all. Raises BadRequest, or NotFound for a role that does not exist."""
    role, index = query.get("role"), query.get("index")
    if role is None and index is None:
        return None
    if not role:
        raise BadRequest("role: is required with index, and must not be empty")
    roles = [
        as_object(each).get("name") for each in as_list(as_object(framework.get("spec")).get("taskRoles"))
    ]
    if role not in roles:
        raise NotFound(
            f'role "{role}" not found in Framework "{framework["metadata"]["name"]}"; it has: '
            + (", ".join(map(str, roles)) or "none")
        )
    if index is None:
        return DiagnosisScope(role)
    if not index.isascii() or not index.isdecimal():
        raise BadRequest(f"index: {index!r} must be the index of a task, such as 0")
    return DiagnosisScope(role, int(index))
