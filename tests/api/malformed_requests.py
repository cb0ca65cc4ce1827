"""Requests that no sane client sends, and some that one does: methods, paths, headers and bodies of every kind."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import orjson
from hypothesis import strategies as st

from tests.api.samples import framework
from tests.core.manifests import json_values, paths_in, set_value

Json = dict[str, Any]


def _named(kind: str, name: str, **parts: Any) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": {"a": "b"}}, **parts}


#: One object for each plural that can be written.
OBJECTS: dict[str, Json] = {
    "frameworks": framework("a"),
    "pods": _named("Pod", "a", spec={"nodeName": "n", "containers": [{"name": "c", "env": [{"name": "X"}]}]}),
    "configmaps": _named("ConfigMap", "a", data={"k": "v"}),
    "secrets": _named("Secret", "a", data={"k": "dg=="}),
    "services": _named("Service", "a", spec={"ports": [{"port": 80}]}),
    "events": _named("Event", "a", involvedObject={"kind": "Pod"}),
    "namespaces": _named("Namespace", "team"),
}
_PLURALS = (*OBJECTS, "nodes", "nosuch")
_NAMES = (
    "a",
    "b",
    "team",
    "A_",
    "%2F",
    "%00",
    "%ff",
    "..",
    "%F0%9F%98%80",
    "a" * 300,
    "a%2Fstatus",
    "%25",
    "+",
)
_PARTS = ("", "", "", "/status", "/scale", "/log", "/exec", "/eviction", "/nosuch", "/")
_ELSEWHERE = (
    "/",
    "/api",
    "/api/",
    "/apis",
    "/apis/x",
    "/apis/launcher.microsoft.com/v1",
    "/healthz",
    "/livez/ping",
    "/readyz/x",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/version",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/%2e%2e/x",
    "//api//v1",
)
_QUERIES = (
    "watch",
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "pretty",
    "includeObject",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "container",
    "tailLines",
    "limitBytes",
    "sinceSeconds",
    "sinceTime",
    "previous",
    "uid",
    "hash",
)
_VALUES = (
    "",
    "1",
    "0",
    "-1",
    "true",
    "All",
    "Strict",
    "Ignore",
    "Exact",
    "NotOlderThan",
    "Foreground",
    "Orphan",
    "Object",
    "a=b",
    "a in (b,c)",
    "!a",
    "metadata.name=a",
    "status.phase!=x",
    "9223372036854775807",
    "9" * 30,
    "9" * 5000,
    "1e3",
    "%ff",
    "%00",
    "%0d%0aX: y",
    "%F0%9F%98%80",
    "2026-01-31T12:00:00Z",
    "0001-01-01T00:00:00%2B23:59",
    "eyJ2IjoxfQ",
    "=" * 20,
)
_TYPES = (
    "application/json",
    "application/json; charset=utf-8",
    "application/yaml",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
    "application/vnd.kubernetes.protobuf",
    "application/x-www-form-urlencoded",
    "text/plain",
    ";;",
    "\xff",
)
_ACCEPTS = (
    "application/json",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json;q=0.1",
    "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io",
    "text/html",
    "*/*;q=x",
    ";q=,,",
    "\xff",
)
_NAMESPACES = ("team", "%2F", "N_")
_METHODS = ("GET", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
#: What a body of that method is, most often.
_APT = {
    "POST": ("application/json", "application/yaml"),
    "PUT": ("application/json", "application/yaml"),
    "PATCH": _TYPES[3:7],
    "DELETE": ("application/json", ""),
}
_one_in_eight = st.integers(0, 7).map(lambda number: number == 0)
_DIRECTIVES = ("$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers")
_KEYS = (
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "spec",
    "status",
    "containers",
    "data",
    "finalizers",
    *_DIRECTIVES,
)
_TEXTS = (
    b"",
    b"null",
    b"[]",
    b"{",
    b"[" * 5000,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    b'{"metadata":{"name":NaN}}',
    b'{"metadata":{"labels":{"a":1e999}}}',
    b'{"spec":{"x":99999999999999999999999999}}',
    b'{"metadata":{"name":"\\ud800"}}',
    b'kind: "\\uD800"',
    b"a: &a [*a]",
    b"a: .inf",
    b"? [a, b]\n: c",
    b"!!python/object:os.system x",
    b"k8s\x00\x12\x03\x0a\x01\xff",
    b"k8s\x00" + b"\xff" * 30,
    b"\xff\xfe\x00",
)


@dataclass(frozen=True, slots=True)
class MalformedRequest:
    """One request, as its bytes."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def __bytes__(self) -> bytes:
        reported = (("Host", "localhost"), ("Connection", "close"), ("Content-Length", str(len(self.body))))
        lines = [
            f"{self.method} {self.path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in reported + self.headers),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


def _changed(plural: str, data: Any) -> Any:
    """An object of ours with something else in a few places."""
    obj = deepcopy(OBJECTS[plural])
    for _ in range(data(st.integers(0, 3))):
        set_value(obj, data(st.sampled_from(list(paths_in(obj)))), data(json_values))
    return obj


_values = json_values | st.dictionaries(st.sampled_from(_KEYS), json_values, max_size=4)
_operations = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]) | json_values,
        "path": st.sampled_from(
            ["", "/", "/metadata/labels/a", "/spec", "/metadata/name", "/spec/-", "/a/9", "a"]
        )
        | json_values,
    },
    optional={"value": json_values, "from": st.sampled_from(["", "/spec", "/x"])},
)


