"""Which names may become a part of a path: the last check, whatever was stored and however it came there."""

#: Longer names no file system of Linux takes.
_MAX_BYTES = 255


def is_file_name(name: object) -> bool:
    """Whether *name* can only be an entry of the directory that it is joined to."""
    if not isinstance(name, str) or len(name.encode(errors="replace")) > _MAX_BYTES:
        return False
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name
