"""A unix socket to listen on: only its owner can connect."""

import os
import socket
import stat
from errno import EACCES, EADDRINUSE, EEXIST
from pathlib import Path

#: What stands before the path of a socket where an address or a URL could stand.
UNIX = "unix:"
#: Bytes of a path that the kernel takes, without the zero at its end.
LONGEST_SOCKET_PATH = 107
_CONNECT_SECONDS = 5.0


class UnixListener(socket.socket):
    """
    A listening socket at *path*, of mode 0600 from its first moment, removed when it is closed.

    The socket of a process that has ended is replaced. Raises OSError for one that is in use, for another kind of file,
    and for a directory in which other users could put a socket of theirs in its place.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path, self._inode = path, -1
        try:
            _check_directory(path.parent)
            _remove_stale(path)
            # The kernel creates the file with these permissions: it is never open to others, not for a moment.
            mask = os.umask(0o177)
            try:
                self.bind(str(path))
            finally:
                os.umask(mask)
            self._inode = path.lstat().st_ino
            self.listen(1024)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close and remove the socket, unless another process has replaced it."""
        inode, self._inode = self._inode, -1
        try:
            if inode != -1 and self._path.lstat().st_ino == inode:
                self._path.unlink()
        except FileNotFoundError:
            pass
        finally:
            super().close()


def _check_directory(directory: Path) -> None:
    mode = directory.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise OSError(EACCES, f"every user can replace files in {directory}; choose a private directory")


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(EEXIST, "this is no socket; remove it, or choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
        else:
            raise OSError(EADDRINUSE, os.strerror(EADDRINUSE))
