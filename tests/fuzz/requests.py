"""Random requests: every verb, patch type, header and query of the API, on valid and on damaged objects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import orjson

from tests.fuzz.mutation import VALUES, as_yaml, damaged, damaged_text, json_patch, merge_patch
from tests.fuzz.objects import NAMESPACES, RESOURCES, Resource, with_environment

Json = dict[str, Any]

_QUERIES: Mapping[str, tuple[str, ...]] = {
    "dryRun": ("All", "", "x"),
    "fieldValidation": ("Strict", "Ignore", "Warn", "x"),
    "fieldManager": ("me", "", "x" * 200),
    "force": ("true", "x"),
    "labelSelector": ("app=a", "a in (b,c)", "!a", "=", ",,", "a" * 300),
    "fieldSelector": ("metadata.name=a", "status.phase!=x", "spec.x=1", "=", "metadata.name"),
    "limit": ("1", "0", "-1", "2147483648", "9" * 30, "x"),
    "continue": ("x", "eyJ2IjoxfQ"),
    "resourceVersion": ("0", "1", "-1", "9" * 20, "x"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "propagationPolicy": ("Foreground", "Background", "Orphan", "x"),
    "gracePeriodSeconds": ("0", "1", "-1", "9" * 20, "x"),
    "sinceSeconds": ("1", "2147483648", "9" * 20, "-1"),
    "sinceTime": ("2026-01-01T00:00:00Z", "x", "0001-01-01T00:00:00%2B23:59"),
    "tailLines": ("1", "0", "-1", "9" * 20),
    "limitBytes": ("1", "0", "9" * 20),
    "container": ("main", "nosuch", "a/b", ""),
    "previous": ("true", "x"),
    "uid": ("x", ""),
    "pretty": ("true",),
    "watch": ("0", "false"),
}
_NAMES = ("A_", "%2F", "%00", "..", "a%2Fstatus", "%25", "a" * 64, "a" * 300, "a.b", "-", "%F0%9F%98%80")
_ACCEPTS = (
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json;q=0.1",
    "text/html",
    ";q=,,",
)
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_OTHER_TYPES = ("application/yaml", "application/x-www-form-urlencoded", "text/plain", ";;", "")
_OTHER_PATHS = (
    "/",
    "/apis",
    "/apis/x",
    "/healthz",
    "/readyz?verbose",
    "/metrics",
    "/openapi/v3",
    "/version",
    "/rendezvous/v1/programs/get_ips.sh",
    "/rendezvous/v1/namespaces/default/frameworks/peers/attempts/0?timeoutSeconds=1",
    "/rendezvous/v1/namespaces/default/frameworks/nosuch/attempts/9999999999",
    "/api/v1/watch/pods?timeoutSeconds=1",
    "/apis/launcher.microsoft.com/v1/watch/namespaces/default/frameworks/plain?timeoutSeconds=1",
)


@dataclass(frozen=True, slots=True)
class FuzzRequest:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def __str__(self) -> str:
        """One line with everything that is needed to repeat the request."""
        return f"{self.method} {self.path} {dict(self.headers)} {self.body!r}"


def random_requests(random: Random, env: Mapping[str, str]) -> Iterator[FuzzRequest]:
    """Yields requests endlessly. *env* is in the environment of every container that they create."""
    objects = {resource: [with_environment(obj, env) for obj in resource.objects] for resource in RESOURCES}
    while True:
        if random.random() < 0.03:
            yield FuzzRequest("GET", random.choice(_OTHER_PATHS), _accept(random))
        else:
            yield _request(random, objects)


def _request(random: Random, objects: Mapping[Resource, list[Json]]) -> FuzzRequest:
    resource = random.choice(RESOURCES)
    namespace = random.choice(NAMESPACES) if random.random() < 0.97 else random.choice(_NAMES)
    obj = random.choice(objects[resource]) if objects[resource] else {"metadata": {"name": "x"}}
    name = str(obj["metadata"]["name"])
    if random.random() < 0.3:
        # Another object of this kind, because accepted objects are kept.
        name = f"{name}-{random.randrange(4)}"
        obj = {**obj, "metadata": {**obj["metadata"], "name": name}}
    requested_name = name if random.random() < 0.97 else random.choice(_NAMES)
    part = random.choice(resource.subresources) if resource.subresources and random.random() < 0.15 else ""
    match random.choices(
        ("create", "update", "patch", "get", "list", "watch", "delete", "deletecollection", "odd"),
        (40, 10, 25, 8, 5, 0.5, 6, 0.5, 2),
    )[0]:
        case "create":
            path = resource.path(namespace)
            return _with_body(random, "POST", path, damaged(random, obj, _times(random)))
        case "update":
            path = resource.path(namespace, requested_name, part)
            return _with_body(random, "PUT", path, damaged(random, obj, _times(random)))
        case "patch":
            return _patch(random, resource.path(namespace, requested_name, part), obj)
        case "get":
            path = resource.path(namespace, requested_name, part)
            return FuzzRequest("GET", _query(random, path), _accept(random))
        case "list":
            return FuzzRequest("GET", _query(random, resource.path(namespace)), _accept(random))
        case "watch":
            path = resource.path(namespace)
            return FuzzRequest("GET", _query(random, path, "watch=1&timeoutSeconds=1"), _accept(random))
        case "delete":
            return FuzzRequest("DELETE", _query(random, resource.path(namespace, requested_name)))
        case "deletecollection":
            return FuzzRequest("DELETE", _query(random, resource.path(namespace)))
        case _:
            method = random.choice(("POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
            return _with_body(random, method, resource.path(namespace, requested_name, part), obj)


def _times(random: Random) -> int:
    """The number of changes of an object; some objects stay valid."""
    return random.choice((0, 1, 1, 1, 2, 3))


def _query(random: Random, path: str, *required: str) -> str:
    pairs = [f"{name}={random.choice(_QUERIES[name])}" for name in random.sample(list(_QUERIES), 2)]
    chosen = [*required, *(pairs[: random.randrange(3)] if random.random() < 0.4 else ())]
    return path + ("?" + "&".join(chosen).replace(" ", "%20") if chosen else "")


def _accept(random: Random) -> dict[str, str]:
    return {"Accept": random.choice(_ACCEPTS)} if random.random() < 0.2 else {}


def _with_body(random: Random, method: str, path: str, obj: Any) -> FuzzRequest:
    as_text = random.random() < 0.15
    body = as_yaml(obj) if as_text else orjson.dumps(obj)
    content_type = "application/yaml" if as_text else "application/json"
    if random.random() < 0.05:
        body = damaged_text(random, body)
    if random.random() < 0.03:
        content_type = random.choice(_OTHER_TYPES)
    headers = {**_accept(random), **({"Content-Type": content_type} if content_type else {})}
    return FuzzRequest(method, _query(random, path), headers, body)


def _patch(random: Random, path: str, obj: Json) -> FuzzRequest:
    content_type = random.choice(_PATCHES)
    match content_type:
        case "application/json-patch+json":
            body: Any = json_patch(random, obj)
        case "application/apply-patch+yaml":
            body = damaged(random, obj, _times(random))
            path += "?fieldManager=fuzz"
            return FuzzRequest("PATCH", path, {"Content-Type": content_type}, orjson.dumps(body))
        case _:
            body = merge_patch(random, obj)
    if random.random() < 0.05:
        body = random.choice(VALUES)
    text = orjson.dumps(body)
    if random.random() < 0.03:
        text = damaged_text(random, text)
    return FuzzRequest("PATCH", _query(random, path), {"Content-Type": content_type}, text)
