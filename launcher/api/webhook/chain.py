"""A certificate and its key, given to OpenSSL, which reads files alone, without any file on a disk."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from launcher.store.kube.tls import take_up


def show(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """
    From now on new connections of *context* are shown this certificate; those that are open go on as they are.

    Raises ssl.SSLError when the two, as PEM, are none or do not belong together; then nothing has changed.
    """
    with _file(certificate) as first, _file(key) as second:
        take_up(context, first, second)


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """The path of a file in memory that only this process can see."""
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
