"""Which names may become a part of a path: the last check, whatever was stored and however it came there."""


def is_file_name(name: object) -> bool:
    """Whether *name* can only be an entry of the directory that it is joined to."""
    return isinstance(name, str) and name not in ("", ".", "..") and "/" not in name and "\0" not in name