@st.composite
def _bodies(draw: st.DrawFn, plural: str) -> bytes:
    match draw(st.sampled_from(["own", "own", "own", "changes", "operations", "other", "text", "bytes"])):
        case "own" if plural in OBJECTS:
            return orjson.dumps(_changed(plural, draw))
        case "operations":
            return orjson.dumps(draw(st.lists(_operations, max_size=3)))
        case "changes":
            return orjson.dumps(draw(st.dictionaries(st.sampled_from(_KEYS), _values, max_size=3)))
        case "text":
            return draw(st.sampled_from(_TEXTS))
        case "bytes":
            return draw(st.binary(max_size=40))
        case _:
            return orjson.dumps(_changed(draw(st.sampled_from(list(OBJECTS))), draw))


@st.composite
def _paths(draw: st.DrawFn, plural: str, method: str) -> str:
    """A path about objects of that plural; most often one that leads somewhere."""
    root = "/apis/launcher.microsoft.com/v1" if plural == "frameworks" else "/api/v1"
    if draw(_one_in_eight):
        root += "/watch"
    namespace = draw(st.sampled_from(_NAMESPACES)) if draw(_one_in_eight) else "default"
    inside = "" if plural in ("namespaces", "nodes") else f"/namespaces/{namespace}"
    if draw(_one_in_eight) != (method == "POST"):
        return f"{root}{inside}/{plural}"
    name = draw(st.sampled_from(_NAMES)) if draw(_one_in_eight) else "team" if plural == "namespaces" else "a"
    part = draw(st.sampled_from(_PARTS)) if draw(_one_in_eight) else ""
    return f"{root}{inside}/{plural}/{name}{part}"


@st.composite
def requests(draw: st.DrawFn) -> MalformedRequest:
    """Any request; one that would last ends at once."""
    plural = draw(st.sampled_from(_PLURALS))
    query = draw(st.lists(st.tuples(st.sampled_from(_QUERIES), st.sampled_from(_VALUES)), max_size=2))
    method = draw(st.sampled_from(_METHODS))
    path = draw(st.sampled_from(_ELSEWHERE)) if draw(_one_in_eight) else draw(_paths(plural, method))
    path += "?timeoutSeconds=-1&fieldManager=x" + "".join(f"&{name}={value}" for name, value in query)
    declared = draw(st.sampled_from(_TYPES if draw(_one_in_eight) else _APT.get(method, _TYPES)))
    headers = [("Content-Type", declared)] if declared else []
    if draw(_one_in_eight):
        headers.append(("Accept", draw(st.sampled_from(_ACCEPTS))))
    body = b"" if method in ("GET", "HEAD") else draw(_bodies(plural))
    if method == "DELETE" and draw(st.booleans()):
        body = b""
    return MalformedRequest(method, path.replace(" ", "%20"), tuple(headers), body)
