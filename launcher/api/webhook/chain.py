"""A certificate and its key, given to OpenSSL, which reads files alone, without any file on a disk."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from launcher.api.certificate import server_context


def show(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """
    From now on new connections of *context* are shown this certificate; those that are open go on as they are.

    Raises ssl.SSLError when the two, as PEM, are none or do not belong together; then nothing has changed.
    """
    with _file(certificate) as first, _file(key) as second:
        # Tried on another context: one that has taken a certificate whose key does not fit has neither.
        server_context().load_cert_chain(first, second)
        context.load_cert_chain(first, second)


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """The path of a file in memory that only this process can see."""
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
