"""
FrameworkController's API group in the proxy: the cluster has only the launcher's own group.

Requests to the alias are forwarded to the launcher's group, and responses are converted. The alias is added to the
discovery and OpenAPI documents of the cluster.
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, unquote

import orjson
from aiohttp import hdrs, web
from multidict import CIMultiDict

from launcher.api.api_resources import ALIAS_FRAMEWORKS
from launcher.api.http.api_group_alias import AliasConversion
from launcher.api.http.content_negotiation import accept_clauses
from launcher.api.http.version_conversion import convert_all, convert_lines, set_conversion
from launcher.api.middleware.request_info import request_info
from launcher.store.interface import FRAMEWORKS, Object

_GROUP_PATH, _ALIAS_PATH = f"/apis/{FRAMEWORKS.group}", f"/apis/{ALIAS_FRAMEWORKS.group}"
_OPENAPI = "/openapi/v3"
#: The prefixes of the names of OpenAPI definitions.
_DEFINITION, _ALIAS_DEFINITION = (
    ".".join(reversed(kind.group.split("."))).encode() for kind in (FRAMEWORKS, ALIAS_FRAMEWORKS)
)
#: Conditional headers: a response that is converted is not the cluster's alone.
_CONDITIONAL_HEADERS = (hdrs.IF_NONE_MATCH, hdrs.IF_MODIFIED_SINCE)
_CONVERSION = AliasConversion()


@dataclass(frozen=True, slots=True)
class Alias:
    """The path to which a request is forwarded, and the conversion of the response."""

    path: str
    #: Converts a whole body, or whole lines of a *streaming* one.
    convert: Callable[[bytes], bytes]
    streaming: bool = False


def resolve_alias(request: web.BaseRequest) -> Alias | None:
    """Returns how to forward *request*, and sets its conversion; None if its path needs none."""
    # Unquoted first, as in kube-apiserver: both must see the same path.
    path, query = unquote(request.rel_url.raw_path).rstrip("/"), request.rel_url.raw_query_string
    resolved = _resolve(path)
    if resolved is None:
        return None
    if path.startswith(f"{_ALIAS_PATH}/"):
        set_conversion(request, _CONVERSION)
    upstream_path, convert = quote(resolved[0]), resolved[1]
    upstream_path = f"{upstream_path}?{query}" if query else upstream_path
    if request_info(request).long_running:
        return Alias(upstream_path, _convert_lines, streaming=True)
    return Alias(upstream_path, convert)


def accept_convertible(headers: CIMultiDict[str]) -> None:
    """Changes *headers* to accept only uncompressed JSON, and removes conditions."""
    accepted = ",".join(headers.popall(hdrs.ACCEPT, []))
    clauses = [
        ";".join((media, *(f"{name}={value}" for name, value in parameters.items())))
        for media, parameters in accept_clauses(accepted)
        if media in ("application/json", "application/*", "*/*")
    ]
    headers[hdrs.ACCEPT] = ",".join(clauses) or "application/json"
    for name in (hdrs.ACCEPT_ENCODING, *_CONDITIONAL_HEADERS):
        headers.popall(name, None)
    headers[hdrs.ACCEPT_ENCODING] = "identity"


def _resolve(path: str) -> tuple[str, Callable[[bytes], bytes]] | None:
    if path == "/apis":
        return path, _on_json(_add_group)
    if path == _OPENAPI:
        return path, _on_json(_add_document)
    if path.startswith(f"{_OPENAPI}{_ALIAS_PATH}/"):
        return path.replace(_ALIAS_PATH, _GROUP_PATH, 1), _convert_document
    if path in (_ALIAS_PATH, f"{_ALIAS_PATH}/{ALIAS_FRAMEWORKS.version}"):
        return path.replace(_ALIAS_PATH, _GROUP_PATH, 1), _on_json(_convert_group)
    if path.startswith(f"{_ALIAS_PATH}/"):
        return path.replace(_ALIAS_PATH, _GROUP_PATH, 1), _on_json(_convert_objects)
    return None


def _on_json(convert: Callable[[Object], Object]) -> Callable[[bytes], bytes]:
    def convert_body(body: bytes) -> bytes:
        return orjson.dumps(convert(orjson.loads(body)), option=orjson.OPT_APPEND_NEWLINE)

    return convert_body


def _convert_objects(value: Object) -> Object:
    return convert_all(value, _CONVERSION.to_requested)


def _convert_lines(lines: bytes) -> bytes:
    return convert_lines(lines, _CONVERSION.to_requested)


def _add_group(discovery: Object) -> Object:
    """Returns the discovery document, of either format, with the alias as the last group."""
    if "groups" in discovery:
        own = [group for group in discovery["groups"] if group["name"] == FRAMEWORKS.group]
        others = [group for group in discovery["groups"] if group["name"] != ALIAS_FRAMEWORKS.group]
        return {**discovery, "groups": [*others, *map(_convert_group, own)]}
    items = discovery.get("items") or []
    own = [item for item in items if item["metadata"].get("name") == FRAMEWORKS.group]
    others = [item for item in items if item["metadata"].get("name") != ALIAS_FRAMEWORKS.group]
    return {**discovery, "items": [*others, *map(_convert_group, own)]}


def _convert_group(group: Object) -> Object:
    """Returns the entry of the alias; short names and categories belong to the launcher's group."""
    converted: Object = orjson.loads(
        orjson.dumps(group).replace(FRAMEWORKS.group.encode(), ALIAS_FRAMEWORKS.group.encode())
    )
    versions = converted.get("versions") or []
    for resource in [
        *(converted.get("resources") or []),
        *(resource for version in versions for resource in version.get("resources", [])),
    ]:
        resource.pop("shortNames", None)
        resource.pop("categories", None)
    return converted


def _add_document(index: Object) -> Object:
    """Returns the index of the OpenAPI documents with the alias."""
    paths = index.get("paths") or {}
    own = paths.get(f"{_GROUP_PATH}/{FRAMEWORKS.version}".removeprefix("/"))
    if own is None:
        return index
    alias = {**own, "serverRelativeURL": own["serverRelativeURL"].replace(_GROUP_PATH, _ALIAS_PATH)}
    return {
        **index,
        "paths": {**paths, f"{_ALIAS_PATH}/{ALIAS_FRAMEWORKS.version}".removeprefix("/"): alias},
    }


def _convert_document(body: bytes) -> bytes:
    converted = body.replace(_DEFINITION, _ALIAS_DEFINITION)
    return converted.replace(FRAMEWORKS.group.encode(), ALIAS_FRAMEWORKS.group.encode())
