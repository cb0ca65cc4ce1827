"""``launcher serve``: the launcher as a service, on this machine or on a cluster."""

import argparse
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from launcher.settings import ClusterSettings, Settings
    from launcher.store.kubernetes.cluster_config import ClusterConfig

#: Flags that are also settings of the environment and of the config file: value and meaning of each.
SINGLE = {
    "listen": (
        "HOST:PORT|unix:PATH",
        "where to listen (default 127.0.0.1:8080); a unix socket is open to its owner alone",
    ),
    "data": ("DIR", "where everything is kept (default ~/.local/share/framework-launcher)"),
    "token-file": ("FILE", "the token that every request must carry"),
    "tls-cert": ("FILE", "serve HTTPS with this certificate, PEM with its chain"),
    "tls-key": ("FILE", "the key of that certificate, PEM"),
    "client-ca": (
        "FILE",
        "with --kubernetes: take client certificates of this authority, the cluster's own, beside tokens",
    ),
    "discovery-url": (
        "URL",
        "where pods find this launcher, to ask for their peers (default: where it listens; in a cluster, its Service)",
    ),
    "log-budget": ("SIZE", "what the logs of all containers may use on disk (default 10Gi)"),
    "log-budget-framework": ("SIZE", "what the logs of one Framework may use on disk (default 1Gi)"),
    "log-disk-reserve": (
        "SIZE",
        "logs stop when their disk has less free space (default 256Mi, at most a tenth of the disk)",
    ),
    "kubeconfig": ("FILE", "with --kubernetes: the cluster of this file (default: as kubectl)"),
    "context": ("NAME", "with --kubernetes: the context of the kubeconfig"),
    "tls-secret": (
        "NAME",
        "with --kubernetes: serve HTTPS with a certificate that the launcher makes and keeps in this Secret",
    ),
}
SWITCHES = {
    "kubernetes": "run Frameworks on a cluster: the one around this pod, or the one of the kubeconfig",
    "serve-frameworkcontroller": "with --kubernetes: serve Frameworks as frameworkcontroller.microsoft.com/v1, too (on "
    "this machine they always are)",
    "metrics-auth": "with --kubernetes: serve /metrics to callers alone whose token the cluster lets get that path",
}
REPEATED = {
    "node": (
        "NAME[,KEY=VALUE…]",
        "a node of this machine, with ip=127.0.0.N, cpu=…, memory=…, nvidia.com/gpu=…, labels; may be repeated "
        "(default: one with this machine's name, address and size)",
    ),
    "image": ("NAME=DIR", "lay DIR over the root for containers of that image; may be repeated"),
    "nfs": ("SERVER:/PATH=DIR", "a directory that stands for that NFS export; may be repeated"),
    "claim": ("NAME=DIR", "a directory that stands for that persistent volume claim; may be repeated"),
    "host": ("NAME", "a further name by which clients may call this server; may be repeated"),
}

