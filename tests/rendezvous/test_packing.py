"""Answers are packed as gzip, and what many share is packed once."""

import gzip
import subprocess

from hypothesis import given
from hypothesis import strategies as st

from launcher.rendezvous.peer_files import Packer

SHARED = b"10.0.0.1:46866," * 1000
OTHER = b"192.0.2.1 slots=1\n" * 1000


@given(st.lists(st.sampled_from([SHARED, OTHER, b"", b"own", b"\0" * 1023, b"\xff" * 1024, b"x" * 70_000])))
def test_whatever_is_packed_is_the_same_when_unpacked(pieces: list[bytes]) -> None:
    packer = Packer()

    for _ in range(2):
        assert gzip.decompress(b"".join(packer.gzip(pieces))) == b"".join(pieces)


def test_what_is_shared_is_packed_once() -> None:
    packer = Packer()

    one, other = packer.gzip([SHARED, b"one", OTHER]), packer.gzip([SHARED, b"other", OTHER])

    assert [a is b for a, b in zip(one, other, strict=True)] == [True, True, False, True, False]
    assert sum(map(len, one)) < len(SHARED) / 20


def test_nothing_is_kept_of_what_is_somebodys_own() -> None:
    packer = Packer()
    packer.gzip([SHARED, b"0", OTHER])
    kept = len(packer._packed) + len(packer._sums)

    for number in range(1, 100):
        packer.gzip([SHARED, str(number).encode(), OTHER])

    assert len(packer._packed) + len(packer._sums) == kept


def test_gzip_itself_can_read_it() -> None:
    packed = b"".join(Packer().gzip([SHARED, b"own", OTHER]))

    done = subprocess.run(["gzip", "-dc"], input=packed, capture_output=True, check=True, timeout=60)

    assert done.stdout == SHARED + b"own" + OTHER
