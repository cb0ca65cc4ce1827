"""``pods/log``: the log of a container, whole or followed."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from aiohttp import web

from launcher.api.http.query import flag
from launcher.api.http.status import InvalidOptions
from launcher.core.errors import BadRequest, FieldError, NotFound
from launcher.core.json_access import as_list, as_object
from launcher.core.pods.log_options import POD_UID_HEADER, PodLogOptions
from launcher.core.pods.observed_pod import node_name
from launcher.core.validation.field_errors import forbidden
from launcher.store.interface import PODS, Object, Store

_MAX_INT64 = 2**63 - 1
#: A browser must not interpret the output of a container as a page of this server.
_HEADERS = {
    "Content-Type": "text/plain",
    "Cache-Control": "no-cache, private",
    "X-Content-Type-Options": "nosniff",
}


class PodLogReader(Protocol):
    """The logs on this machine, also of deleted pods. Without a *uid*, the newest pod of that name is meant."""

    def containers(self, namespace: str, pod: str, uid: str | None) -> Sequence[str]:
        """Returns the containers that have a log."""
        ...

    def last_written(self, namespace: str, pod: str, uid: str) -> float | None:
        """Returns the system time of the last line of the pod's containers; None if there is no log."""
        ...

    def read(
        self, namespace: str, pod: str, uid: str | None, container: str, options: PodLogOptions
    ) -> AsyncIterator[bytes]:
        """
        Yields the selected part of the log; while it is followed, each chunk ends with a line.

        Raises NotFound if there is no such log, BadRequest if there is no previous run.
        """
        ...


@dataclass(frozen=True, slots=True)
class LogRequest:
    """The parsed query of a request."""

    container: str
    uid: str | None
    options: PodLogOptions


