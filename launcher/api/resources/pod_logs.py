"""``pods/log``: what a container has written, as it is or as it comes."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from aiohttp import web

from launcher.api.http.status import InvalidOptions, set_error_target
from launcher.api.middleware.request_info import flag
from launcher.core.errors import BadRequest, FieldError, NotFound
from launcher.core.pods.log_options import POD_UID_HEADER, PodLogOptions
from launcher.core.validation.field_errors import forbidden
from launcher.core.validation.pod_template import as_list, as_object
from launcher.store.interface import PODS, Object, Store

#: Larger numbers mean nothing, and not everything can reckon with them.
_MOST = 2**63 - 1
#: Plain text stays plain text, whatever a container writes: a browser must not take it for a page of ours.
_HEADERS = {
    "Content-Type": "text/plain",
    "Cache-Control": "no-cache, private",
    "X-Content-Type-Options": "nosniff",
}


class PodLogReader(Protocol):
    """The logs on this machine, also those of pods that are gone. *uid* None is the newest pod of that name."""

    def containers(self, namespace: str, pod: str, uid: str | None) -> Sequence[str]:
        """The containers that have a log."""
        ...

    def uid_before(self, namespace: str, pod: str, uid: str | None) -> str | None:
        """The uid of the pod of that name before this one; None if there was none."""
        ...

    def read(
        self, namespace: str, pod: str, uid: str | None, container: str, view: PodLogOptions
    ) -> AsyncIterator[bytes]:
        """
        What is to be seen, in pieces that end with a line while it is followed.

        Raises NotFound when there is no such log, BadRequest when there was no run before this one.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """The query of one request, understood."""

    container: str
    uid: str | None
    #: The log of the pod of that name before this one is wanted.
    previous_pod: bool
    view: PodLogOptions


