"""API discovery: groups, versions, resources and their verbs."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson
from aiohttp import web

from launcher.api.api_resources import ApiResource, ApiSubresource, GroupVersionKind
from launcher.api.http.content_negotiation import (
    MediaType,
    Representation,
    negotiate_format,
    negotiate_media_type,
)
from launcher.api.http.responses import CachedDocument, cached_document, respond
from launcher.store.interface import ResourceKind

_PLAIN = MediaType("application/json")
#: All groups in one response. Clients recognise it by the parameters of its type.
_AGGREGATED = MediaType(
    "application/json", (("g", "apidiscovery.k8s.io"), ("v", "v2"), ("as", "APIGroupDiscoveryList"))
)
_OBJECT = frozenset({Representation.OBJECT})
_CORE = ("", "v1")

_STAGES = (None, "beta", "alpha")
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")

_GroupVersion = tuple[str, str]


class ApiDiscovery:
    """Handles ``/api`` and ``/apis``."""

    def __init__(self, resources: Sequence[ApiResource]) -> None:
        groups = {
            key: list(group) for key, group in groupby(sorted(resources, key=_order), key=_group_version)
        }
        core = {key: group for key, group in groups.items() if key == _CORE}
        others = {key: group for key, group in groups.items() if key != _CORE}
        self._groups = {
            group: _group(group, [version for _, version in keys])
            for group, keys in groupby(others, key=itemgetter(0))
        }
        self._resources = {key: _resource_list(key, group) for key, group in groups.items()}
        self._aggregated_core = _aggregated(core)
        self._aggregated_others = _aggregated(others)

    async def api(self, request: web.Request) -> web.Response:
        """``GET /api``: the versions of the core group."""
        plain = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        return await _either(request, plain, self._aggregated_core)

    async def apis(self, request: web.Request) -> web.Response:
        """``GET /apis``: all other groups."""
        plain = {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(self._groups.values())}
        return await _either(request, plain, self._aggregated_others)

    async def group(self, request: web.Request) -> web.Response:
        """``GET /apis/{group}``."""
        group = self._groups.get(request.match_info["group"])
        return await _plain(request, group and {"kind": "APIGroup", "apiVersion": "v1", **group})

    async def group_version(self, request: web.Request) -> web.Response:
        """``GET /apis/{group}/{version}``: its resources."""
        key = request.match_info["group"], request.match_info["version"]
        return await _plain(request, self._resources.get(key))

    async def core_version(self, request: web.Request) -> web.Response:
        """``GET /api/v1``: its resources."""
        return await _plain(request, self._resources[_CORE])


async def _either(request: web.Request, plain: Mapping[str, Any], aggregated: CachedDocument) -> web.Response:
    if negotiate_media_type(request, (_PLAIN, _AGGREGATED)) is _AGGREGATED:
        return aggregated.respond(request, cache_control="public")
    return await _plain(request, plain)


async def _plain(request: web.Request, document: Mapping[str, Any] | None) -> web.Response:
    if document is None:
        raise web.HTTPNotFound
    return await respond(request, negotiate_format(request, _OBJECT), dict(document))


def _group_version(resource: ApiResource) -> _GroupVersion:
    return resource.kind.group, resource.kind.version


def _order(resource: ApiResource) -> tuple[bool, str, tuple[int, ...], str]:
    # If two groups have a kind of the same name, clients use the first group by default.
    kind = resource.kind
    return resource.is_alias, kind.group, _priority(kind.version), kind.plural


def _priority(version: str) -> tuple[int, ...]:
    """Sorts versions as Kubernetes does: v1, v1beta2, v1beta1, v1alpha1."""
    match = _VERSION.fullmatch(version)
    assert match is not None, f"{version} is not a Kubernetes API version"
    number, stage, step = match.groups()
    return _STAGES.index(stage), -int(number), -int(step or 0)


def _group(name: str, versions: Sequence[str]) -> dict[str, Any]:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(key: _GroupVersion, group_resources: Sequence[ApiResource]) -> dict[str, Any]:
    group, version = key
    resources = [entry for resource in group_resources for entry in _resources(resource)]
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }


def _resources(resource: ApiResource) -> list[dict[str, Any]]:
    kind = resource.kind
    entry = {
        "name": kind.plural,
        "singularName": resource.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": resource.verbs,
        **_optional_fields(resource),
    }
    return [entry, *(_subresource(kind, subresource) for subresource in resource.subresources)]


def _subresource(kind: ResourceKind, subresource: ApiSubresource) -> dict[str, Any]:
    # Group and version are listed only if they differ from the resource's.
    group, version = subresource.kind.group, subresource.kind.version
    is_other_group = (group, version) != (kind.group, kind.version)
    return {
        "name": f"{kind.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        **({"group": group, "version": version} if is_other_group else {}),
        "kind": subresource.kind.kind,
        "verbs": subresource.verbs,
    }


def _optional_fields(resource: ApiResource) -> dict[str, Any]:
    fields = {"shortNames": resource.short_names, "categories": resource.categories}
    return {name: values for name, values in fields.items() if values}


def _aggregated(groups: Mapping[_GroupVersion, Sequence[ApiResource]]) -> CachedDocument:
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [_aggregated_resource(resource) for resource in groups[group, version]],
                }
                for _, version in keys
            ],
        }
        for group, keys in groupby(groups, key=itemgetter(0))
    ]
    document = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }
    body = orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
    return cached_document(body, _AGGREGATED.content_type)


def _aggregated_resource(resource: ApiResource) -> dict[str, Any]:
    kind = resource.kind
    subresources = [
        {
            "subresource": subresource.name,
            "responseKind": _response_kind(subresource.kind),
            "verbs": subresource.verbs,
        }
        for subresource in resource.subresources
    ]
    return {
        "resource": kind.plural,
        "responseKind": _response_kind(GroupVersionKind(kind.group, kind.version, kind.kind)),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
        **_optional_fields(resource),
        **({"subresources": subresources} if subresources else {}),
    }


def _response_kind(name: GroupVersionKind) -> dict[str, str]:
    return {"group": name.group, "version": name.version, "kind": name.kind}
