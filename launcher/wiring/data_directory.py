"""The data directory of local mode. It contains Secrets, so only its owner has access."""

import os
import stat
from pathlib import Path

#: Permissions of the group and of other users.
OTHERS = 0o077
#: Directories used by several components; modes below them depend on the umask.
_DIRECTORIES = ("hosts", "logs", "pods")


def prepare(data: Path) -> str | None:
    """
    Creates the directory with mode 0700 and removes permissions of other users from its entries.

    The mode of an existing directory is not changed: returns a warning if other users can enter it, otherwise None.
    Raises OSError.
    """
    for directory in (data, *(data / name for name in _DIRECTORIES)):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.scandir(data) as entries:
        for entry in entries:
            _remove_permissions_of_others(entry)
    mode = stat.S_IMODE(data.stat().st_mode)
    if not mode & OTHERS:
        return None
    return f"data: other users can enter {data} (mode {mode:04o}); run: chmod 700 {data}"


def _remove_permissions_of_others(entry: os.DirEntry[str]) -> None:
    # A private directory also protects what is below it.
    status = entry.stat(follow_symlinks=False)
    is_file_or_directory = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    if is_file_or_directory and status.st_mode & OTHERS and status.st_uid == os.geteuid():
        os.chmod(entry.path, stat.S_IMODE(status.st_mode) & ~OTHERS, follow_symlinks=True)
