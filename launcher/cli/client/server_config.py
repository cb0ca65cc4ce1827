"""Which server a command uses: flags override environment variables, which override the default."""

import os
from argparse import Namespace
from collections.abc import Mapping
from typing import NamedTuple

from launcher.cli.arguments import DEFAULT_SERVER
from launcher.cli.errors import UsageError

_UNIX = "unix:"


class ServerConfig(NamedTuple):
    """The server, the credentials for it, and the namespace of requests."""

    url: str
    namespace: str = "default"
    token: str | None = None
    #: A PEM file with the certificates to trust; None trusts those of this machine.
    ca_file: str | None = None

    @property
    def socket(self) -> str | None:
        """The path of a unix socket; None for a server at an address."""
        return self.url.removeprefix(_UNIX) if self.url.startswith(_UNIX) else None

    @property
    def base_url(self) -> str:
        """The URL that each request's path is appended to."""
        return self.url if self.socket is None else "http://localhost"

    def in_namespace(self, namespace: str) -> "ServerConfig":
        """The same server with another namespace."""
        return self._replace(namespace=namespace)


def server_config(args: Namespace, environment: Mapping[str, str] = os.environ) -> ServerConfig:
    """The server of the flags, or else of the environment. Raises UsageError."""
    url = (_setting("--server", args.server, "LAUNCHER_SERVER", environment) or DEFAULT_SERVER).rstrip("/")
    if not url.startswith(("http://", "https://", f"{_UNIX}/", f"{_UNIX}.")):
        raise UsageError(
            f"--server: {url!r} must start with http://, https:// or unix:/; for example {DEFAULT_SERVER}"
        )
    token_file = _setting("--token-file", args.token_file, "LAUNCHER_TOKEN_FILE", environment)
    ca_file = _setting("--ca", args.ca, "LAUNCHER_CA_FILE", environment)
    return ServerConfig(
        url,
        args.namespace or "default",
        _read_token(token_file) if token_file else None,
        ca_file or None,
    )


def _setting(option: str, value: str | None, variable: str, environment: Mapping[str, str]) -> str | None:
    """The value of the option, or of the variable; None when neither is set. Raises UsageError for an empty one."""
    if value == "":
        raise UsageError(f"{option}: must not be empty; set a value or omit the option")
    if value is None and environment.get(variable) == "":
        raise UsageError(f"{variable}: must not be empty; set a value or unset the variable")
    return value or environment.get(variable)


def _read_token(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise UsageError(f"--token-file: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--token-file: {path} is not a text file") from error
