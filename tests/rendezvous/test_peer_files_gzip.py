"""Responses are compressed with gzip, and shared segments are compressed once."""

import gzip
import subprocess

from hypothesis import given
from hypothesis import strategies as st

from launcher.rendezvous.peer_files import GzipCache

SHARED = b"10.0.0.1:46866," * 1000
OTHER = b"192.0.2.1 slots=1\n" * 1000


@given(st.lists(st.sampled_from([SHARED, OTHER, b"", b"own", b"\0" * 1023, b"\xff" * 1024, b"x" * 70_000])))
def test_decompression_returns_the_original_segments(segments: list[bytes]) -> None:
    cache = GzipCache()

    for _ in range(2):
        assert gzip.decompress(b"".join(cache.compress(segments))) == b"".join(segments)


def test_shared_segments_are_compressed_once() -> None:
    cache = GzipCache()

    first, second = cache.compress([SHARED, b"one", OTHER]), cache.compress([SHARED, b"other", OTHER])

    assert [a is b for a, b in zip(first, second, strict=True)] == [True, True, False, True, False]
    assert sum(map(len, first)) < len(SHARED) / 20


def test_segments_of_a_single_task_are_not_cached() -> None:
    cache = GzipCache()
    cache.compress([SHARED, b"0", OTHER])
    cached = len(cache._compressed) + len(cache._checksums)

    for number in range(1, 100):
        cache.compress([SHARED, str(number).encode(), OTHER])

    assert len(cache._compressed) + len(cache._checksums) == cached


def test_the_gzip_program_decompresses_it() -> None:
    compressed = b"".join(GzipCache().compress([SHARED, b"own", OTHER]))

    done = subprocess.run(["gzip", "-dc"], input=compressed, capture_output=True, check=True, timeout=60)

    assert done.stdout == SHARED + b"own" + OTHER
