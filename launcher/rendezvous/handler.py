"""
``/rendezvous/v1``: the endpoints at which pods get the addresses of their peers.

A request is authorized by the token of its attempt only, which gives no access to the rest of the API.
"""

import re
from collections.abc import Iterable, Sequence

import orjson
from aiohttp import hdrs, web

from launcher.core.errors import BadRequest, Forbidden
from launcher.core.http_headers import accepts_gzip
from launcher.core.spec import RoleName
from launcher.rendezvous.container_programs import program_text
from launcher.rendezvous.heartbeats import HeartbeatRecorder
from launcher.rendezvous.peer_files import (
    DISCOVERY_FILES,
    FILE_NAMES,
    FRAMEWORK,
    HOSTS_JSON,
    TF_CONFIG,
    PeerFiles,
)
from launcher.rendezvous.peer_tracker import TaskId
from launcher.rendezvous.session import MissingPeers, PeerRequest, RendezvousSession
from launcher.rendezvous.session_manager import SessionManager
from launcher.rendezvous.tokens import Tokens

BASE_PATH = "/rendezvous/v1"
#: Limit and default of ``wait``.
_MAX_WAIT_SECONDS = 300.0
#: A response is written in chunks, because what a client has not read yet is kept in memory.
_CHUNK_BYTES = 64 * 1024
#: Shorter responses are not compressed.
_MIN_GZIP_BYTES = 4 * 1024
_TASK = re.compile(r"([a-z0-9]{1,63})/(0|[1-9][0-9]{0,9})")
_NUMBER = re.compile(r"[0-9]{1,18}")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def attempt_url(launcher_url: str, namespace: str, framework: str, attempt: int) -> str:
    """Returns the URL for the pods of an attempt."""
    path = f"{BASE_PATH}/namespaces/{namespace}/frameworks/{framework}/attempts/{attempt}"
    return launcher_url.rstrip("/") + path


class RendezvousHandler:
    """The handlers of the endpoints."""

    def __init__(self, sessions: SessionManager, tokens: Tokens, heartbeats: HeartbeatRecorder) -> None:
        self._sessions, self._tokens, self._heartbeats = sessions, tokens, heartbeats

    def add_to(self, app: web.Application) -> None:
        """Adds the routes to *app*."""
        attempts = attempt_url("", "{namespace}", "{name}", 0).removesuffix("0")
        app.router.add_get(attempts + "{attempt:[0-9]{1,10}}", self.get_attempt)
        app.router.add_post(attempts + "{attempt:[0-9]{1,10}}/heartbeat", self.post_heartbeat)
        app.router.add_get(f"{BASE_PATH}/programs/{{name}}", self.get_program)

    async def get_attempt(self, request: web.Request) -> web.StreamResponse:
        """``GET …/attempts/{attempt}``: the addresses of all tasks, when all are known."""
        attempt = int(request.match_info["attempt"])
        uid = await self._tokens.verify_token(_bearer_token(request), attempt)
        names = _file_names(request.query.get("format", HOSTS_JSON))
        task = _task_id(request.query.get("task"))
        if names == (TF_CONFIG,) and task is None:
            raise BadRequest(f"format={TF_CONFIG} is different for each task: add task=ROLE/INDEX")
        peer_request = PeerRequest(
            uid=uid,
            attempt=attempt,
            task=task,
            after=_integer(request, "after") or 0,
            port=_port(request),
        )
        key = (request.match_info["namespace"], request.match_info["name"])
        session, result = await self._sessions.wait_for_peers(key, peer_request, _wait_seconds(request))
        if isinstance(result, MissingPeers):
            return _missing_response(result)
        return await _files_response(request, result, await _segments(session, result, names, task), names)

    async def post_heartbeat(self, request: web.Request) -> web.Response:
        """``POST …/attempts/{attempt}/heartbeat?task=ROLE/INDEX``: records that the task makes progress."""
        attempt = int(request.match_info["attempt"])
        uid = await self._tokens.verify_token(_bearer_token(request), attempt)
        task = _task_id(request.query.get("task"))
        if task is None:
            raise BadRequest("task: Required value: add task=ROLE/INDEX, for example task=worker/0")
        key = (request.match_info["namespace"], request.match_info["name"])
        await self._heartbeats.record(key, uid, attempt, task)
        return web.Response(status=204)

    async def get_program(self, request: web.Request) -> web.Response:
        """``GET /rendezvous/v1/programs/{name}``: a program for containers, as text."""
        return web.Response(text=program_text(request.match_info["name"]), content_type="text/x-shellscript")


