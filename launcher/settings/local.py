"""
Settings of local mode.

Flags override environment variables, which override the config file. All three use the same names: ``--tls-cert``,
``LAUNCHER_TLS_CERT``, ``tls-cert:``. Only this package reads them.
"""

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.core.failures.spec_parser import Rule
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.node.logs.log_budget import LogBudgets
from launcher.node.node_spec import NodeSpec
from launcher.settings.sources import SettingSources, TlsFiles
from launcher.settings.values import (
    DEFAULT_LISTEN,
    InvalidSetting,
    PodNetworkMode,
    absolute_path,
    is_loopback,
    parse_address,
    parse_directories,
    parse_directory,
    parse_images,
    parse_node_specs,
    parse_pod_network,
    parse_unix_socket,
    parse_url,
    read_token,
)

#: A smaller budget would be less than one log file of a container.
MIN_LOG_BUDGET_BYTES = 1024 * 1024
#: Container runtimes: processes with this machine's files, or images by a container engine.
PROCESS, DOCKER = RUNTIMES = ("process", "docker")
#: Settings of the process runtime only: with another one, images have files and working directories.
_PROCESS_ONLY = ("image", "workdir")
_NEEDS_PROCESS = (
    "requires --runtime process; with docker, images have their own files and working directories"
)
#: Settings of Kubernetes mode only.
KUBERNETES_ONLY = ("tls-secret", "client-ca", "kubeconfig", "context")
#: Those of the log archive, which local mode does not need.
LOG_ARCHIVE = ("log-archive", "log-archive-tail", "log-archive-timeout")


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The container engine of the runtime docker, and the user's credentials for registries."""

    #: The URL of its API; empty for that of the first one found at *sockets*.
    url: str = ""
    sockets: tuple[str, ...] = ()
    #: Files in the format of Docker's config.json.
    credentials: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of local mode."""

    host: str
    port: int
    data: Path
    nodes: tuple[NodeSpec, ...]
    runtime: str = PROCESS
    engine: EngineSettings = field(default_factory=EngineSettings)
    #: Directories mounted over the root file system, by image.
    images: Mapping[str, Path] = field(default_factory=dict)
    #: The entrypoints of these images.
    entrypoints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Directories used for ``server:/path``.
    nfs: Mapping[str, Path] = field(default_factory=dict)
    #: Directories used for persistent volume claims, by name.
    claims: Mapping[str, Path] = field(default_factory=dict)
    token: str | None = None
    tls: TlsFiles | None = None
    #: Host names that clients may use besides the address.
    hosts: tuple[str, ...] = ()
    policy: AdmissionPolicy = field(default_factory=AdmissionPolicy)
    #: Failure rules of the admin, evaluated before the built-in ones.
    failure_rules: tuple[Rule, ...] = ()
    #: The working directory of containers that set none, and of those whose image has a directory.
    workdir: Path = Path("/")
    image_workdir: Path = Path("/")
    #: Whether pods have networks of their own.
    pod_network: PodNetworkMode = PodNetworkMode.AUTO
    #: PATH of the launcher's user, appended to that of containers.
    path: str = ""
    #: URL of the launcher for pods; empty: the listening address.
    discovery_url: str = ""
    #: Unix socket instead of an address; *host* is then the name that clients send.
    unix_socket: Path | None = None
    #: Credential files and directories, and the unix socket: hidden from containers.
    credentials: tuple[Path, ...] = ()
    log_budgets: LogBudgets = field(default_factory=LogBudgets)
    #: Whether browsers get the dashboard.
    dashboard: bool = True


def exposure_error(listen_host: str, *, token: bool, tls: bool) -> str | None:
    """Returns why the server must not listen there, and how to fix it, or None."""
    if is_loopback(listen_host) or (token and tls):
        return None
    missing = " and ".join(
        description for description, is_set in (("a token", token), ("TLS", tls)) if not is_set
    )
    return (
        f"{listen_host or 'every address'} can be reached from other machines, and every client of the server can run "
        f"commands here: set {missing}, or listen on 127.0.0.1"
    )


def settings_from(flags: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """
    Returns the settings of local mode.

    *flags* are values by name, None or empty if not set. Raises InvalidSetting for the first invalid one.
    """
    sources = SettingSources(flags, environment)
    sources.reject(KUBERNETES_ONLY, "requires --kubernetes; without it, pods run on this machine")
    sources.reject(LOG_ARCHIVE, "requires --kubernetes; local mode keeps logs in its data directory")
    if sources.is_enabled("metrics-auth"):
        raise InvalidSetting(
            f"{sources.source('metrics-auth')}: requires --kubernetes; in local mode --token-file protects all requests"
        )
    listen = sources.one("listen") or DEFAULT_LISTEN
    unix_socket = parse_unix_socket(sources.source("listen"), listen)
    host, port = ("localhost", 0) if unix_socket else parse_address(sources.source("listen"), listen)
    token_file = sources.secret_file("token-file")
    token = read_token(sources.source("token-file"), token_file) if token_file else None
    tls = sources.tls()
    if tls and unix_socket:
        raise InvalidSetting("tls-cert: not supported with a unix socket; remove one of them")
    if reason := exposure_error(host, token=token is not None, tls=tls is not None):
        raise InvalidSetting(reason)
    data_path = sources.one("data")
    data = absolute_path(sources.source("data"), data_path) if data_path else default_data(environment)
    runtime = _runtime(sources)
    workdir = parse_directory(sources.source("workdir"), sources.one("workdir") or "/")
    images, entrypoints = parse_images(sources.source("image"), sources.several("image"))
    return Settings(
        host=host,
        port=port,
        data=Path(os.path.realpath(data)),
        nodes=parse_node_specs(sources.source("node"), sources.several("node")),
        runtime=runtime,
        engine=engine_settings(environment),
        images=images,
        entrypoints=entrypoints,
        nfs=parse_directories(sources.source("nfs"), "nfs", sources.several("nfs")),
        claims=parse_directories(sources.source("claim"), "claim", sources.several("claim")),
        token=token,
        tls=tls,
        hosts=sources.hosts(),
        policy=sources.policy(),
        failure_rules=sources.failure_rules(),
        workdir=workdir,
        image_workdir=workdir,
        pod_network=parse_pod_network(sources.source("pod-network"), sources.one("pod-network")),
        path=environment.get("PATH", ""),
        discovery_url=parse_url(sources.source("discovery-url"), sources.one("discovery-url") or ""),
        unix_socket=unix_socket,
        credentials=(*sources.credentials(), *([unix_socket] if unix_socket else [])),
        log_budgets=_log_budgets(sources),
        dashboard=sources.is_enabled("dashboard", default=True),
    )


def for_run(
    data: Path,
    nodes: Sequence[str],
    images: Sequence[str],
    nfs: Sequence[str],
    claims: Sequence[str] = (),
    workdir: str | None = None,
    pod_network: str | None = None,
    runtime: str = PROCESS,
) -> Settings:
    """
    Returns settings for one Framework: any free port, and a random token.

    Without a *workdir*, containers start in the current directory, or in the root of their image.
    """
    if workdir is not None and not workdir.strip():
        raise InvalidSetting("workdir: the value is empty; set one or remove the setting")
    if runtime != PROCESS and (images or workdir):
        raise InvalidSetting(f"{'image' if images else 'workdir'}: {_NEEDS_PROCESS}")
    directories, entrypoints = parse_images("image", images)
    return Settings(
        host="127.0.0.1",
        port=0,
        data=data.absolute(),
        nodes=parse_node_specs("node", nodes),
        runtime=runtime,
        engine=engine_settings(os.environ),
        images=directories,
        entrypoints=entrypoints,
        nfs=parse_directories("nfs", "nfs", nfs),
        claims=parse_directories("claim", "claim", claims),
        token=secrets.token_urlsafe(32),
        workdir=parse_directory("workdir", workdir or _current_directory()),
        image_workdir=parse_directory("workdir", workdir or "/"),
        pod_network=parse_pod_network(
            "pod-network", os.environ.get("LAUNCHER_POD_NETWORK") if pod_network is None else pod_network
        ),
        path=os.environ.get("PATH", ""),
        dashboard=False,
    )


def engine_settings(environment: Mapping[str, str]) -> EngineSettings:
    """Returns where Docker and Podman listen, for all users or for this one, and where they keep credentials."""
    home = environment.get("HOME") or "/"
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    configuration = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return EngineSettings(
        environment.get("DOCKER_HOST") or "",
        (
            "/var/run/docker.sock",
            f"{runtime}/docker.sock",
            "/run/podman/podman.sock",
            f"{runtime}/podman/podman.sock",
        ),
        (
            Path(environment.get("DOCKER_CONFIG") or f"{home}/.docker") / "config.json",
            Path(environment.get("REGISTRY_AUTH_FILE") or f"{runtime}/containers/auth.json"),
            Path(configuration) / "containers/auth.json",
        ),
    )


def _runtime(sources: SettingSources) -> str:
    runtime = sources.one("runtime") or PROCESS
    if runtime not in RUNTIMES:
        raise InvalidSetting(
            f"{sources.source('runtime')}: {runtime!r} is not a container runtime; use {' or '.join(RUNTIMES)}"
        )
    if runtime != PROCESS:
        sources.reject(_PROCESS_ONLY, _NEEDS_PROCESS)
    return runtime


def _current_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was deleted
        return "/"


def default_data(environment: Mapping[str, str]) -> Path:
    """Returns the default data directory. Raises InvalidSetting if the user has no home directory."""
    base = environment.get("XDG_DATA_HOME") or "~/.local/share"
    return absolute_path("data", base) / "framework-launcher"


def _log_budgets(sources: SettingSources) -> LogBudgets:
    default = LogBudgets()
    return LogBudgets(
        sources.size("log-budget", default.total, MIN_LOG_BUDGET_BYTES),
        sources.size("log-budget-framework", default.framework, MIN_LOG_BUDGET_BYTES),
        sources.size("log-disk-reserve", default.reserve, 0),
    )
