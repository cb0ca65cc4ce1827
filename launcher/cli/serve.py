"""``launcher serve``: the launcher as a service on this machine."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

    from launcher.settings import Settings

#: Flags that are also settings of the environment and of the config file: value and meaning of each.
SINGLE = {
    "listen": ("HOST:PORT", "where to listen (default 127.0.0.1:8080)"),
    "data": ("DIR", "where everything is kept (default ~/.local/share/framework-launcher)"),
    "token-file": ("FILE", "the token that every request must carry"),
    "tls-cert": ("FILE", "serve HTTPS with this certificate, PEM with its chain"),
    "tls-key": ("FILE", "the key of that certificate, PEM"),
}
REPEATED = {
    "node": (
        "NAME[,KEY=VALUE…]",
        "a node of this machine, with ip=127.0.0.N, cpu=…, memory=…, nvidia.com/gpu=…, labels; may be repeated "
        "(default: one with this machine's name, address and size)",
    ),
    "image": ("NAME=DIR", "lay DIR over the root for containers of that image; may be repeated"),
    "nfs": ("SERVER:/PATH=DIR", "a directory that stands for that NFS export; may be repeated"),
    "host": ("NAME", "a further name by which clients may call this server; may be repeated"),
}

_FRAMEWORKS = "/apis/launcher.microsoft.com/v1/namespaces/default/frameworks"


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """The parser of ``serve``."""
    serve = commands.add_parser(
        "serve",
        help="run the launcher as a service on this machine",
        description="Accept Frameworks over HTTP, and run their pods as processes of this machine.\n\n"
        "Every flag is also a variable (LAUNCHER_LISTEN, LAUNCHER_TLS_CERT, …; several\n"
        "values with blanks between them) and a line in the config file. A flag stands\n"
        "over its variable, and that over the file.",
        epilog="examples:\n"
        "  launcher serve\n"
        "  launcher serve --node gpu0,nvidia.com/gpu=4 --node cpu0,cpu=8,memory=16Gi\n"
        "  launcher serve --listen 0.0.0.0:8443 --token-file token \\\n"
        "    --tls-cert tls.crt --tls-key tls.key",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, (value, meaning) in SINGLE.items():
        serve.add_argument(f"--{name}", dest=name, metavar=value, help=meaning)
    for name, (value, meaning) in REPEATED.items():
        serve.add_argument(f"--{name}", dest=name, metavar=value, help=meaning, action="append")
    serve.add_argument(
        "--config", metavar="FILE", help="a YAML file with settings, by the names of the flags"
    )
    serve.add_argument("--verbose", action="store_true", help="log what is done, not only what goes wrong")
    serve.set_defaults(run=_serve)


def _serve(given: argparse.Namespace) -> int:
    from launcher.core.errors import LauncherError
    from launcher.settings import BadSetting, settings_from

    try:
        settings = settings_from(vars(given), os.environ)
        sock = _listening(settings)
        _check_data(settings)
    except BadSetting as error:
        return _refused(str(error))
    # Clients can connect from here on; what is slow to import and to read comes after.
    _announce(settings, sock)
    import asyncio
    import logging

    from launcher.cli.logline import log_to_stderr
    from launcher.wiring import serve

    log_to_stderr(logging.INFO if given.verbose else logging.WARNING)
    try:
        going = asyncio.run(serve(settings, sock))
    except LauncherError as error:
        return _refused(str(error))
    if going:
        what = "1 container is" if going == 1 else f"{going} containers are"
        print(f"{what} still running; the next launcher serve with this data finds them again")
    return 0


def _listening(settings: "Settings") -> "socket.socket":
    from launcher.settings import BadSetting, listening

    try:
        return listening(settings)
    except OSError as error:
        raise BadSetting(
            f"cannot listen on {settings.host}:{settings.port}: {os.strerror(error.errno) if error.errno else error}; "
            "stop what listens there, or choose another place with --listen HOST:PORT"
        ) from error


def _check_data(settings: "Settings") -> None:
    from launcher.settings import BadSetting

    try:
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        writable = os.access(settings.data, os.W_OK | os.X_OK)
    except OSError as error:
        raise BadSetting(
            f"data: {settings.data}: {error.strerror}; choose another with --data DIR"
        ) from error
    if not writable:
        raise BadSetting(f"data: {settings.data} cannot be written to; choose another with --data DIR")


def _announce(settings: "Settings", sock: "socket.socket") -> None:
    from launcher.settings import url_of

    url = url_of(settings, sock)
    token = ' -H "Authorization: Bearer $(cat TOKEN_FILE)"' if settings.token else ""
    print(f"Framework Launcher listens on {url}, data in {settings.data}")
    print("A first Framework:")
    print(f"  curl{token} -H 'Content-Type: application/yaml' --data-binary @examples/hello.yaml \\")
    print(f"    {url}{_FRAMEWORKS}", flush=True)


def _refused(why: str) -> int:
    """Exit code 2, after one line that says why."""
    print(f"launcher serve: {why}", file=sys.stderr)
    return 2
