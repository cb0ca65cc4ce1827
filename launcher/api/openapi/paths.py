"""Every path of the kinds, and what can be done there, as OpenAPI tells it."""

from collections.abc import Iterable, Sequence
from typing import Any

from launcher.api.api_resources import ApiResource, KindName, Sub
from launcher.api.openapi.definitions import SCALE, list_name_of, name_of
from launcher.api.openapi.schema_dialects import Dialect, Schema

#: Where a strategic merge patch stands, kubectl works one out from the schema, so no kind lists it: Frameworks do not
#: take it, and how the core kinds are merged kubectl knows by heart.
_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_BODIES = ("application/json", "application/yaml")

#: Verb, method, and what OpenAPI calls the action.
_ON_ALL = (
    ("list", "get", "list"),
    ("create", "post", "post"),
    ("deletecollection", "delete", "deletecollection"),
)
_ON_ONE = (
    ("get", "get", "get"),
    ("update", "put", "put"),
    ("patch", "patch", "patch"),
    ("delete", "delete", "delete"),
)

_Parameter = tuple[str, str, str]

_SELECTION: Sequence[_Parameter] = (
    ("labelSelector", "string", "Only objects whose labels match."),
    ("fieldSelector", "string", "Only objects whose fields match."),
)
_WRITING: Sequence[_Parameter] = (
    ("dryRun", "string", "All: check and answer as if, and change nothing."),
    ("fieldManager", "string", "Who makes the change."),
    ("fieldValidation", "string", "What becomes of unknown fields: Ignore, Warn or Strict."),
)
_DELETING: Sequence[_Parameter] = (
    ("dryRun", "string", "All: check and answer as if, and change nothing."),
    ("gracePeriodSeconds", "integer", "How long a pod may take to end."),
    ("propagationPolicy", "string", "What becomes of what it owns: Background, Foreground or Orphan."),
)
_PARAMETERS: dict[str, Sequence[_Parameter]] = {
    "get": (),
    "list": (
        *_SELECTION,
        ("limit", "integer", "At most so many; the answer tells how to get the next."),
        ("continue", "string", "Go on with a list that came in parts."),
        ("resourceVersion", "string", "The state to show, or to watch from."),
        ("resourceVersionMatch", "string", "Whether it must be that very state: Exact or NotOlderThan."),
        ("watch", "boolean", "Changes as they happen, instead of a list."),
        ("timeoutSeconds", "integer", "End a watch after so long."),
        ("allowWatchBookmarks", "boolean", "Tell now and then how far a watch has come."),
        ("sendInitialEvents", "boolean", "Begin a watch with what is there."),
    ),
    "post": _WRITING,
    "put": _WRITING,
    "patch": (*_WRITING, ("force", "boolean", "Take over fields that somebody else manages.")),
    "delete": _DELETING,
    "deletecollection": (*_SELECTION, *_DELETING),
    "log": (
        ("container", "string", "Whose log; not needed where there is only one."),
        ("follow", "boolean", "Go on until the container ends."),
        ("limitBytes", "integer", "At most so many bytes."),
        ("previous", "boolean", "Of the run before the last restart."),
        ("sinceSeconds", "integer", "Only what is not older than this."),
        ("sinceTime", "string", "Only what was written then or later."),
        ("tailLines", "integer", "Only so many lines from the end."),
        ("timestamps", "boolean", "Begin each line with its time."),
        ("uid", "string", "Of an earlier pod of that name."),
    ),
}


def paths(served: Iterable[ApiResource], dialect: Dialect) -> dict[str, Any]:
    """Each path with its operations."""
    writer = _Writer(dialect)
    return {path: operations for each in served for path, operations in writer.paths(each).items()}


class _Writer:
    """Writes operations in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def paths(self, served: ApiResource) -> dict[str, Any]:
        kind = served.kind
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        here = f"{root}/namespaces/{{namespace}}" if kind.namespaced else root
        name = KindName(kind.group, kind.version, kind.kind)
        collection, one = f"{here}/{kind.plural}", f"{here}/{kind.plural}/{{name}}"
        found = {
            collection: self._path(
                collection, served.verbs, _ON_ALL, name, name_of(kind), list_name_of(kind)
            ),
            one: self._path(one, served.verbs, _ON_ONE, name, name_of(kind)),
        }
        if kind.namespaced and "list" in served.verbs:
            everywhere = f"{root}/{kind.plural}"
            found[everywhere] = self._path(
                everywhere, ("list",), _ON_ALL, name, name_of(kind), list_name_of(kind)
            )
        for sub in served.subresources:
            found[f"{one}/{sub.name}"] = self._subresource(f"{one}/{sub.name}", sub, name_of(kind))
        return found

    def _subresource(self, path: str, sub: Sub, definition: str) -> dict[str, Any]:
        if sub.name == "log":
            operation = self._operation("log", sub.kind, None, {"200": {"description": "What was written."}})
            return {"get": operation, "parameters": self._in_path(path)}
        return self._path(path, sub.verbs, _ON_ONE, sub.kind, SCALE if sub.name == "scale" else definition)

    def _path(
        self,
        path: str,
        verbs: Sequence[str],
        methods: Iterable[tuple[str, str, str]],
        kind: KindName,
        definition: str,
        listing: str | None = None,
    ) -> dict[str, Any]:
        operations = {
            method: self._operation(
                action,
                kind,
                definition if action in ("post", "put", "patch") else None,
                self._responses(listing if listing and action != "post" else definition),
            )
            for verb, method, action in methods
            if verb in verbs
        }
        return {**operations, "parameters": self._in_path(path)}

    def _operation(
        self, action: str, kind: KindName, body: str | None, responses: dict[str, Any]
    ) -> dict[str, Any]:
        media = _PATCHES if action == "patch" else _BODIES
        parameters = [self._parameter("query", *each) for each in _PARAMETERS[action]]
        operation: dict[str, Any] = {
            "x-kubernetes-action": "get" if action == "log" else action,
            "x-kubernetes-group-version-kind": {
                "group": kind.group,
                "kind": kind.kind,
                "version": kind.version,
            },
            "parameters": parameters,
            "responses": responses,
        }
        if body is not None and self._dialect is Dialect.OPENAPI_3:
            schema = {"type": "object"} if action == "patch" else self._dialect.reference(body)
            operation["requestBody"] = {
                "content": {name: {"schema": schema} for name in media},
                "required": True,
            }
        elif body is not None:
            schema = {"type": "object"} if action == "patch" else self._dialect.reference(body)
            operation["consumes"] = list(media)
            parameters.append({"name": "body", "in": "body", "required": True, "schema": schema})
        return operation

    def _responses(self, definition: str) -> dict[str, Any]:
        schema = self._dialect.reference(definition)
        told: dict[str, Any] = {"description": "Done."}
        if self._dialect is Dialect.OPENAPI_3:
            told["content"] = {name: {"schema": schema} for name in _BODIES}
        else:
            told["schema"] = schema
        return {"200": told}

    def _in_path(self, path: str) -> list[Schema]:
        named = (("namespace", "The namespace."), ("name", "The name of the object."))
        return [
            {**self._parameter("path", name, "string", text), "required": True}
            for name, text in named
            if f"{{{name}}}" in path
        ]

    def _parameter(self, place: str, name: str, kind: str, description: str) -> Schema:
        told: Schema = {"name": name, "in": place, "description": description}
        return told | ({"schema": {"type": kind}} if self._dialect is Dialect.OPENAPI_3 else {"type": kind})
