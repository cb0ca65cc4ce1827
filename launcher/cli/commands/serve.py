"""``serve``: the launcher as a service, on this machine or for a cluster."""

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from importlib import import_module
from typing import Any

from launcher.cli.command import Command
from launcher.cli.output.log_formatter import log_to_stderr
from launcher.core.errors import LauncherError
from launcher.settings.cluster import ClusterSettings, cluster_settings_from, is_for_kubernetes
from launcher.settings.local import Settings, settings_from
from launcher.settings.values import InvalidSetting
from launcher.store.embedded.sqlite_file import DatabaseLock
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.wiring.data_directory import prepare
from launcher.wiring.listener import open_listener, url_of
from launcher.wiring.serving_certificate import certificate_files

#: Flags that are also environment variables and lines of the config file: the metavar and help of each.
SINGLE = {
    "listen": (
        "HOST:PORT|unix:PATH",
        "the address to listen on (default 127.0.0.1:8080); only its owner can use a unix socket",
    ),
    "data": ("DIR", "the data directory (default ~/.local/share/framework-launcher)"),
    "token-file": ("FILE", "a file with the token that every request must send"),
    "tls-cert": ("FILE", "serve HTTPS with this certificate chain (PEM)"),
    "tls-key": ("FILE", "the key of that certificate (PEM)"),
    "client-ca": (
        "FILE",
        "with --kubernetes: also accept client certificates of this CA, the one of the cluster",
    ),
    "discovery-url": (
        "URL",
        "the URL at which pods find their peers (default: the address of --listen; in a cluster, the Service)",
    ),
    "runtime": (
        "process|docker",
        "how containers run: as processes with the files of this machine (default), or in their images by Docker or "
        "Podman, found by DOCKER_HOST or at the usual sockets",
    ),
    "workdir": ("DIR", "the working directory of containers without workingDir (default /)"),
    "pod-network": (
        "auto|isolated|shared",
        "isolated: each pod without hostNetwork has a network namespace and an address; shared: pods use the network "
        "of this machine; auto: isolated if pods then reach what the machine reaches, else shared (default auto)",
    ),
    "log-budget": ("SIZE", "the disk space for the logs of all containers (default 10Gi)"),
    "log-budget-framework": ("SIZE", "the disk space for the logs of one Framework (default 1Gi)"),
    "log-disk-reserve": (
        "SIZE",
        "stop writing logs when the disk has less free space than this (default 256Mi, at most a tenth of the disk)",
    ),
    "log-archive": (
        "URL",
        "with --kubernetes: store the end of each container's log here before its pod is deleted: file:///DIR, "
        "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; credentials are environment variables",
    ),
    "log-archive-tail": (
        "SIZE",
        "with --kubernetes: the bytes of each container's log that the archive stores (default 1Mi)",
    ),
    "log-archive-timeout": (
        "DURATION",
        "with --kubernetes: the longest time that the deletion of a pod waits for the archive (default 30s)",
    ),
    "pod-failure-spec": (
        "FILE",
        "a YAML file with a podFailureSpec as in FrameworkController; its rules precede the built-in ones",
    ),
    "kubeconfig": ("FILE", "with --kubernetes: the kubeconfig file (default: as kubectl)"),
    "context": ("NAME", "with --kubernetes: the context of the kubeconfig (default: its current one)"),
    "tls-secret": (
        "NAME",
        "with --kubernetes: serve HTTPS with a certificate that the launcher creates in this Secret",
    ),
}
SWITCHES = {
    "kubernetes": "run Frameworks on the cluster of this pod, or of the kubeconfig",
    "serve-frameworkcontroller": "with --kubernetes: also serve Frameworks as frameworkcontroller.microsoft.com/v1 "
    "(always served in local mode)",
    "metrics-auth": "with --kubernetes: serve /metrics only to clients that the cluster authorizes to get it",
}
#: Flags with the values on and off; true and false in the config file.
TOGGLES = {"dashboard": ("on|off", "serve the dashboard to browsers at / (default on)")}
REPEATED = {
    "node": (
        "NAME[,KEY=VALUE…]",
        "a node of this machine, with ip=127.0.0.N, cpu=…, memory=…, nvidia.com/gpu=…, labels; may be repeated "
        "(default: one with this machine's name, address and size)",
    ),
    "image": (
        "NAME=DIR[,entrypoint=COMMAND]",
        "overlay the root directory of containers of that image with DIR, and run COMMAND in those without a command; "
        "may be repeated",
    ),
    "nfs": ("SERVER:/PATH=DIR", "use this directory for that NFS export; may be repeated"),
    "claim": ("NAME=DIR", "use this directory for that PersistentVolumeClaim; may be repeated"),
    "host": ("NAME", "an additional host name that clients may use for this server; may be repeated"),
}

_FRAMEWORKS = "/apis/launcher.microsoft.com/v1/namespaces/default/frameworks"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, (value, meaning) in (*SINGLE.items(), *TOGGLES.items()):
        parser.add_argument(f"--{name}", dest=name, metavar=value, help=meaning)
    for name, (value, meaning) in REPEATED.items():
        parser.add_argument(f"--{name}", dest=name, metavar=value, help=meaning, action="append")
    for name, meaning in SWITCHES.items():
        parser.add_argument(f"--{name}", dest=name, help=meaning, action="store_true")
    parser.add_argument(
        "--config", metavar="FILE", help="a YAML file of settings, which have the names of the flags"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="log every action, not only warnings and errors"
    )


