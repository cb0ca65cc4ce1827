"""What a client has sent: read within the limits, by the type it is declared as, with a word for common mistakes."""

import re

from aiohttp import hdrs, web

from launcher.api.http.api_group_alias import to_internal
from launcher.core.errors import BadRequest, TooLarge
from launcher.core.parsing.decoder import MAX_BODY_BYTES, Decoded, Media, decode_utf8
from launcher.core.parsing.json_reader import read_json

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
#: What kubectl patch sends when it is told nothing else.
STRATEGIC = "application/strategic-merge-patch+json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_YAML_TYPES = ("application/yaml", "text/yaml", "application/x-yaml", "text/x-yaml")
_ACCEPTED = "application/json, application/yaml"
_LONGEST_TYPE = 100
#: What browsers and curl call a body when nobody has said what it is.
_FORM = "application/x-www-form-urlencoded"
#: The beginning of a YAML object; without any newline its lines have been glued together.
_GLUED = re.compile(rb"\s*[A-Za-z]+:\s*[^\r\n]*\Z")


async def body_of(request: web.Request, most: int = MAX_BODY_BYTES) -> bytes:
    """The whole body, in the terms of what is stored. Raises TooLarge before more than *most* bytes have been read."""
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise BadRequest("the body is compressed; send it as it is, without a Content-Encoding")
    if (request.content_length or 0) > most:
        raise too_large(most)
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > most:
            raise too_large(most)
        chunks.append(chunk)
    return to_internal(request, b"".join(chunks))


def too_large(most: int = MAX_BODY_BYTES) -> TooLarge:
    """A body over the limit, as kube-apiserver words it."""
    return TooLarge(f"Request entity too large: limit is {most}")


def content_type(request: web.Request) -> str:
    """The type that the body is declared as, without parameters; empty when the client said nothing."""
    # Not request.content_type, which makes something up where nothing was said.
    said = request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
    # Bytes that are no text cannot be told back to whoever sent them.
    return said.encode(errors="replace").decode()[:_LONGEST_TYPE]


def media_of(request: web.Request) -> Media:
    """What an object in the body is written in; JSON when nothing is said. Raises HTTPUnsupportedMediaType."""
    declared = content_type(request)
    if declared in ("", "application/json"):
        return Media.JSON
    if declared in _YAML_TYPES:
        return Media.YAML
    raise unsupported(declared, _ACCEPTED)


def unsupported(declared: str, accepted: str) -> web.HTTPUnsupportedMediaType:
    """The refusal of a body by its type, with what to type instead."""
    text = f"a body of type {declared or 'nothing'} is not accepted here; accepted are {accepted}"
    if declared == _FORM:
        text += (
            "; curl sends this type when it is told no other: add -H 'Content-Type: application/yaml' (or "
            "application/json), and send the file as it is with --data-binary @FILE"
        )
    elif declared == "multipart/form-data":
        text += "; instead of curl -F use --data-binary @FILE -H 'Content-Type: application/yaml'"
    elif declared == STRATEGIC:
        text += "; with kubectl patch say --type merge"
    elif declared == PROTOBUF:
        text += (
            "; with kubectl write it as YAML first: add --dry-run=client -o yaml to the command, and "
            "| kubectl create -f - behind it"
        )
    elif declared == "text/plain":
        text += "; add -H 'Content-Type: application/yaml' (or application/json)"
    return web.HTTPUnsupportedMediaType(text=text)


def decoded(data: bytes, media: Media) -> Decoded:
    """The value that *data* spells. Raises TooLarge, BadRequest with the way out."""
    text = decode_utf8(data)
    if media is Media.JSON:
        return read_json(text)
    # Slow to import, and most clients speak JSON.
    from launcher.core.parsing.yaml_reader import read_yaml

    try:
        return read_yaml(text)
    except BadRequest as error:
        raise explained(error, data) from error


def explained(error: BadRequest, data: bytes) -> BadRequest:
    """*error*, and what curl has done to *data* if that is the cause."""
    if _GLUED.match(data):
        return BadRequest(
            f"{error}; the whole body is one line, as if curl -d had taken the newlines out of a file: "
            "send it with --data-binary @FILE"
        )
    return error


def object_in(data: bytes, media: Media) -> Decoded:
    """As ``decoded``, of a body that must be one object."""
    value = decoded(data, media)
    if not isinstance(value.value, dict):
        raise BadRequest("the body has to be one object with apiVersion, kind and metadata")
    return value
