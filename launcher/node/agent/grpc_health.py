"""
The gRPC health check of probes: one call of ``grpc.health.v1.Health/Check`` over HTTP/2, without TLS.

Imports h2, which no other part needs, so it is imported when a container has such a probe.
"""

import asyncio
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

from launcher.core.protobuf_wire import VARINT, encoded_varint, wire_fields

_PATH = "/grpc.health.v1.Health/Check"
_CHUNK_BYTES = 65536
#: A health response has a few bytes.
_MAX_RESPONSE_BYTES = 4096
#: A byte that is 0 without compression, and the length of the message.
_PREFIX_BYTES = 5
_UNIMPLEMENTED = "12"
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


class HealthCheckFailed(Exception):
    """The server does not respond with a health status."""


@dataclass(slots=True)
class _Response:
    headers: dict[str, str] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)
    is_complete: bool = False


async def health_status(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, service: str, user_agent: str
) -> str:
    """The status of *service*, such as ``SERVING``. Raises HealthCheckFailed, OSError."""
    try:
        connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        connection.initiate_connection()
        _send_request(connection, authority, service, user_agent)
        response = await _receive(connection, reader, writer)
        return _status_of(response)
    except (ProtocolError, ValueError, IndexError) as error:
        raise HealthCheckFailed(f"the response is not valid: {error}") from error


def _send_request(connection: H2Connection, authority: str, service: str, user_agent: str) -> None:
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", _PATH),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", user_agent),
    ]
    name = service.encode()
    message = b"\x0a" + encoded_varint(len(name)) + name if name else b""
    stream = connection.get_next_available_stream_id()
    connection.send_headers(stream, headers)
    connection.send_data(stream, b"\0" + len(message).to_bytes(4) + message, end_stream=True)


async def _receive(
    connection: H2Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> _Response:
    response = _Response()
    while not response.is_complete:
        writer.write(connection.data_to_send())
        await writer.drain()
        data = await reader.read(_CHUNK_BYTES)
        if not data:
            raise HealthCheckFailed("the server has closed the connection")
        for event in connection.receive_data(data):
            _add(response, event)
    return response


def _add(response: _Response, event: Event) -> None:
    match event:
        case ResponseReceived(headers=headers) | TrailersReceived(headers=headers):
            response.headers |= {str(name): str(value) for name, value in headers or ()}
        case DataReceived(data=data):
            response.data += data or b""
            if len(response.data) > _MAX_RESPONSE_BYTES:
                raise HealthCheckFailed("the response is too long")
        case StreamEnded():
            response.is_complete = True
        case StreamReset(error_code=code) | ConnectionTerminated(error_code=code):
            if not response.is_complete:
                reason = code.name if isinstance(code, ErrorCodes) else code
                raise HealthCheckFailed(f"the server has ended the call: {reason}")
        case _:
            pass


def _status_of(response: _Response) -> str:
    code = response.headers.get("grpc-status")
    if code == _UNIMPLEMENTED:
        raise HealthCheckFailed("the server does not implement grpc.health.v1.Health")
    if code != "0":
        http = response.headers.get(":status")
        reason = response.headers.get("grpc-message") or f"HTTP status {http}, grpc-status {code}"
        raise HealthCheckFailed(f"health rpc failed: {reason}")
    length = int.from_bytes(response.data[1:_PREFIX_BYTES])
    message = bytes(response.data[_PREFIX_BYTES:])
    if len(response.data) < _PREFIX_BYTES or response.data[0] or len(message) != length:
        raise HealthCheckFailed("the response is not one message without compression")
    fields = wire_fields(message)
    numbers = {number: int(content) for number, wire_type, content in fields if wire_type == VARINT}
    status = numbers.get(1, 0)
    return _STATUSES[status] if status < len(_STATUSES) else str(status)
