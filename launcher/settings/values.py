"""Parsers and checks of the values of settings. Their errors name the source of the value and the fix."""

import os
import re
import shlex
import stat
from collections.abc import Sequence
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote, urlsplit

from launcher.core.errors import LauncherError
from launcher.core.parsing.decoder import Decoded, decode_utf8
from launcher.core.parsing.yaml_reader import read_yaml
from launcher.node.node_spec import NodeSpec, parse_nodes, this_machine

#: The prefix of a socket's path where an address is expected.
_UNIX_PREFIX = "unix:"
#: The kernel's limit, without the terminating zero.
_MAX_SOCKET_PATH_BYTES = 107
DEFAULT_LISTEN = "127.0.0.1:8080"
#: A shorter token could be guessed.
_MIN_TOKEN_LENGTH = 16
#: A server URL, possibly with a path prefix, without characters that are special in shells or queries.
_URL_PATTERN = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")

#: A directory, or a bucket and a prefix in it, without queries.
_ARCHIVE_URL_PATTERN = re.compile(r"file:///[^?#]*|(s3|gs|az)://[A-Za-z0-9._-]+(/[^?#]*)?")
_FILE_PREFIX = "file://"

HOST_PATTERN = re.compile(
    r"[0-9A-Fa-f.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*|[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?"
)
_PORT_PATTERN = re.compile(r"[0-9]{1,5}")
#: Forbidden modes of secret files: any access of others or writes of the group; in a pod, writes of others.
_USE_BY_OTHERS = stat.S_IRWXO | stat.S_IWGRP
_WRITE_BY_OTHERS = stat.S_IWOTH
_ENTRYPOINT = ",entrypoint="
#: Examples for error messages.
_DIRECTORIES = {
    "image": "tensorflow/tensorflow=/srv/tensorflow",
    "nfs": "10.0.0.1:/share=/srv/share",
    "claim": "training-data=/srv/data",
}


class InvalidSetting(LauncherError):
    """An invalid setting; the message names it and how to fix it."""


class PodNetworkMode(Enum):
    """Whether pods have networks of their own; with *auto*, if they then still reach what the machine reaches."""

    AUTO = "auto"
    ISOLATED = "isolated"
    SHARED = "shared"


def parse_pod_network(source: str, text: str | None) -> PodNetworkMode:
    """Parses the mode, by default *auto*. Raises InvalidSetting."""
    if text is None:
        return PodNetworkMode.AUTO
    try:
        return PodNetworkMode(text)
    except ValueError:
        modes = ", ".join(mode.value for mode in PodNetworkMode)
        raise InvalidSetting(f"{source}: {text!r} is not known; use {modes}") from None


