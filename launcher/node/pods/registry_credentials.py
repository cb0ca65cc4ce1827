"""Credentials for image registries in the format of Docker's config.json, which pull secrets contain too."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import orjson

from launcher.node.container_runtime import RegistryCredentials
from launcher.node.pods.environment import decoded_data
from launcher.node.pods.image_reference import DEFAULT_REGISTRY, ImageReference
from launcher.store.interface import SECRETS, Object

#: The key of each type of pull secret.
_CONFIG_JSON, _CONFIG = ".dockerconfigjson", ".dockercfg"
#: Docker's name of the default registry in config files.
_INDEX = "index.docker.io"


def secret_config(secret: Object) -> Mapping[str, Any]:
    """The config of a pull secret. Raises ValueError if it has none."""
    data = decoded_data(SECRETS, secret)
    if _CONFIG_JSON in data:
        return _mapping(orjson.loads(data[_CONFIG_JSON]))
    if _CONFIG in data:
        return {"auths": _mapping(orjson.loads(data[_CONFIG]))}
    raise ValueError(f"it has no key {_CONFIG_JSON}")


def matching_credentials(
    config: Mapping[str, Any], reference: ImageReference
) -> Iterator[RegistryCredentials]:
    """The credentials in *config* for the image, the most specific first."""
    auths = _mapping(config.get("auths") or {})
    for server in sorted(auths, key=len, reverse=True):
        if _matches(server, reference) and (credentials := _credentials(_mapping(auths[server]))):
            yield credentials


def credential_helper(config: Mapping[str, Any], registry: str) -> tuple[str, str] | None:
    """The name of the helper program for the registry, and the server to request; None if there is none."""
    server = f"https://{_INDEX}/v1/" if registry == DEFAULT_REGISTRY else registry
    helper = _mapping(config.get("credHelpers") or {}).get(registry) or config.get("credsStore")
    return (str(helper), server) if helper else None


def _matches(server: str, reference: ImageReference) -> bool:
    """Whether the credentials of *server*, such as ``registry.example.org/team`` or ``*.example.org``, are for it."""
    host, _, path = server.removeprefix("https://").removeprefix("http://").partition("/")
    if host == _INDEX or host.endswith(".docker.io"):
        host, path = DEFAULT_REGISTRY, ""
    if path.strip("/") in ("v1", "v2"):
        path = ""
    path = path.strip("/")
    is_below = not path or reference.repository == path or reference.repository.startswith(f"{path}/")
    return is_below and fnmatchcase(reference.registry, host)


def _credentials(auth: Mapping[str, Any]) -> RegistryCredentials | None:
    if token := auth.get("identitytoken"):
        return RegistryCredentials(identity_token=str(token))
    if auth.get("username"):
        return RegistryCredentials(str(auth["username"]), str(auth.get("password") or ""))
    try:
        text = base64.b64decode(str(auth.get("auth") or ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    username, colon, password = text.partition(":")
    return RegistryCredentials(username, password) if colon else None


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value
