"""
The second name of Frameworks at the front door: the cluster has but the first.

Requests under the one go on under the other, and what comes back is renamed. So that clients find it, it is added to
what the cluster tells of its groups.
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, unquote

import orjson
from aiohttp import hdrs, web
from multidict import CIMultiDict

from launcher.api.http.api_group_alias import SECOND, by_second_name, lines_by_second_name
from launcher.api.http.content_negotiation import clauses_of
from launcher.api.middleware.request_info import call_of
from launcher.store.interface import FRAMEWORKS, Object

_OURS, _THEIRS = f"/apis/{FRAMEWORKS.group}", f"/apis/{SECOND.group}"
_OPENAPI = "/openapi/v3"
#: What a definition of OpenAPI is called, but for its end.
_OUR_DEFINITION, _THEIR_DEFINITION = (
    ".".join(reversed(kind.group.split("."))).encode() for kind in (FRAMEWORKS, SECOND)
)
#: What would let a client or the cluster skip an answer that is not the cluster's alone.
_COMPARED = (hdrs.IF_NONE_MATCH, hdrs.IF_MODIFIED_SINCE)


@dataclass(frozen=True, slots=True)
class Alias:
    """Where a request goes on to instead, and what becomes of the answer."""

    path: str
    #: The answer as it goes back: its whole body, or whole lines of one that *lasts*.
    renamed: Callable[[bytes], bytes]
    lasts: bool = False


def alias_of(request: web.BaseRequest) -> Alias | None:
    """How to rename what *request* is about; None where its path leads to nothing of ours."""
    # Unquoted before it is looked at, as kube-apiserver does: what is the same to it has to be the same here.
    path, query = unquote(request.rel_url.raw_path).rstrip("/"), request.rel_url.raw_query_string
    found = _alias(path)
    if found is None:
        return None
    where, renamed = quote(found[0]), found[1]
    onward = f"{where}?{query}" if query else where
    if call_of(request).long_running:
        return Alias(onward, lines_by_second_name, lasts=True)
    return Alias(onward, renamed)


def asks_plainly(headers: CIMultiDict[str]) -> None:
    """Let *headers* ask for what can be renamed: JSON, neither packed nor left out."""
    accepted = ",".join(headers.popall(hdrs.ACCEPT, []))
    words = [
        ";".join((media, *(f"{name}={value}" for name, value in said.items())))
        for media, said in clauses_of(accepted)
        if media in ("application/json", "application/*", "*/*")
    ]
    headers[hdrs.ACCEPT] = ",".join(words) or "application/json"
    for name in (hdrs.ACCEPT_ENCODING, *_COMPARED):
        headers.popall(name, None)
    headers[hdrs.ACCEPT_ENCODING] = "identity"


def _alias(path: str) -> tuple[str, Callable[[bytes], bytes]] | None:
    if path == "/apis":
        return path, _on_objects(_with_group)
    if path == _OPENAPI:
        return path, _on_objects(_with_document)
    if path.startswith(f"{_OPENAPI}{_THEIRS}/"):
        return path.replace(_THEIRS, _OURS, 1), _document
    if path in (_THEIRS, f"{_THEIRS}/{SECOND.version}"):
        return path.replace(_THEIRS, _OURS, 1), _on_objects(_group)
    if path.startswith(f"{_THEIRS}/"):
        return path.replace(_THEIRS, _OURS, 1), _on_objects(by_second_name)
    return None


def _on_objects(change: Callable[[Object], Object]) -> Callable[[bytes], bytes]:
    def renamed(body: bytes) -> bytes:
        return orjson.dumps(change(orjson.loads(body)), option=orjson.OPT_APPEND_NEWLINE)

    return renamed


def _with_group(told: Object) -> Object:
    """All groups, in either form of discovery, with the second name behind the others."""
    if "groups" in told:
        ours = [group for group in told["groups"] if group["name"] == FRAMEWORKS.group]
        others = [group for group in told["groups"] if group["name"] != SECOND.group]
        return {**told, "groups": [*others, *map(_group, ours)]}
    items = told.get("items") or []
    ours = [item for item in items if item["metadata"].get("name") == FRAMEWORKS.group]
    others = [item for item in items if item["metadata"].get("name") != SECOND.group]
    return {**told, "items": [*others, *map(_group, ours)]}


def _group(told: Object) -> Object:
    """What is told of our group, told of the other; short names and categories are the first name's."""
    renamed: Object = orjson.loads(
        orjson.dumps(told).replace(FRAMEWORKS.group.encode(), SECOND.group.encode())
    )
    versions = renamed.get("versions") or []
    for resource in [
        *(renamed.get("resources") or []),
        *(each for v in versions for each in v.get("resources", [])),
    ]:
        resource.pop("shortNames", None)
        resource.pop("categories", None)
    return renamed


def _with_document(told: Object) -> Object:
    """The index of the descriptions, with that of the second name."""
    paths = told.get("paths") or {}
    ours = paths.get(f"{_OURS}/{FRAMEWORKS.version}".removeprefix("/"))
    if ours is None:
        return told
    theirs = {**ours, "serverRelativeURL": ours["serverRelativeURL"].replace(_OURS, _THEIRS)}
    return {**told, "paths": {**paths, f"{_THEIRS}/{SECOND.version}".removeprefix("/"): theirs}}


def _document(body: bytes) -> bytes:
    renamed = body.replace(_OUR_DEFINITION, _THEIR_DEFINITION)
    return renamed.replace(FRAMEWORKS.group.encode(), SECOND.group.encode())