_FRAMEWORKS = "/apis/launcher.microsoft.com/v1/namespaces/default/frameworks"


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """The parser of ``serve``."""
    serve = commands.add_parser(
        "serve",
        allow_abbrev=False,
        help="run the launcher as a service on this machine",
        description="Accept Frameworks over HTTP, and run their pods as processes of this machine,\n"
        "or with --kubernetes on a cluster.\n\n"
        "Every flag is also a variable (LAUNCHER_LISTEN, LAUNCHER_TLS_CERT, …; several\n"
        "values with blanks between them) and a line in the config file. A flag stands\n"
        "over its variable, and that over the file.",
        epilog="examples:\n"
        "  launcher serve\n"
        "  launcher serve --listen unix:$XDG_RUNTIME_DIR/launcher.sock\n"
        "  launcher serve --node gpu0,nvidia.com/gpu=4 --node cpu0,cpu=8,memory=16Gi\n"
        "  launcher serve --listen 0.0.0.0:8443 --token-file token \\\n"
        "    --tls-cert tls.crt --tls-key tls.key\n"
        "  launcher serve --kubernetes --context staging",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, (value, meaning) in SINGLE.items():
        serve.add_argument(f"--{name}", dest=name, metavar=value, help=meaning)
    for name, (value, meaning) in REPEATED.items():
        serve.add_argument(f"--{name}", dest=name, metavar=value, help=meaning, action="append")
    for name, meaning in SWITCHES.items():
        serve.add_argument(f"--{name}", dest=name, help=meaning, action="store_true")
    serve.add_argument(
        "--config", metavar="FILE", help="a YAML file with settings, by the names of the flags"
    )
    serve.add_argument("--verbose", action="store_true", help="log what is done, not only what goes wrong")
    serve.set_defaults(run=_serve)


def _serve(given: argparse.Namespace) -> int:
    from launcher.core.errors import LauncherError
    from launcher.settings import is_for_kubernetes

    try:
        if is_for_kubernetes(vars(given), os.environ):
            return _serve_cluster(given)
        return _serve_locally(given)
    except LauncherError as error:
        return _refused(str(error))


def _serve_locally(given: argparse.Namespace) -> int:
    from launcher.settings import settings_from

    def read() -> "Settings":
        return settings_from(vars(given), os.environ)

    settings = read()
    with _listening(settings) as sock:
        return _serve_on(settings, sock, read, verbose=given.verbose)


def _serve_on(
    settings: "Settings", sock: "socket.socket", read: "Callable[[], Settings]", *, verbose: bool
) -> int:
    _check_data(settings)
    if settings.tls:
        from launcher.wiring.serving_certificate import certificate_files

        certificate_files(settings.tls)
    _ignore_hangup()
    # Clients can connect from here on; what is slow to import and to read comes after.
    _announce(settings, sock)
    import asyncio
    import logging

    from launcher.cli.output.log_formatter import log_to_stderr
    from launcher.wiring.local import serve

    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    going = asyncio.run(serve(settings, sock, read))
    if going:
        what = "1 container is" if going == 1 else f"{going} containers are"
        print(f"{what} still running; the next launcher serve with this data finds them again")
    return 0


def _serve_cluster(given: argparse.Namespace) -> int:
    import asyncio
    import logging

    from launcher.cli.output.log_formatter import log_to_stderr
    from launcher.settings import cluster_settings_from, url_of
    from launcher.wiring.kubernetes import serve

    def read() -> "ClusterSettings":
        return cluster_settings_from(vars(given), os.environ)

    settings = read()
    sock = _listening(settings)
    _ignore_hangup()

    def announce(access: "ClusterConfig") -> None:
        print(
            f"Framework Launcher listens on {url_of(settings, sock)}, "
            f"for the cluster at {access.url}, its own namespace is {access.namespace}",
            flush=True,
        )

    # A cluster's admin has nothing but the log to see who leads.
    log_to_stderr(logging.DEBUG if given.verbose else logging.INFO)
    asyncio.run(serve(settings, sock, announce, read))
    return 0


def _ignore_hangup() -> None:
    """Until the launcher runs, and reloads its settings on SIGHUP; one that starts has just read them."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _listening(settings: "Settings | ClusterSettings") -> "socket.socket":
    from launcher.settings import InvalidSetting, Settings, listening

    place = f"{settings.host}:{settings.port}"
    if isinstance(settings, Settings) and settings.unix_socket:
        place = f"unix:{settings.unix_socket}"
    try:
        return listening(settings)
    except OSError as error:
        raise InvalidSetting(
            f"cannot listen on {place}: {(error.strerror or str(error)).partition(' (while')[0]}; "
            "stop what listens there, or choose another place with --listen"
        ) from error


def _check_data(settings: "Settings") -> None:
    from launcher.settings import InvalidSetting
    from launcher.store.embedded.sqlite_file import Lock
    from launcher.wiring.data_directory import prepare

    if os.path.lexists(settings.data) and not os.path.isdir(settings.data):
        raise InvalidSetting(f"data: {settings.data} is no directory; choose another with --data DIR")
    try:
        warning = prepare(settings.data)
        writable = os.access(settings.data, os.W_OK | os.X_OK)
        if writable:
            # Raises StoreCorrupted when another launcher has it.
            Lock(settings.data / "store.db").release()
    except OSError as error:
        raise InvalidSetting(
            f"data: {settings.data}: {error.strerror}; choose another with --data DIR"
        ) from error
    if not writable:
        raise InvalidSetting(f"data: {settings.data} cannot be written to; choose another with --data DIR")
    if warning:
        print(f"launcher serve: warning: {warning}", file=sys.stderr)


def _announce(settings: "Settings", sock: "socket.socket") -> None:
    from launcher.settings import url_of

    url = url_of(settings, sock)
    token = ' -H "Authorization: Bearer $(cat TOKEN_FILE)"' if settings.token else ""
    print(f"Framework Launcher listens on {url}, data in {settings.data}")
    print("A first Framework:")
    base = url
    if settings.unix_socket:
        token, base = f"{token} --unix-socket {settings.unix_socket}", f"http://{settings.host}"
    print(f"  curl{token} -H 'Content-Type: application/yaml' --data-binary @examples/hello.yaml \\")
    print(f"    {base}{_FRAMEWORKS}", flush=True)


def _refused(why: str) -> int:
    """Exit code 2, after one line that says why."""
    print(f"launcher serve: {why}", file=sys.stderr)
    return 2
