"""The socket that the server listens on: a TCP address, or a unix socket to which only its owner can connect."""

import os
import socket
import stat
from errno import EACCES, EADDRINUSE, EEXIST
from pathlib import Path

from launcher.settings.cluster import ClusterSettings
from launcher.settings.local import Settings

_CONNECT_SECONDS = 5.0


def open_listener(settings: Settings | ClusterSettings) -> socket.socket:
    """Opens the listening socket. Raises OSError if the address is not available."""
    if isinstance(settings, Settings) and settings.unix_socket:
        return UnixListener(settings.unix_socket)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=1024)


def url_of(settings: Settings | ClusterSettings, sock: socket.socket) -> str:
    """Returns the URL for clients of *sock*."""
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    bracketed = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls else 'http'}://{bracketed}:{port}"


class UnixListener(socket.socket):
    """
    A listening socket at *path*, created with mode 0600 and removed on close.

    The socket of a terminated process is replaced. Raises OSError for a socket in use, for another kind of file, and
    for a directory in which other users could replace the socket.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path, self._inode = path, -1
        try:
            _check_directory(path.parent)
            _remove_stale(path)
            # The umask applies at creation, so other users can never connect.
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
        """Closes and removes the socket, unless another process has replaced it."""
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
        raise OSError(EACCES, f"{directory} is writable by all users; choose a private directory")


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(EEXIST, "not a socket; remove it or choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
        else:
            raise OSError(EADDRINUSE, os.strerror(EADDRINUSE))
