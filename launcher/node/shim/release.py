"""Which keeper this is: one of another release speaks and writes otherwise."""

import os
import zlib


def release() -> str:
    """The same for the same program text, and only then; a launcher and its keeper compare theirs."""
    folder = os.path.dirname(__file__)
    sum_ = 0
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(f"{folder}/{name}", "rb") as file:
                sum_ = zlib.crc32(file.read(), sum_)
    return f"{sum_:08x}"