def absolute_path(source: str, text: str) -> Path:
    """Returns the absolute path, with ``~`` expanded. Raises InvalidSetting."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise InvalidSetting(
            f"{source}: the home directory of {text!r} is not known; set an absolute path"
        ) from error


def parse_address(source: str, text: str) -> tuple[str, int]:
    """Parses ``HOST:PORT``. Raises InvalidSetting."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not HOST_PATTERN.fullmatch(host) or not _PORT_PATTERN.fullmatch(port) or int(port) > 65535:
        raise InvalidSetting(f"{source}: {text!r} is not HOST:PORT; for example {DEFAULT_LISTEN}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the address."""
    # Other names may resolve to any address later; RFC 6761 reserves only this one for this machine.
    if host == "localhost":
        return True
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def parse_unix_socket(source: str, text: str) -> Path | None:
    """Returns the path of ``unix:PATH``, or None for an address."""
    if not text.startswith(_UNIX_PREFIX):
        return None
    path = absolute_path(source, text.removeprefix(_UNIX_PREFIX))
    if path == Path.cwd() or len(os.fsencode(path)) > _MAX_SOCKET_PATH_BYTES:
        raise InvalidSetting(
            f"{source}: {text!r} is not unix:PATH with a path of at most {_MAX_SOCKET_PATH_BYTES} bytes; "
            "for example unix:/run/user/1000/launcher.sock"
        )
    return path


def parse_url(source: str, text: str) -> str:
    """Returns the server URL without its last slash; empty stays empty. Raises InvalidSetting."""
    if text and not _URL_PATTERN.fullmatch(text):
        raise InvalidSetting(
            f"{source}: {text!r} is not a server URL; for example https://launcher.example:8443"
        )
    return text.rstrip("/")


def parse_archive_url(source: str, text: str) -> str:
    """Returns the URL of a log archive; a directory must exist. Raises InvalidSetting."""
    if "@" in urlsplit(text).netloc:
        # It may be a secret, so the value is not in the message.
        raise InvalidSetting(
            f"{source}: the URL contains credentials; set them as environment variables, such as AWS_ACCESS_KEY_ID"
        )
    if not _ARCHIVE_URL_PATTERN.fullmatch(text):
        raise InvalidSetting(
            f"{source}: {text!r} is not the URL of a log archive; use file:///DIR, s3://BUCKET/PREFIX, "
            "gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
        )
    if text.startswith(_FILE_PREFIX):
        directory = unquote(text.removeprefix(_FILE_PREFIX))
        if not (os.path.isdir(directory) and os.access(directory, os.W_OK | os.X_OK)):
            raise InvalidSetting(
                f"{source}: {directory} is not a directory in which the launcher can create files"
            )
    return text


def parse_node_specs(source: str, texts: Sequence[str]) -> tuple[NodeSpec, ...]:
    """Parses nodes; without any, there is one node for this machine. Raises InvalidSetting."""
    if not texts:
        return (this_machine(),)
    try:
        return parse_nodes(texts)
    except ValueError as error:
        raise InvalidSetting(f"{source}: {error}") from error


def parse_directories(source: str, name: str, texts: Sequence[str]) -> dict[str, Path]:
    """Parses ``KEY=DIR``. The directory may contain ``=``, the key may not."""
    directories: dict[str, Path] = {}
    for text in texts:
        key, equals, directory = text.partition("=")
        if not (key and equals and directory):
            raise InvalidSetting(f"{source}: {text!r} is not KEY=DIR; for example {_DIRECTORIES[name]}")
        directories[key] = parse_directory(f"{source}: {key}", directory)
    return directories


def parse_directory(source: str, text: str) -> Path:
    """Returns the absolute path of an existing directory. Raises InvalidSetting."""
    path = absolute_path(source, text)
    if not os.path.isdir(path):
        raise InvalidSetting(f"{source}: {path} is not a directory")
    return path


def parse_images(source: str, texts: Sequence[str]) -> tuple[dict[str, Path], dict[str, Sequence[str]]]:
    """Parses ``NAME=DIR[,entrypoint=COMMAND]``. Returns the directories and the entrypoints by name."""
    parts = [text.partition(_ENTRYPOINT) for text in texts]
    directories = parse_directories(source, "image", [directory for directory, _, _ in parts])
    entrypoints = {
        directory.partition("=")[0]: _parse_entrypoint(source, directory + separator + command, command)
        for directory, separator, command in parts
        if separator
    }
    return directories, entrypoints


def _parse_entrypoint(source: str, text: str, command: str) -> Sequence[str]:
    """Splits the command into words as a shell does. Raises InvalidSetting."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidSetting(f"{source}: {text!r}: entrypoint: {str(error).lower()}") from error
    if not words:
        raise InvalidSetting(
            f"{source}: {text!r}: entrypoint is empty; for example {_DIRECTORIES['image']}{_ENTRYPOINT}python3"
        )
    return words


def read_token(source: str, path: Path) -> str:
    """Reads the token of a token file. Raises InvalidSetting."""
    token = path.read_text(errors="replace").strip()
    if len(token) < _MIN_TOKEN_LENGTH or not token.isprintable() or " " in token:
        raise InvalidSetting(
            f"{source}: {path} must contain one token of at least {_MIN_TOKEN_LENGTH} characters without spaces; "
            f"create one with: openssl rand -hex 32 > {path}"
        )
    return token


def readable_file(source: str, path: Path) -> Path:
    """Returns the absolute path of a readable file. Raises InvalidSetting."""
    if not (os.path.isfile(path) and os.access(path, os.R_OK)):
        raise InvalidSetting(f"{source}: {path} is not a readable file")
    return path.absolute()


def read_yaml_file(source: str, path: Path, data: bytes) -> Decoded:
    """Parses a YAML file; a file with only comments is an empty mapping. Raises InvalidSetting."""
    try:
        text = decode_utf8(data)
        # Neither a comment nor the start of a document.
        lines = (line.strip() for line in text.splitlines())
        return read_yaml(text) if any(line.strip("-") and line[0] != "#" for line in lines) else Decoded({})
    except LauncherError as error:
        raise InvalidSetting(f"{source}: {path}: {error}") from error


def check_private(source: str, path: Path, *, in_pod: bool) -> None:
    """
    Raises InvalidSetting if other users can read or change the file.

    Its group may read it, as the group ssl-cert of Debian does. In a pod, all processes that see a mounted Secret
    belong to the launcher, so its mode, 0644 by default, must only not permit others to write.
    """
    status = path.stat()
    if status.st_mode & (_WRITE_BY_OTHERS if in_pod else _USE_BY_OTHERS):
        mode = "600" if status.st_uid == os.geteuid() else "640"
        raise InvalidSetting(
            f"{source}: other users can read or change {path} (mode {stat.S_IMODE(status.st_mode):04o}); "
            f"run: chmod {mode} {path}"
        )
