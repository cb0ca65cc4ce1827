"""What there is: groups, versions, resources and what can be done with them, as clients find it out."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson
from aiohttp import web

from launcher.api.api_resources import ApiResource, KindName, Sub
from launcher.api.http.api_group_alias import SECOND
from launcher.api.http.content_negotiation import Offer, Representation, negotiate_format, wanted
from launcher.api.http.responses import CachedDocument, hashed, respond
from launcher.store.interface import ResourceKind

_PLAIN = Offer("application/json")
#: Everything in one answer. Clients tell it from the plain one by the parameters of its type.
_AGGREGATED = Offer(
    "application/json", (("g", "apidiscovery.k8s.io"), ("v", "v2"), ("as", "APIGroupDiscoveryList"))
)
_OBJECT = frozenset({Representation.OBJECT})
_CORE = ("", "v1")

_STAGES = (None, "beta", "alpha")
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")

_GroupVersion = tuple[str, str]


class ApiDiscovery:
    """Answers for ``/api`` and ``/apis``."""

    def __init__(self, served: Sequence[ApiResource]) -> None:
        groups = {key: list(some) for key, some in groupby(sorted(served, key=_place), key=_group_version)}
        core = {key: some for key, some in groups.items() if key == _CORE}
        others = {key: some for key, some in groups.items() if key != _CORE}
        self._groups = {
            group: _group(group, [version for _, version in some])
            for group, some in groupby(others, key=itemgetter(0))
        }
        self._resources = {key: _resource_list(key, some) for key, some in groups.items()}
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
        """``GET /apis/{group}/{version}``: the resources there."""
        key = request.match_info["group"], request.match_info["version"]
        return await _plain(request, self._resources.get(key))

    async def core_version(self, request: web.Request) -> web.Response:
        """``GET /api/v1``: the resources there."""
        return await _plain(request, self._resources[_CORE])


async def _either(request: web.Request, plain: Mapping[str, Any], aggregated: CachedDocument) -> web.Response:
    if wanted(request, (_PLAIN, _AGGREGATED)) is _AGGREGATED:
        return aggregated.answer(request, caching="public")
    return await _plain(request, plain)


async def _plain(request: web.Request, found: Mapping[str, Any] | None) -> web.Response:
    if found is None:
        raise web.HTTPNotFound
    return await respond(request, negotiate_format(request, _OBJECT), dict(found))


def _group_version(served: ApiResource) -> _GroupVersion:
    return served.kind.group, served.kind.version


def _place(served: ApiResource) -> tuple[bool, str, tuple[int, ...], str]:
    # Of two groups with a kind of the same name, clients take the first unless they are told which.
    return served.kind == SECOND, served.kind.group, _priority(served.kind.version), served.kind.plural


def _priority(version: str) -> tuple[int, ...]:
    """Sorts versions as Kubernetes does: v1, v1beta2, v1beta1, v1alpha1."""
    found = _VERSION.fullmatch(version)
    assert found is not None, f"{version} is no version of Kubernetes'"
    number, stage, step = found.groups()
    return _STAGES.index(stage), -int(number), -int(step or 0)


def _group(name: str, versions: Sequence[str]) -> dict[str, Any]:
    told = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": told, "preferredVersion": told[0]}


def _resource_list(key: _GroupVersion, some: Sequence[ApiResource]) -> dict[str, Any]:
    group, version = key
    resources = [entry for served in some for entry in _resources(served)]
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }


def _resources(served: ApiResource) -> list[dict[str, Any]]:
    kind = served.kind
    entry = {
        "name": kind.plural,
        "singularName": served.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": served.verbs,
        **_also(served),
    }
    return [entry, *(_subresource(kind, sub) for sub in served.subresources)]


def _subresource(kind: ResourceKind, sub: Sub) -> dict[str, Any]:
    # The kind's own group and version go without saying.
    elsewhere = (sub.kind.group, sub.kind.version) != (kind.group, kind.version)
    return {
        "name": f"{kind.plural}/{sub.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        **({"group": sub.kind.group, "version": sub.kind.version} if elsewhere else {}),
        "kind": sub.kind.kind,
        "verbs": sub.verbs,
    }


def _also(served: ApiResource) -> dict[str, Any]:
    also = {"shortNames": served.short_names, "categories": served.categories}
    return {name: values for name, values in also.items() if values}


def _aggregated(groups: Mapping[_GroupVersion, Sequence[ApiResource]]) -> CachedDocument:
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [_aggregated_resource(served) for served in groups[group, version]],
                }
                for _, version in some
            ],
        }
        for group, some in groupby(groups, key=itemgetter(0))
    ]
    document = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }
    return hashed(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE), _AGGREGATED.content_type)


def _aggregated_resource(served: ApiResource) -> dict[str, Any]:
    kind = served.kind
    subresources = [
        {"subresource": sub.name, "responseKind": _response_kind(sub.kind), "verbs": sub.verbs}
        for sub in served.subresources
    ]
    return {
        "resource": kind.plural,
        "responseKind": _response_kind(KindName(kind.group, kind.version, kind.kind)),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": served.verbs,
        **_also(served),
        **({"subresources": subresources} if subresources else {}),
    }


def _response_kind(name: KindName) -> dict[str, str]:
    return {"group": name.group, "version": name.version, "kind": name.kind}
