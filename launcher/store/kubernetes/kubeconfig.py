"""
Address and credentials of a cluster from a kubeconfig.

kubernetes_asyncio takes half a second and 60 MB: this module is imported only where there is a kubeconfig.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.kube_config import (
    KUBE_CONFIG_DEFAULT_LOCATION,
    KubeConfigLoader,
    KubeConfigMerger,
)
from yaml import YAMLError

from launcher.core.errors import BadRequest, Unavailable
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import (
    CredentialPlugin,
    Credentials,
    FixedHeader,
    IssuedCredentials,
    TokenFile,
)
from launcher.tls.client_context import ClientTls


async def from_kubeconfig(
    paths: str | None, context: str | None, clock: Callable[[], float]
) -> ClusterConfig:
    """
    Returns the cluster of a *context* (None: the current one) in these files, separated by colons as in
    ``KUBECONFIG``.

    Without *paths* the default of kubectl is used. Raises BadRequest if they are not valid, Unavailable if a
    credential plugin fails.
    """
    paths = paths or KUBE_CONFIG_DEFAULT_LOCATION
    try:
        loader, user = _loader(paths, context)
        if _has_plugin(user):
            return await _with_plugin(loader, Configuration(), clock)
        await loader.load_and_set(config := Configuration())
    except (ConfigException, OSError) as error:
        raise BadRequest(f"kubeconfig {paths}: {error}") from error
    return ClusterConfig(
        _server_url(config),
        _static_credentials(config, user),
        _client_tls(config),
        config.proxy,
        _context_namespace(loader),
    )


def _loader(paths: str, context: str | None) -> tuple[KubeConfigLoader, dict[str, Any]]:
    """Returns the loader and the user of the context, ``{}`` for none."""
    # It warns about missing files. One of several may be missing, and we report it if all are.
    logging.getLogger(KubeConfigMerger.__module__).setLevel(logging.ERROR)
    try:
        merged = KubeConfigMerger(paths).config
    except (YAMLError, AttributeError, TypeError) as error:
        raise BadRequest(f"kubeconfig {paths}: invalid: {error}") from error
    if merged is None:
        raise BadRequest(f"kubeconfig {paths}: no such file; specify one with --kubeconfig")
    loader = KubeConfigLoader(config_dict=merged, config_base_path=None, active_context=context)
    current = loader.current_context or {}
    name = current.get("context", {}).get("user")
    entry = merged["users"].get_with_name(name, safe=True) if name and merged.safe_get("users") else None
    if entry is None:
        return loader, {}
    user: dict[str, Any] = dict(entry["user"].value) if entry.safe_get("user") else {}
    if "tokenFile" in user:
        user["tokenFile"] = str(Path(entry.path or paths).absolute().parent / user["tokenFile"])
    return loader, user


def _has_plugin(user: dict[str, Any]) -> bool:
    """Whether a plugin issues credentials that expire."""
    return "exec" in user or "auth-provider" in user


async def _with_plugin(
    loader: KubeConfigLoader, config: Configuration, clock: Callable[[], float]
) -> ClusterConfig:
    tls: ClientTls | None = None

    async def issue() -> IssuedCredentials:
        # Otherwise the loader would not run the plugin again.
        loader.__dict__.pop("exec_plugin_expiry", None)
        try:
            await loader.load_and_set(config)
        except Exception as error:  # plugins raise any exception
            raise Unavailable(f"the credential plugin failed: {error}") from error
        if tls is not None and config.cert_file and config.key_file:
            tls.identify(Path(config.cert_file), Path(config.key_file))
        expiry = loader.__dict__.get("exec_plugin_expiry")
        return IssuedCredentials(config.api_key.get("BearerToken"), expiry.timestamp() if expiry else None)

    plugin = CredentialPlugin(issue, clock)
    await plugin.header()
    tls = _client_tls(config)
    return ClusterConfig(_server_url(config), plugin, tls, config.proxy, _context_namespace(loader))


def _context_namespace(loader: KubeConfigLoader) -> str:
    return str((loader.current_context or {}).get("context", {}).get("namespace") or "default")


def _static_credentials(config: Configuration, user: dict[str, Any]) -> Credentials:
    if user.get("tokenFile") and not user.get("token"):
        return TokenFile(Path(user["tokenFile"]))
    return FixedHeader(config.api_key.get("BearerToken"))


def _server_url(config: Configuration) -> str:
    if not config.host:
        raise BadRequest("kubeconfig: the cluster has no server")
    return config.host


def _client_tls(config: Configuration) -> ClientTls | None:
    if not _server_url(config).startswith("https://"):
        return None
    return ClientTls(
        _path(config.ssl_ca_cert),
        _path(config.cert_file),
        _path(config.key_file),
        verify=config.verify_ssl,
        server_name=config.tls_server_name,
    )


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None
