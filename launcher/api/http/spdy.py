"""
SPDY/3.1 as far as port forwarding uses it: frames from bytes, and bytes of frames. It does no input and output.

Streams have no windows: neither kubectl nor the kubelet limits them, and WINDOW_UPDATE and SETTINGS are ignored.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

#: Types of control frames.
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING = 1, 2, 3, 6
_CONTROL, _VERSION = 0x8000, 3
_FIN = 1
_STREAM_ID = 2**31 - 1
#: The status of RST_STREAM.
PROTOCOL_ERROR = 1
#: The largest frame that is accepted; kubectl sends data in frames of 32 KiB.
_MAX_FRAME_BYTES = 2**20
_MAX_HEADER_BYTES = 2**16

#: The dictionary of the compression of headers: draft-mbelshe-httpbis-spdy-00, 2.6.10.1.
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _sized(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode()


HEADER_DICTIONARY = b"".join(_sized(word.replace("_", " ")) for word in _WORDS.split()) + _TEXT.encode()


class SpdyError(Exception):
    """The bytes are not SPDY/3.1, or exceed a limit."""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """The client opens a stream. It sends no data if *is_last*."""

    stream: int
    headers: Mapping[str, str]
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class StreamData:
    """Data of a stream, the last of its sender if *is_last*."""

    stream: int
    data: bytes
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class ResetStream:
    """The client does not use the stream any more."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """The client requests the same frame as a response."""

    number: int


Frame = OpenStream | StreamData | ResetStream | Ping


class SpdyDecoder:
    """The frames that a client sends."""

    def __init__(self) -> None:
        self._input = b""
        self._headers = zlib.decompressobj(zdict=HEADER_DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yields the frames that *data* completes. Raises SpdyError."""
        self._input += data
        while len(self._input) >= 8:
            first, second, flags_and_length = struct.unpack(">HHI", self._input[:8])
            flags, length = flags_and_length >> 24, flags_and_length & 0xFFFFFF
            if length > _MAX_FRAME_BYTES:
                raise SpdyError(f"a frame of {length} bytes is longer than {_MAX_FRAME_BYTES}")
            if len(self._input) < 8 + length:
                return
            payload, self._input = self._input[8 : 8 + length], self._input[8 + length :]
            if not first & _CONTROL:
                yield StreamData((first << 16) | second, payload, bool(flags & _FIN))
            elif (frame := self._control_frame(second, flags, payload)) is not None:
                yield frame

    def _control_frame(self, kind: int, flags: int, payload: bytes) -> Frame | None:
        """Returns None for a frame that is ignored."""
        try:
            if kind == _SYN_STREAM:
                stream = struct.unpack_from(">I", payload)[0] & _STREAM_ID
                return OpenStream(stream, self._decompress(payload[10:]), bool(flags & _FIN))
            if kind == _RST_STREAM:
                return ResetStream(struct.unpack_from(">I", payload)[0] & _STREAM_ID)
            return Ping(struct.unpack_from(">I", payload)[0]) if kind == _PING else None
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise SpdyError(f"a control frame of type {kind} is invalid: {error}") from error

    def _decompress(self, block: bytes) -> dict[str, str]:
        data = self._headers.decompress(block, _MAX_HEADER_BYTES)
        if self._headers.unconsumed_tail:
            raise SpdyError(f"the headers of a stream are longer than {_MAX_HEADER_BYTES} bytes")
        (count,), position = struct.unpack_from(">I", data), 4
        texts = []
        for _ in range(2 * count):
            (length,) = struct.unpack_from(">I", data, position)
            texts.append(data[position + 4 : position + 4 + length].decode())
            position += 4 + length
        return dict(zip(texts[::2], texts[1::2], strict=True))


class SpdyEncoder:
    """The bytes of the frames that a server sends."""

    def __init__(self) -> None:
        self._headers = zlib.compressobj(zdict=HEADER_DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """Accepts a stream, without headers."""
        block = self._headers.compress(struct.pack(">I", 0)) + self._headers.flush(zlib.Z_SYNC_FLUSH)
        return _control_frame(_SYN_REPLY, struct.pack(">I", stream) + block)

    def reset(self, stream: int, status: int) -> bytes:
        """Rejects or aborts a stream."""
        return _control_frame(_RST_STREAM, struct.pack(">II", stream, status))

    def data(self, stream: int, data: bytes, *, is_last: bool = False) -> bytes:
        """Data of a stream. *data* is at most 16 MiB."""
        return struct.pack(">II", stream, (_FIN if is_last else 0) << 24 | len(data)) + data

    def ping(self, number: int) -> bytes:
        """The response to a ping."""
        return _control_frame(_PING, struct.pack(">I", number))


def _control_frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", _CONTROL | _VERSION, kind, len(payload)) + payload
