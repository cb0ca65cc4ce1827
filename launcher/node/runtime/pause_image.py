"""
The image of sandbox containers, made here, so that no registry is needed.

It has one file: a program that waits for ever.
"""

import io
import platform
import struct
import tarfile

IMAGE = "framework-launcher.local/pause:1"
PROGRAM = "pause"
#: The ELF machine, and the code of a loop around a system call without an end: pause() or ppoll(NULL, 0, NULL, NULL).
_CODE = {
    "x86_64": (62, "6a22 58 0f05 ebf9"),
    "aarch64": (183, "000080d2 010080d2 020080d2 030080d2 280980d2 010000d4 faffff17"),
}
_LOAD_ADDRESS, _HEADER_BYTES = 0x400000, 120


def has_pause_program() -> bool:
    """Whether there is a program for sandbox containers on this machine."""
    return platform.machine() in _CODE


def pause_program() -> bytes:
    """A static ELF program that waits until it is killed."""
    machine, text = _CODE[platform.machine()]
    code = bytes.fromhex(text)
    entry, size = _LOAD_ADDRESS + _HEADER_BYTES, _HEADER_BYTES + len(code)
    # 64 bits, little-endian; an executable with one program header, which follows.
    identification = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    # One readable and executable segment: the whole file.
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _LOAD_ADDRESS, _LOAD_ADDRESS, size, size, 0x10000)
    return identification + header + segment + code


def pause_image() -> bytes:
    """The files of the image, as a tar archive."""
    program, buffer = pause_program(), io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo(PROGRAM)
        entry.size, entry.mode = len(program), 0o755
        tar.addfile(entry, io.BytesIO(program))
    return buffer.getvalue()
