"""The data directory of local mode: it holds Secrets, so its content is for its owner alone."""

import os
import stat
from pathlib import Path

#: The permissions of a group and of all other users.
OTHERS = 0o077
#: Directories that several parts of the launcher write to; the modes below them are those of the umask.
_DIRECTORIES = ("hosts", "logs", "pods")


def prepare(data: Path) -> str | None:
    """
    Creates the directory for its owner alone, and takes the permissions of other users from everything in it.

    The mode of a directory that exists is the admin's: the result is a warning when others can enter it, else None.
    Raises OSError.
    """
    for directory in (data, *(data / name for name in _DIRECTORIES)):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.scandir(data) as entries:
        for entry in entries:
            _close_to_others(entry)
    mode = stat.S_IMODE(data.stat().st_mode)
    if not mode & OTHERS:
        return None
    return f"data: other users can enter {data} (mode {mode:04o}); run: chmod 700 {data}"


def _close_to_others(entry: os.DirEntry[str]) -> None:
    # A directory closed here also protects what is below it.
    status = entry.stat(follow_symlinks=False)
    ours = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    if ours and status.st_mode & OTHERS and status.st_uid == os.geteuid():
        os.chmod(entry.path, stat.S_IMODE(status.st_mode) & ~OTHERS, follow_symlinks=True)
