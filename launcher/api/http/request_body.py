"""Request bodies: read within the limits, decoded by their declared type, and converted to the stored API version."""

import re
from dataclasses import dataclass
from typing import Any

from aiohttp import hdrs, web

from launcher.api.http.request_types import PROTOBUF, STRATEGIC
from launcher.api.http.version_conversion import to_stored
from launcher.core.errors import BadRequest, TooLarge
from launcher.core.parsing.decoder import MAX_BODY_BYTES, Decoded, Media, decode_utf8
from launcher.core.parsing.json_reader import read_json
from launcher.core.parsing.yaml_reader import read_yaml

_YAML_TYPES = ("application/yaml", "text/yaml", "application/x-yaml", "text/x-yaml")
_ACCEPTED = "application/json, application/yaml"
_MAX_TYPE_CHARACTERS = 100
#: The default type of browsers and curl.
_FORM = "application/x-www-form-urlencoded"
#: The beginning of a YAML object without any newline: its lines were joined.
_JOINED_LINES = re.compile(rb"\s*[A-Za-z]+:\s*[^\r\n]*\Z")


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A body in the stored API version. *data* is what was sent, to explain errors."""

    data: bytes
    decoded: Decoded

    @property
    def value(self) -> Any:
        return self.decoded.value


async def read_body(request: web.Request, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Returns the whole body as it was sent. Raises TooLarge before more than *max_bytes* have been read."""
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise BadRequest("Content-Encoding is not supported: send the body uncompressed")
    if (request.content_length or 0) > max_bytes:
        raise too_large(max_bytes)
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > max_bytes:
            raise too_large(max_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def too_large(max_bytes: int = MAX_BODY_BYTES) -> TooLarge:
    """Returns the error for a body over the limit, in kube-apiserver's words."""
    return TooLarge(f"Request entity too large: limit is {max_bytes}")


def content_type(request: web.Request) -> str:
    """Returns the declared type of the body without parameters; empty if there is none."""
    # Not request.content_type, which has a default.
    declared = request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
    # Bytes that are not text cannot be repeated in an error message.
    return declared.encode(errors="replace").decode()[:_MAX_TYPE_CHARACTERS]


def request_media(request: web.Request) -> Media:
    """Returns the format of an object in the body; JSON by default. Raises HTTPUnsupportedMediaType."""
    declared = content_type(request)
    if declared in ("", "application/json"):
        return Media.JSON
    if declared in _YAML_TYPES:
        return Media.YAML
    raise unsupported_media_type(declared, _ACCEPTED)


def unsupported_media_type(declared: str, accepted: str) -> web.HTTPUnsupportedMediaType:
    """Returns the error for a body of another type, with a hint for common clients."""
    text = f"content type {declared or '(none)'} is not supported; supported types: {accepted}"
    if declared == _FORM:
        text += (
            "; curl sends this type by default: add -H 'Content-Type: application/yaml' (or "
            "application/json), and send the file unchanged with --data-binary @FILE"
        )
    elif declared == "multipart/form-data":
        text += "; instead of curl -F use --data-binary @FILE -H 'Content-Type: application/yaml'"
    elif declared == STRATEGIC:
        text += "; with kubectl patch add --type merge"
    elif declared == PROTOBUF:
        text += (
            "; with kubectl write it as YAML first: add --dry-run=client -o yaml to the command, and "
            "| kubectl create -f - after it"
        )
    elif declared == "text/plain":
        text += "; add -H 'Content-Type: application/yaml' (or application/json)"
    return web.HTTPUnsupportedMediaType(text=text)


async def decode_request(request: web.Request, media: Media) -> RequestBody:
    """Returns the decoded body in the stored API version. Raises TooLarge, BadRequest."""
    data = await read_body(request)
    return RequestBody(data, convert_decoded(request, decode(data, media)))


async def decode_request_object(request: web.Request, media: Media) -> RequestBody:
    """Like ``decode_request``, for a body that must be an object."""
    data = await read_body(request)
    return RequestBody(data, convert_decoded(request, decode_object(data, media)))


def convert_decoded(request: web.Request, decoded: Decoded) -> Decoded:
    """Returns a decoded body of *request* in the stored API version. Raises BadRequest."""
    return Decoded(to_stored(request, decoded.value, content_type(request)), decoded.duplicates)


def decode(data: bytes, media: Media) -> Decoded:
    """Returns the value in *data*. Raises TooLarge, BadRequest."""
    text = decode_utf8(data)
    if media is Media.JSON:
        return read_json(text)
    try:
        return read_yaml(text)
    except BadRequest as error:
        raise explain_syntax_error(error, data) from error


def explain_syntax_error(error: BadRequest, data: bytes) -> BadRequest:
    """Returns *error*, with a hint if curl has joined the lines of *data*."""
    if _JOINED_LINES.match(data):
        return BadRequest(
            f"{error}; the body is a single line, as if curl -d had removed the newlines of a file: "
            "send it with --data-binary @FILE"
        )
    return error


def decode_object(data: bytes, media: Media) -> Decoded:
    """Like ``decode``, for a body that must be an object."""
    decoded = decode(data, media)
    if not isinstance(decoded.value, dict):
        raise BadRequest("the body must be a single object with apiVersion, kind and metadata")
    return decoded
