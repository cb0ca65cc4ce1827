"""Answers in gzip's form, most of which was packed before anybody asked."""

import zlib
from collections.abc import Sequence

#: Names no file, no time and no system, as nobody needs to know them.
_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
#: A last block with nothing in it.
_END = b"\x03\x00"
#: Bytes from which on a piece is one that many share.
_SHARED = 1024


class Packer:
    """
    Packs answers that are made of pieces; a piece that many share is packed once.

    Each piece is packed for itself, to a whole number of bytes and without a word about the others, so that packed
    pieces can stand one behind the other.
    """

    def __init__(self) -> None:
        self._packed: dict[bytes, bytes] = {}
        #: The checksum after a piece, by the one before; kept only for what every answer begins with.
        self._sums: dict[tuple[int, bytes], int] = {}

    def gzip(self, pieces: Sequence[bytes]) -> list[bytes]:
        """The pieces as one gzip file, again in pieces."""
        packed, checksum, at_beginning = [_HEAD], 0, True
        for piece in pieces:
            if len(piece) < _SHARED:
                at_beginning = False
                packed.append(_deflated(piece, zlib.Z_BEST_SPEED))
            else:
                packed.append(self._once(piece))
            checksum = self._sum(checksum, piece) if at_beginning else zlib.crc32(piece, checksum)
        size = sum(map(len, pieces)) % 2**32
        return [*packed, _END + checksum.to_bytes(4, "little") + size.to_bytes(4, "little")]

    def _once(self, piece: bytes) -> bytes:
        if piece not in self._packed:
            self._packed[piece] = _deflated(piece, zlib.Z_DEFAULT_COMPRESSION)
        return self._packed[piece]

    def _sum(self, before: int, piece: bytes) -> int:
        if (before, piece) not in self._sums:
            self._sums[before, piece] = zlib.crc32(piece, before)
        return self._sums[before, piece]


def _deflated(piece: bytes, level: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
