"""
``/rendezvous/v1``: where pods ask for their peers.

Nobody here is known to the API: what counts is the token of an attempt, and it opens nothing else.
"""

import re
from collections.abc import Iterable, Sequence

import orjson
from aiohttp import hdrs, web

from launcher.core.errors import BadRequest, Forbidden
from launcher.core.spec import RoleName
from launcher.rendezvous.peer_files import ALL, FRAMEWORK, HOSTS_JSON, NAMES, TF_CONFIG, Files, TaskId
from launcher.rendezvous.programs import program
from launcher.rendezvous.session import MissingPeers, PeerRequest, RendezvousSession
from launcher.rendezvous.session_manager import SessionManager
from launcher.rendezvous.tokens import Tokens

BASE = "/rendezvous/v1"
#: Seconds for which one question may last.
_LONGEST = 300.0
#: Bytes that are handed on at once: what a client does not take is kept in memory.
_AT_ONCE = 64 * 1024
#: Bytes from which on an answer is packed for those who take it so.
_WORTH_PACKING = 4 * 1024
_GZIP = re.compile(r"(?:^|,)\s*(?:x-)?gzip\s*(?:$|,|;(?!\s*q=0(?:\.0*)?\s*(?:$|,)))")
_TASK = re.compile(r"([a-z0-9]{1,63})/(0|[1-9][0-9]{0,9})")
_NUMBER = re.compile(r"[0-9]{1,18}")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def address_of(base: str, namespace: str, framework: str, attempt: int) -> str:
    """Where the pods of that attempt ask, of a launcher that is found at *base*."""
    return f"{base.rstrip('/')}{BASE}/namespaces/{namespace}/frameworks/{framework}/attempts/{attempt}"


class Rendezvous:
    """The routes."""

    def __init__(self, rooms: SessionManager, tokens: Tokens) -> None:
        self._rooms, self._tokens = rooms, tokens

    def add_to(self, app: web.Application) -> None:
        """Let *app* serve them."""
        attempt = address_of("", "{namespace}", "{name}", 0).removesuffix("0")
        app.router.add_get(attempt + "{attempt:[0-9]{1,10}}", self.attempt)
        app.router.add_get(f"{BASE}/programs/{{name}}", self.program)

    async def attempt(self, request: web.Request) -> web.StreamResponse:
        """``GET …/attempts/{attempt}``: where everybody is, as soon as everybody is there."""
        attempt = int(request.match_info["attempt"])
        uid = await self._tokens.verify_token(_token(request), attempt)
        names = _names(request.query.get("format", HOSTS_JSON))
        asker = _asker(request.query.get("task"))
        if TF_CONFIG in names and len(names) == 1 and asker is None:
            raise BadRequest(f"format={TF_CONFIG} is another one for each task: add task=ROLE/INDEX")
        ask = PeerRequest(
            uid=uid,
            attempt=attempt,
            asker=asker,
            after=_whole(request, "after") or 0,
            port=_port(request),
        )
        key = (request.match_info["namespace"], request.match_info["name"])
        room, found = await self._rooms.answer(key, ask, _seconds(request))
        if isinstance(found, MissingPeers):
            return _patience(found)
        pieces = await self._pieces(room, found, names, asker)
        packed = sum(map(len, pieces)) > _WORTH_PACKING and _takes_gzip(request)
        return await _sent(request, found.packer.gzip(pieces) if packed else pieces, names, packed=packed)

    async def _pieces(
        self, room: RendezvousSession, files: Files, names: Sequence[str], asker: TaskId | None
    ) -> list[bytes]:
        parts = [
            (name, (await room.framework(files),) if name == FRAMEWORK else files.pieces(name, asker))
            for name in names
        ]
        if len(parts) > 1:
            return list(files.together(parts))
        return list(parts[0][1]) or [b"{}\n"]

    async def program(self, request: web.Request) -> web.Response:
        """``GET /rendezvous/v1/programs/{name}``: a program for users' containers, as text."""
        return web.Response(text=program(request.match_info["name"]), content_type="text/x-shellscript")


def _token(request: web.Request) -> str:
    given = request.headers.getall(hdrs.AUTHORIZATION, [])
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer":
        raise Forbidden("a token is needed: send LAUNCHER_TOKEN as `Authorization: Bearer TOKEN`")
    return token.strip()


def _names(text: str) -> tuple[str, ...]:
    if text == "all":
        return ALL
    names = tuple(text.split(","))
    for name in names:
        if name not in NAMES:
            raise BadRequest(f"format: there is no {name[:100]!r}; there are all, {', '.join(NAMES)}")
    return names


def _asker(text: str | None) -> TaskId | None:
    if text is None:
        return None
    found = _TASK.fullmatch(text)
    if found is None:
        raise BadRequest(f"task: {text[:100]!r} is not ROLE/INDEX; for instance worker/0")
    return TaskId(RoleName(found[1]), int(found[2]))


def _port(request: web.Request) -> int | None:
    port = _whole(request, "port")
    if port is not None and not 0 < port < 65536:
        raise BadRequest(f"port: {port} is not from 1 to 65535")
    return port


def _whole(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is not None and not _NUMBER.fullmatch(text):
        raise BadRequest(f"{name}: {text[:100]!r} is not a whole number")
    return None if text is None else int(text)


def _seconds(request: web.Request) -> float:
    text = request.query.get("wait")
    if text is None:
        return _LONGEST
    if not _SECONDS.fullmatch(text):
        raise BadRequest(f"wait: {text[:100]!r} is not a number of seconds")
    return min(float(text), _LONGEST)


def _patience(missing: MissingPeers) -> web.Response:
    """Whoever has waited in vain is told for whom, and may ask again."""
    more = missing.count - len(missing.names)
    names = ", ".join(missing.names) + (f" and {more} more" if more > 0 else "")
    message = f"no address yet of {names}" if names else "nothing is newer than that generation"
    told = {"missing": list(missing.names), "count": missing.count, "message": message}
    body = orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)
    return web.Response(status=202, body=body, content_type="application/json")


def _takes_gzip(request: web.Request) -> bool:
    return _GZIP.search(request.headers.get(hdrs.ACCEPT_ENCODING, "")) is not None


async def _sent(
    request: web.Request, pieces: Sequence[bytes], names: Sequence[str], *, packed: bool
) -> web.StreamResponse:
    """The answer: what is long goes out in parts, no faster than it is taken, and is nobody's own copy."""
    length = sum(map(len, pieces))
    is_json = len(names) == 1 and names[0].endswith(".json")
    media = "application/json" if is_json else "text/plain"
    headers = {hdrs.CONTENT_ENCODING: "gzip"} if packed else {}
    if length <= _AT_ONCE:
        return web.Response(body=b"".join(pieces), content_type=media, headers=headers)
    response = web.StreamResponse(headers=headers)
    response.content_type, response.content_length = media, length
    await response.prepare(request)
    for part in _parts(pieces):
        await response.write(part)
    return response


def _parts(pieces: Iterable[bytes]) -> Iterable[bytes | memoryview]:
    for piece in pieces:
        view = memoryview(piece)
        yield from (view[first : first + _AT_ONCE] for first in range(0, len(view), _AT_ONCE))
