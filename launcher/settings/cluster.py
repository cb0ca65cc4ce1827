"""Settings of Kubernetes mode, like those of local mode."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.core.failures.spec_parser import Rule
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.settings.sources import POD_VARIABLE, SettingSources, TlsFiles
from launcher.settings.values import (
    DEFAULT_LISTEN,
    InvalidSetting,
    is_loopback,
    parse_address,
    parse_archive_url,
    parse_unix_socket,
    parse_url,
)

#: Settings of local mode only: on a cluster, nodes, storage and authorization are those of the cluster.
LOCAL_ONLY = (
    "data",
    "token-file",
    "node",
    "image",
    "nfs",
    "claim",
    "runtime",
    "workdir",
    "pod-network",
    "log-budget",
    "log-budget-framework",
    "log-disk-reserve",
)

#: A smaller tail would not contain a traceback; a larger one needs too much memory while logs are read.
_MIN_TAIL_BYTES, _MAX_TAIL_BYTES = 4096, 64 * 1024 * 1024
_MIN_ARCHIVE_TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A cluster by kubeconfig files, separated by colons, and context; None is kubectl's default."""

    files: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class InPod:
    """The cluster of this pod."""

    host: str
    port: str


@dataclass(frozen=True, slots=True)
class LogArchiveSettings:
    """The log archive."""

    url: str
    #: Of each container's log.
    tail_bytes: int = 1024 * 1024
    #: The longest time that the deletion of a pod waits for the archive.
    timeout_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings of Kubernetes mode."""

    host: str
    port: int
    cluster: Kubeconfig | InPod
    #: Certificate files, or the name of the Secret with a managed certificate.
    tls: TlsFiles | str | None = None
    #: CA of client certificates, accepted besides tokens.
    client_ca: Path | None = None
    #: Host names that clients may use besides those of the Service.
    hosts: tuple[str, ...] = ()
    policy: AdmissionPolicy = field(default_factory=AdmissionPolicy)
    #: Failure rules of the admin, evaluated before the built-in ones.
    failure_rules: tuple[Rule, ...] = ()
    #: Whether Frameworks are also served in FrameworkController's API group.
    frameworkcontroller: bool = False
    #: Whether the cluster authorizes access to ``/metrics``.
    metrics_auth: bool = False
    #: URL of the launcher for pods; empty: its Service, or the listening address outside of a cluster.
    discovery_url: str = ""
    log_archive: LogArchiveSettings | None = None
    #: Whether browsers get the dashboard.
    dashboard: bool = True


def cluster_exposure_error(listen_host: str, *, tls: bool) -> str | None:
    """Like ``exposure_error``, where the cluster authorizes callers: only their credentials must be protected."""
    if is_loopback(listen_host) or tls:
        return None
    return (
        f"{listen_host or 'every address'} can be reached from other machines, and callers send their credentials: "
        "set --tls-cert and --tls-key, or --tls-secret, or listen on 127.0.0.1"
    )


def is_for_kubernetes(flags: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Whether Kubernetes mode is selected. Raises InvalidSetting."""
    return SettingSources(flags, environment).is_enabled("kubernetes")


def cluster_settings_from(flags: Mapping[str, Any], environment: Mapping[str, str]) -> ClusterSettings:
    """Returns the settings of Kubernetes mode, like ``settings_from``."""
    sources = SettingSources(flags, environment)
    sources.reject(
        LOCAL_ONLY, "not supported with --kubernetes: the cluster provides nodes, storage and authorization"
    )
    listen = sources.one("listen") or DEFAULT_LISTEN
    if parse_unix_socket(sources.source("listen"), listen):
        raise InvalidSetting(
            f"{sources.source('listen')}: unix sockets are not supported with --kubernetes; set HOST:PORT"
        )
    host, port = parse_address(sources.source("listen"), listen)
    tls, secret = sources.tls(), sources.one("tls-secret")
    if tls and secret:
        raise InvalidSetting("tls-secret: cannot be combined with tls-cert and tls-key; remove one of them")
    client_ca = sources.one("client-ca")
    if client_ca and not (tls or secret):
        raise InvalidSetting("client-ca: requires TLS; set --tls-cert and --tls-key, or --tls-secret")
    if reason := cluster_exposure_error(host, tls=bool(tls or secret)):
        raise InvalidSetting(reason)
    return ClusterSettings(
        host=host,
        port=port,
        cluster=_cluster(sources, environment),
        tls=tls or secret,
        client_ca=sources.file("client-ca"),
        hosts=sources.hosts(),
        policy=sources.policy(),
        failure_rules=sources.failure_rules(),
        frameworkcontroller=sources.is_enabled("serve-frameworkcontroller"),
        metrics_auth=sources.is_enabled("metrics-auth"),
        discovery_url=parse_url(sources.source("discovery-url"), sources.one("discovery-url") or ""),
        log_archive=_log_archive(sources),
        dashboard=sources.is_enabled("dashboard", default=True),
    )


def _log_archive(sources: SettingSources) -> LogArchiveSettings | None:
    url = sources.one("log-archive")
    if url is None:
        sources.reject(("log-archive-tail", "log-archive-timeout"), "requires --log-archive URL")
        return None
    default = LogArchiveSettings(parse_archive_url(sources.source("log-archive"), url))
    return LogArchiveSettings(
        default.url,
        sources.size("log-archive-tail", default.tail_bytes, _MIN_TAIL_BYTES, _MAX_TAIL_BYTES),
        sources.seconds("log-archive-timeout", default.timeout_seconds, _MIN_ARCHIVE_TIMEOUT_SECONDS),
    )


def _cluster(sources: SettingSources, environment: Mapping[str, str]) -> Kubeconfig | InPod:
    """Returns the configured cluster; without configuration in a pod, the cluster of the pod."""
    files, context = sources.one("kubeconfig"), sources.one("context")
    service = environment.get(POD_VARIABLE)
    if service and not files and not context:
        return InPod(service, environment.get("KUBERNETES_SERVICE_PORT", "443"))
    return Kubeconfig(files or environment.get("KUBECONFIG") or None, context)
