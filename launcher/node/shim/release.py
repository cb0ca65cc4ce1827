"""The release of the shim: the protocol and the records of another one may differ."""

import os
import zlib


def release() -> str:
    """A checksum of the shim's source files; the launcher replaces a shim whose release is not its own."""
    folder = os.path.dirname(__file__)
    checksum = 0
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(f"{folder}/{name}", "rb") as file:
                checksum = zlib.crc32(file.read(), checksum)
    return f"{checksum:08x}"
