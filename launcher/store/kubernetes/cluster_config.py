"""How a cluster is reached, and as whom: from a kubeconfig, or from what a pod finds in its cluster."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.core.errors import BadRequest, Unavailable
from launcher.store.kubernetes.credentials import Credentials, FixedHeader, Issued, Plugin, TokenFile
from launcher.tls.client_context import ClientTls

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader

#: Where a pod finds the token and the authority of its cluster.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """An API server, and what it takes to speak with it."""

    #: Without a slash at its end.
    url: str
    credentials: Credentials
    tls: ClientTls | None = None
    proxy: str | None = None
    #: Where the launcher's own objects stand: its pod's namespace, or the one that the context names.
    namespace: str = "default"


def from_service_account(host: str, port: str, account: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """
    The cluster that this process runs in, as the pod's own service account.

    *host* and *port* are what a pod has in ``KUBERNETES_SERVICE_HOST`` and ``KUBERNETES_SERVICE_PORT``. Raises
    BadRequest when the pod was given no account.
    """
    token, authority = account / "token", account / "ca.crt"
    for path in (token, authority):
        if not path.is_file():
            raise BadRequest(
                f"{path} is missing: this pod has no service account (automountServiceAccountToken)"
            )
    bracketed = f"[{host}]" if ":" in host else host
    url = f"https://{bracketed}:{port}"
    return ClusterConfig(url, TokenFile(token), ClientTls(authority), namespace=_namespace_in(account))


def _namespace_in(account: Path) -> str:
    try:
        return (account / "namespace").read_text().strip() or "default"
    except FileNotFoundError:
        return "default"


async def from_kubeconfig(
    paths: str | None, context: str | None, clock: Callable[[], float]
) -> ClusterConfig:
    """
    The cluster of a *context* (None: the current one) of these files, joined by colons as in ``KUBECONFIG``.

    None is where kubectl looks, too. Raises BadRequest when they are no kubeconfig, Unavailable when a program that
    they name gives out no credentials.
    """
    # A second and sixty megabytes, which only this way of access has to pay.
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config.config_exception import ConfigException
    from kubernetes_asyncio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION

    paths = paths or KUBE_CONFIG_DEFAULT_LOCATION
    try:
        loader, user = _loader(paths, context)
        if _gives_out(user):
            return await _with_plugin(loader, Configuration(), clock)
        await loader.load_and_set(found := Configuration())
    except (ConfigException, OSError) as error:
        raise BadRequest(f"kubeconfig {paths}: {error}") from error
    return ClusterConfig(
        _url_of(found), _lasting(found, user), _tls_of(found), found.proxy, _namespace_of(loader)
    )


def _loader(paths: str, context: str | None) -> "tuple[KubeConfigLoader, dict[str, Any]]":
    """Who reads the files, and the user that the context names, ``{}`` for none."""
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger
    from yaml import YAMLError

    # Of files that are not there it warns; of several one may be missing, and we say ourselves when there is none.
    logging.getLogger(KubeConfigMerger.__module__).setLevel(logging.ERROR)
    try:
        merged = KubeConfigMerger(paths).config
    except (YAMLError, AttributeError, TypeError) as error:
        raise BadRequest(f"kubeconfig {paths}: it cannot be read: {error}") from error
    if merged is None:
        raise BadRequest(f"kubeconfig {paths}: there is no such file; name one with --kubeconfig")
    loader = KubeConfigLoader(config_dict=merged, config_base_path=None, active_context=context)
    current = loader.current_context or {}
    name = current.get("context", {}).get("user")
    found = merged["users"].get_with_name(name, safe=True) if name and merged.safe_get("users") else None
    if found is None:
        return loader, {}
    user: dict[str, Any] = dict(found["user"].value) if found.safe_get("user") else {}
    if "tokenFile" in user:
        user["tokenFile"] = str(Path(found.path or paths).absolute().parent / user["tokenFile"])
    return loader, user


def _gives_out(user: dict[str, Any]) -> bool:
    """Whether credentials come from somewhere else and run out."""
    return "exec" in user or "auth-provider" in user


async def _with_plugin(
    loader: "KubeConfigLoader", found: "Configuration", clock: Callable[[], float]
) -> ClusterConfig:
    tls: ClientTls | None = None

    async def issue() -> Issued:
        # Left there, it would keep the loader from asking again.
        loader.__dict__.pop("exec_plugin_expiry", None)
        try:
            await loader.load_and_set(found)
        except Exception as error:  # whatever a plugin comes up with
            raise Unavailable(f"no credentials were given out: {error}") from error
        if tls is not None and found.cert_file and found.key_file:
            tls.identify(Path(found.cert_file), Path(found.key_file))
        expiry = loader.__dict__.get("exec_plugin_expiry")
        return Issued(found.api_key.get("BearerToken"), expiry.timestamp() if expiry else None)

    plugin = Plugin(issue, clock)
    await plugin.header()
    tls = _tls_of(found)
    return ClusterConfig(_url_of(found), plugin, tls, found.proxy, _namespace_of(loader))


def _namespace_of(loader: "KubeConfigLoader") -> str:
    return str((loader.current_context or {}).get("context", {}).get("namespace") or "default")


def _lasting(found: "Configuration", user: dict[str, Any]) -> Credentials:
    if user.get("tokenFile") and not user.get("token"):
        return TokenFile(Path(user["tokenFile"]))
    return FixedHeader(found.api_key.get("BearerToken"))


def _url_of(found: "Configuration") -> str:
    if not found.host:
        raise BadRequest("kubeconfig: the cluster has no server")
    return found.host


def _tls_of(found: "Configuration") -> ClientTls | None:
    if not _url_of(found).startswith("https://"):
        return None
    return ClientTls(
        _path(found.ssl_ca_cert),
        _path(found.cert_file),
        _path(found.key_file),
        verify=found.verify_ssl,
        server_name=found.tls_server_name,
    )


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None