class PodLogHandler:
    """Handles ``GET …/pods/{name}/log``. *clock* returns seconds since 1970."""

    def __init__(self, store: Store, logs: PodLogReader, clock: Callable[[], float]) -> None:
        self._store, self._logs, self._clock = store, logs, clock

    async def get(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """Returns the log, also of a deleted pod while it is retained; 204 before the pod is scheduled."""
        query = parse_log_query(name, request.query, self._clock())
        pod = await self._pod(namespace, name, query.uid)
        if pod is None:
            container = self._container_of_deleted(namespace, name, query)
            uid, is_running = query.uid, False
        else:
            container = container_of(pod, query.container)
            if not node_name(pod):
                return web.Response(status=204)
            uid = pod["metadata"]["uid"]
            is_running = _check_run(pod, container, previous=query.options.previous)
        # The log of a terminated container does not grow.
        options = replace(query.options, follow=query.options.follow and is_running)
        return await stream_log(
            request,
            self._logs.read(namespace, name, uid, container, options),
            at_once=options.follow,
            headers={POD_UID_HEADER: uid} if uid else {},
        )

    async def _pod(self, namespace: str, name: str, uid: str | None) -> Object | None:
        try:
            pod = await self._store.get(PODS, namespace, name)
        except NotFound:
            return None
        return pod if uid in (None, pod["metadata"]["uid"]) else None

    def _container_of_deleted(self, namespace: str, name: str, query: LogRequest) -> str:
        containers = self._logs.containers(namespace, name, query.uid)
        if not containers:
            raise NotFound(f'{PODS.resource} "{name}" not found')
        return select_container(name, query.container, containers, containers)


def container_of(pod: Object, requested: str) -> str:
    """Returns the requested container of the pod, or the only one. Raises BadRequest."""
    spec = as_object(pod.get("spec"))
    main, init, ephemeral = (
        [str(as_object(container).get("name")) for container in as_list(spec.get(kind))]
        for kind in ("containers", "initContainers", "ephemeralContainers")
    )
    return select_container(pod["metadata"]["name"], requested, main, [*main, *init, *ephemeral], init)


def select_container(
    pod: str,
    requested: str,
    main: Sequence[str],
    available: Sequence[str],
    init: Sequence[str] = (),
) -> str:
    """Returns the requested container, or the only one. Raises BadRequest."""
    if requested:
        if requested not in available:
            raise BadRequest(
                f"container {requested} is not valid for pod {pod}, choose one of: [{' '.join(available)}]"
            )
        return requested
    if len(main) == 1:
        return main[0]
    init_containers = f" or one of the init containers: [{' '.join(init)}]" if init else ""
    raise BadRequest(
        f"a container name must be specified for pod {pod}, choose one of: [{' '.join(main)}]{init_containers}"
    )


def _check_run(pod: Object, container: str, *, previous: bool) -> bool:
    """Returns whether the container is running. Raises BadRequest if it has no run with a log."""
    name, status = pod["metadata"]["name"], container_status(pod, container)
    state, last = as_object(status.get("state")), as_object(status.get("lastState"))
    if previous:
        if not last.get("terminated"):
            raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
    elif "running" not in state and "terminated" not in state and not last.get("terminated"):
        waiting = as_object(state.get("waiting"))
        reason = waiting.get("message") or waiting.get("reason") or "ContainerCreating"
        raise BadRequest(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    return "running" in state and not previous


def container_status(pod: Object, container: str) -> Mapping[str, Any]:
    """Returns the status of a container of the pod; empty if there is none yet."""
    status = as_object(pod.get("status"))
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for entry in as_list(status.get(kind)):
            if as_object(entry).get("name") == container:
                return as_object(entry)
    return {}


async def stream_log(
    request: web.Request, chunks: AsyncIterator[bytes], *, at_once: bool, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Sends the chunks; unless *at_once*, the response starts with the first chunk."""
    response = web.StreamResponse(headers={**_HEADERS, **headers})
    async with _closing(chunks):
        # Before the response starts, an error still becomes a Status.
        first = b"" if at_once else await anext(chunks, b"")
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        if first:
            await response.write(first)
        async for chunk in chunks:
            await response.write(chunk)
    await response.write_eof()
    return response


@asynccontextmanager
async def _closing(chunks: AsyncIterator[bytes]) -> AsyncIterator[None]:
    """Closes *chunks* at the end, also when the client disconnects."""
    try:
        yield
    finally:
        if (close := getattr(chunks, "aclose", None)) is not None:
            await close()


def parse_log_query(pod: str, query: Mapping[str, str], now: float) -> LogRequest:
    """Returns the parsed query. Raises BadRequest, InvalidOptions."""
    errors: list[FieldError] = []
    tail, limit, seconds = (
        _integer(query, name, minimum, errors)
        for name, minimum in (("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1))
    )
    since = _time(query.get("sinceTime"))
    if seconds is not None and since is not None:
        errors.append(forbidden("sinceSeconds", "at most one of sinceTime or sinceSeconds may be specified"))
    if query.get("stream"):
        errors.append(forbidden("stream", "stdout and stderr of a container are stored as one stream"))
    if errors:
        raise InvalidOptions("PodLogOptions", tuple(errors), group="", name=pod)
    options = PodLogOptions(
        follow=flag(query, "follow"),
        previous=flag(query, "previous"),
        timestamps=flag(query, "timestamps"),
        since=since if seconds is None else max(now - seconds, 0.0),
        tail_lines=tail,
        limit_bytes=limit,
    )
    return LogRequest(query.get("container", ""), query.get("uid") or None, options)


def _integer(query: Mapping[str, str], name: str, minimum: int, errors: list[FieldError]) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        number = int(text)
    except ValueError as error:
        raise BadRequest(f"{name}: Invalid value: {text[:80]!r}: must be an integer") from error
    if not minimum <= number <= _MAX_INT64:
        errors.append(
            FieldError(name, f"Invalid value: {text[:80]}: must be between {minimum} and {_MAX_INT64}")
        )
    return number


def _time(text: str | None) -> float | None:
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise BadRequest(
            f"sinceTime: Invalid value: {text[:80]!r}: must be a time such as 2026-01-31T12:00:00Z"
        )
    return max(time.timestamp(), 0.0)
