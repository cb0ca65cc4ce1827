"""The check of names that become a part of a path, which is independent of admission."""

#: The limit of Linux filesystems.
_MAX_BYTES = 255


def is_file_name(name: object) -> bool:
    """Whether *name* is a single path component."""
    if not isinstance(name, str) or len(name.encode(errors="replace")) > _MAX_BYTES:
        return False
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name
