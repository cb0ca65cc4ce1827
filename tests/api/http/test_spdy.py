"""SPDY frames from bytes, and bytes of frames."""

import struct
import zlib
from collections.abc import Sequence

import pytest

from launcher.api.http.spdy import (
    HEADER_DICTIONARY,
    Frame,
    OpenStream,
    Ping,
    ResetStream,
    SpdyDecoder,
    SpdyEncoder,
    SpdyError,
    StreamData,
)


def control(kind: int, payload: bytes, flags: int = 0) -> bytes:
    """The bytes of a control frame."""
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(payload)) + payload


def block(**headers: str) -> bytes:
    """Headers before their compression."""
    texts = [text.encode() for item in headers.items() for text in item]
    return struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)


def compressed(*blocks: bytes) -> Sequence[bytes]:
    """The blocks, each compressed with the state of those before."""
    compressor = zlib.compressobj(zdict=HEADER_DICTIONARY)
    return [compressor.compress(each) + compressor.flush(zlib.Z_SYNC_FLUSH) for each in blocks]


def test_the_dictionary_is_that_of_the_specification() -> None:
    # The checksum by which both sides of a connection identify it.
    assert (len(HEADER_DICTIONARY), zlib.adler32(HEADER_DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_frames_are_decoded_in_pieces_of_any_size() -> None:
    first, second = compressed(block(streamtype="error", port="80"), block(streamtype="data", port="80"))
    data = b"".join(
        [
            control(1, struct.pack(">IIH", 1, 0, 0) + first, flags=1),
            control(4, struct.pack(">I", 0)),
            control(1, struct.pack(">IIH", 3, 0, 0) + second),
            struct.pack(">II", 3, 5) + b"hello",
            control(9, struct.pack(">II", 3, 65536)),
            control(6, struct.pack(">I", 7)),
            struct.pack(">II", 3, 1 << 24),
            control(3, struct.pack(">II", 3, 5)),
            control(7, struct.pack(">II", 3, 0)),
        ]
    )
    frames: list[Frame] = [
        OpenStream(1, {"streamtype": "error", "port": "80"}, is_last=True),
        OpenStream(3, {"streamtype": "data", "port": "80"}),
        StreamData(3, b"hello"),
        Ping(7),
        StreamData(3, b"", is_last=True),
        ResetStream(3),
    ]

    for size in (1, 7, len(data)):
        decoder = SpdyDecoder()
        decoded = [
            frame for start in range(0, len(data), size) for frame in decoder.feed(data[start : start + size])
        ]
        assert decoded == frames


def test_the_headers_of_replies_are_one_compressed_stream() -> None:
    encoder, decompressor = SpdyEncoder(), zlib.decompressobj(zdict=HEADER_DICTIONARY)

    for stream in (1, 3):
        reply = encoder.reply(stream)
        assert struct.unpack(">HHII", reply[:12]) == (0x8003, 2, len(reply) - 8, stream)
        assert decompressor.decompress(reply[12:]) == struct.pack(">I", 0)


def test_other_frames_are_encoded() -> None:
    encoder = SpdyEncoder()

    assert encoder.data(3, b"ab", is_last=True) == bytes.fromhex("00000003 01000002") + b"ab"
    assert encoder.data(3, b"ab") == bytes.fromhex("00000003 00000002") + b"ab"
    assert encoder.ping(9) == bytes.fromhex("80030006 00000004 00000009")
    assert encoder.reset(3, 1) == bytes.fromhex("80030003 00000008 00000003 00000001")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(struct.pack(">II", 3, 2**20 + 1), "1048577 bytes", id="a large frame"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", "bytes", id="HTTP"),
        pytest.param(control(3, b"\0"), "type 3", id="a short frame"),
        pytest.param(control(1, bytes(10) + b"not zlib"), "type 1", id="headers that are not compressed"),
        pytest.param(
            control(1, bytes(10) + compressed(block(a="x" * 70000))[0]), "65536", id="headers that expand"
        ),
        pytest.param(
            control(1, bytes(10) + compressed(b"\xff" * 8)[0]), "type 1", id="headers that are not complete"
        ),
    ],
)
def test_other_bytes_are_an_error(data: bytes, text: str) -> None:
    with pytest.raises(SpdyError, match=text):
        list(SpdyDecoder().feed(data))