class PodLogHandler:
    """Answers ``GET …/pods/{name}/log``. *clock* gives seconds since 1970."""

    def __init__(self, store: Store, logs: PodLogReader, clock: Callable[[], float]) -> None:
        self._store, self._logs, self._clock = store, logs, clock

    async def get(self, request: web.Request) -> web.StreamResponse:
        """The log; 204 while the pod has no node yet. Works on for a pod that is gone as long as its log is there."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        set_error_target(request, PODS, name)
        asked = _asked(name, request.query, self._clock())
        pod = await self._pod(namespace, name, asked.uid)
        if asked.previous_pod:
            current = asked.uid if pod is None else pod["metadata"]["uid"]
            if (before := self._logs.uid_before(namespace, name, current)) is None:
                raise BadRequest(f'there was no pod "{name}" before this one')
            asked, pod = replace(asked, uid=before), None
        if pod is None:
            container = self._container_of_gone(namespace, name, asked)
            uid, flows = asked.uid, False
        else:
            container = _container_of(pod, asked.container)
            if not as_object(pod.get("spec")).get("nodeName"):
                return web.Response(status=204)
            uid, flows = pod["metadata"]["uid"], _check_run(pod, container, previous=asked.view.previous)
        # Of a run that is over, there is nothing to wait for.
        view = replace(asked.view, follow=asked.view.follow and flows)
        return await _streamed(
            request,
            self._logs.read(namespace, name, uid, container, view),
            at_once=view.follow,
            headers={POD_UID_HEADER: uid} if uid else {},
        )

    async def _pod(self, namespace: str, name: str, uid: str | None) -> Object | None:
        try:
            pod = await self._store.get(PODS, namespace, name)
        except NotFound:
            return None
        return pod if uid in (None, pod["metadata"]["uid"]) else None

    def _container_of_gone(self, namespace: str, name: str, asked: _Asked) -> str:
        known = self._logs.containers(namespace, name, asked.uid)
        if not known:
            raise NotFound(f'{PODS.resource} "{name}" not found')
        return _chosen(name, asked.container, known, known)


def _container_of(pod: Object, asked: str) -> str:
    spec = as_object(pod.get("spec"))
    main, early, late = (
        [str(as_object(container).get("name")) for container in as_list(spec.get(kind))]
        for kind in ("containers", "initContainers", "ephemeralContainers")
    )
    return _chosen(pod["metadata"]["name"], asked, main, [*main, *early, *late], early)


def _chosen(
    pod: str, asked: str, main: Sequence[str], known: Sequence[str], early: Sequence[str] = ()
) -> str:
    """The container to show: the one asked for, or the only one. Raises BadRequest with the choice there is."""
    if asked:
        if asked not in known:
            raise BadRequest(
                f"container {asked} is not valid for pod {pod}, choose one of: [{' '.join(known)}]"
            )
        return asked
    if len(main) == 1:
        return main[0]
    also = f" or one of the init containers: [{' '.join(early)}]" if early else ""
    raise BadRequest(
        f"a container name must be specified for pod {pod}, choose one of: [{' '.join(main)}]{also}"
    )


def _check_run(pod: Object, container: str, *, previous: bool) -> bool:
    """Whether the container runs now. Raises BadRequest when it has had no run to show."""
    name, status = pod["metadata"]["name"], _container_status(pod, container)
    state, last = as_object(status.get("state")), as_object(status.get("lastState"))
    if previous:
        if not last.get("terminated"):
            raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
    elif "running" not in state and "terminated" not in state and not last.get("terminated"):
        waiting = as_object(state.get("waiting"))
        why = waiting.get("message") or waiting.get("reason") or "ContainerCreating"
        raise BadRequest(f'container "{container}" in pod "{name}" is waiting to start: {why}')
    return "running" in state and not previous


def _container_status(pod: Object, container: str) -> Mapping[str, Any]:
    status = as_object(pod.get("status"))
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for entry in as_list(status.get(kind)):
            if as_object(entry).get("name") == container:
                return as_object(entry)
    return {}


async def _streamed(
    request: web.Request, chunks: AsyncIterator[bytes], *, at_once: bool, headers: Mapping[str, str]
) -> web.StreamResponse:
    """The answer, begun with the first piece; or *at_once*, when the first piece may be long in coming."""
    response = web.StreamResponse(headers={**_HEADERS, **headers})
    async with _closing(chunks):
        # Until the first piece has come, an error is still an answer.
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
    """Inside, somebody reads; afterwards nobody does, also when the client has gone in the middle."""
    try:
        yield
    finally:
        if (close := getattr(chunks, "aclose", None)) is not None:
            await close()


def _asked(pod: str, query: Mapping[str, str], now: float) -> _Asked:
    """What the query asks for. Raises BadRequest for what cannot be read, InvalidOptions for what cannot be done."""
    problems: list[FieldError] = []
    tail, limit, seconds = (
        _whole(query, name, least, problems)
        for name, least in (("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1))
    )
    moment = _moment(query.get("sinceTime"))
    if seconds is not None and moment is not None:
        problems.append(forbidden("sinceSeconds", "only one of sinceTime and sinceSeconds may be given"))
    if query.get("stream"):
        problems.append(
            forbidden("stream", "the two streams of a container are kept as one here; leave it out")
        )
    if problems:
        raise InvalidOptions("PodLogOptions", tuple(problems), group="", name=pod)
    view = PodLogOptions(
        follow=flag(query, "follow"),
        previous=flag(query, "previous"),
        timestamps=flag(query, "timestamps"),
        since=moment if seconds is None else max(now - seconds, 0.0),
        tail_lines=tail,
        limit_bytes=limit,
    )
    return _Asked(query.get("container", ""), query.get("uid") or None, flag(query, "previousPod"), view)


def _whole(query: Mapping[str, str], name: str, least: int, problems: list[FieldError]) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        number = int(text)
    except ValueError as error:
        raise BadRequest(f"{name}: {text[:80]!r} is no whole number") from error
    if not least <= number <= _MOST:
        problems.append(FieldError(name, f"Invalid value: {text[:80]}: must be from {least} to {_MOST}"))
    return number


def _moment(text: str | None) -> float | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadRequest(f"sinceTime: {text[:80]!r} is no time; write it as 2026-01-31T12:00:00Z")
    return max(moment.timestamp(), 0.0)