async def _segments(
    session: RendezvousSession, files: PeerFiles, names: Sequence[str], task: TaskId | None
) -> list[bytes]:
    contents = [
        (name, (await session.framework_json(files),) if name == FRAMEWORK else files.segments(name, task))
        for name in names
    ]
    if len(contents) > 1:
        return list(files.concatenated(contents))
    return list(contents[0][1]) or [b"{}\n"]


def _bearer_token(request: web.Request) -> str:
    values = request.headers.getall(hdrs.AUTHORIZATION, [])
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    if scheme.lower() != "bearer":
        raise Forbidden("a token is required: send LAUNCHER_TOKEN as `Authorization: Bearer TOKEN`")
    return token.strip()


def _file_names(text: str) -> tuple[str, ...]:
    if text == "all":
        return DISCOVERY_FILES
    names = tuple(text.split(","))
    for name in names:
        if name not in FILE_NAMES:
            raise BadRequest(
                f"format: Unsupported value: {name[:100]!r}: supported values: all, {', '.join(FILE_NAMES)}"
            )
    return names


def _task_id(text: str | None) -> TaskId | None:
    if text is None:
        return None
    match = _TASK.fullmatch(text)
    if match is None:
        raise BadRequest(f"task: Invalid value: {text[:100]!r}: must be ROLE/INDEX, for example worker/0")
    return TaskId(RoleName(match[1]), int(match[2]))


def _port(request: web.Request) -> int | None:
    port = _integer(request, "port")
    if port is not None and not 0 < port < 65536:
        raise BadRequest(f"port: Invalid value: {port}: must be between 1 and 65535")
    return port


def _integer(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is not None and not _NUMBER.fullmatch(text):
        raise BadRequest(f"{name}: Invalid value: {text[:100]!r}: must be a non-negative integer")
    return None if text is None else int(text)


def _wait_seconds(request: web.Request) -> float:
    text = request.query.get("wait")
    if text is None:
        return _MAX_WAIT_SECONDS
    if not _SECONDS.fullmatch(text):
        raise BadRequest(f"wait: Invalid value: {text[:100]!r}: must be a number of seconds")
    return min(float(text), _MAX_WAIT_SECONDS)


def _missing_response(missing: MissingPeers) -> web.Response:
    """Returns a 202 that names the missing tasks; the client repeats its request."""
    names = ", ".join(f"{task.role}-{task.index}" for task in missing.tasks)
    more = missing.count - len(missing.tasks)
    if more > 0:
        names += f" and {more} more"
    content = {
        "missing": [f"{task.role}/{task.index}" for task in missing.tasks],
        "count": missing.count,
        "message": f"waiting for addresses of {names}" if names else "waiting for a newer generation",
    }
    body = orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)
    return web.Response(status=202, body=body, content_type="application/json")


async def _files_response(
    request: web.Request, files: PeerFiles, segments: Sequence[bytes], names: Sequence[str]
) -> web.StreamResponse:
    """Sends the segments. A long response is written in chunks, and no copy of it is made."""
    headers = {}
    if sum(map(len, segments)) > _MIN_GZIP_BYTES and accepts_gzip(
        request.headers.get(hdrs.ACCEPT_ENCODING, "")
    ):
        segments, headers = files.gzip_cache.compress(segments), {hdrs.CONTENT_ENCODING: "gzip"}
    is_json = len(names) == 1 and names[0].endswith(".json")
    media_type = "application/json" if is_json else "text/plain"
    length = sum(map(len, segments))
    if length <= _CHUNK_BYTES:
        return web.Response(body=b"".join(segments), content_type=media_type, headers=headers)
    response = web.StreamResponse(headers=headers)
    response.content_type, response.content_length = media_type, length
    await response.prepare(request)
    for chunk in _chunks(segments):
        await response.write(chunk)
    return response


def _chunks(segments: Iterable[bytes]) -> Iterable[bytes | memoryview]:
    for segment in segments:
        view = memoryview(segment)
        yield from (view[start : start + _CHUNK_BYTES] for start in range(0, len(view), _CHUNK_BYTES))