def _serve(args: argparse.Namespace) -> int:
    try:
        if is_for_kubernetes(vars(args), os.environ):
            return _serve_cluster(args)
        return _serve_locally(args)
    except LauncherError as error:
        print(f"launcher serve: {error}", file=sys.stderr)
        return 2


def _serve_locally(args: argparse.Namespace) -> int:
    def read_settings() -> Settings:
        return settings_from(vars(args), os.environ)

    settings = read_settings()
    with _listening(settings) as sock:
        _check_data(settings)
        if settings.tls:
            certificate_files(settings.tls)
        _ignore_hangup()
        # Clients can connect from here on; the slow imports follow.
        _announce(settings, sock)
        log_to_stderr(logging.INFO if args.verbose else logging.WARNING)
        running = asyncio.run(_wiring("local").serve(settings, sock, read_settings))
    if running:
        containers = "1 container keeps" if running == 1 else f"{running} containers keep"
        resumes = "it" if running == 1 else "them"
        print(f'{containers} running; the next "launcher serve" with this data directory resumes {resumes}')
    return 0


def _serve_cluster(args: argparse.Namespace) -> int:
    def read_settings() -> ClusterSettings:
        return cluster_settings_from(vars(args), os.environ)

    settings = read_settings()
    sock = _listening(settings)
    _ignore_hangup()

    def announce(cluster: ClusterConfig) -> None:
        print(
            f"Framework Launcher listens on {url_of(settings, sock)}, "
            f"for the cluster at {cluster.url}, its own namespace is {cluster.namespace}",
            flush=True,
        )

    # On a cluster the log is the only way to see which replica is the leader.
    log_to_stderr(logging.DEBUG if args.verbose else logging.INFO)
    asyncio.run(_wiring("kubernetes").serve(settings, sock, announce, read_settings))
    return 0


def _wiring(mode: str) -> Any:
    """The module that runs the launcher in that mode: neither mode imports the other's."""
    return import_module(f"launcher.wiring.{mode}")


def _ignore_hangup() -> None:
    """Ignore SIGHUP until the launcher runs and reloads its settings on it; they have just been read."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _listening(settings: Settings | ClusterSettings) -> socket.socket:
    address = f"{settings.host}:{settings.port}"
    if isinstance(settings, Settings) and settings.unix_socket:
        address = f"unix:{settings.unix_socket}"
    try:
        return open_listener(settings)
    except OSError as error:
        raise InvalidSetting(
            f"cannot listen on {address}: {(error.strerror or str(error)).partition(' (while')[0]}; "
            "stop the process that listens there, or set another address with --listen"
        ) from error


def _check_data(settings: Settings) -> None:
    if os.path.lexists(settings.data) and not os.path.isdir(settings.data):
        raise InvalidSetting(f"data: {settings.data} is not a directory; set another with --data DIR")
    try:
        warning = prepare(settings.data)
        writable = os.access(settings.data, os.W_OK | os.X_OK)
        if writable:
            # Raises StoreCorrupted when another launcher uses it.
            DatabaseLock(settings.data / "store.db").release()
    except OSError as error:
        raise InvalidSetting(
            f"data: {settings.data}: {error.strerror}; set another with --data DIR"
        ) from error
    if not writable:
        raise InvalidSetting(f"data: {settings.data} cannot be written to; set another with --data DIR")
    if warning:
        print(f"launcher serve: warning: {warning}", file=sys.stderr)


def _announce(settings: Settings, sock: socket.socket) -> None:
    url = url_of(settings, sock)
    token = ' -H "Authorization: Bearer $(cat TOKEN_FILE)"' if settings.token else ""
    print(f"Framework Launcher listens on {url}, data in {settings.data}")
    if settings.dashboard and not settings.unix_socket:
        print(f"Dashboard: {url}/")
    print("Submit a first Framework:")
    base = url
    if settings.unix_socket:
        token, base = f"{token} --unix-socket {settings.unix_socket}", f"http://{settings.host}"
    print(f"  curl{token} -H 'Content-Type: application/yaml' --data-binary @examples/hello.yaml \\")
    print(f"    {base}{_FRAMEWORKS}", flush=True)


COMMANDS = {
    "serve": Command(
        _serve,
        _add_arguments,
        example="launcher serve",
        parser_options={
            "formatter_class": argparse.RawDescriptionHelpFormatter,
            "description": "Accept Frameworks over HTTP and run their pods on this machine, as processes or\n"
            "by Docker or Podman, or with --kubernetes on a cluster.\n\n"
            "Every flag is also an environment variable (LAUNCHER_LISTEN, LAUNCHER_TLS_CERT,\n"
            "…; several values separated by spaces) and a line of the config file. Flags\n"
            "override environment variables, which override the config file.",
            "epilog": "examples:\n"
            "  launcher serve\n"
            "  launcher serve --listen unix:$XDG_RUNTIME_DIR/launcher.sock\n"
            "  launcher serve --runtime docker\n"
            "  launcher serve --node gpu0,nvidia.com/gpu=4 --node cpu0,cpu=8,memory=16Gi\n"
            "  launcher serve --listen 0.0.0.0:8443 --token-file token \\\n"
            "    --tls-cert tls.crt --tls-key tls.key\n"
            "  launcher serve --kubernetes --context staging",
        },
    )
}
