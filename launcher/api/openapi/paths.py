"""OpenAPI paths and operations of the kinds."""

from collections.abc import Iterable, Sequence
from typing import Any

from launcher.api.api_resources import ApiResource, ApiSubresource, GroupVersionKind
from launcher.api.openapi.definitions import DIAGNOSIS, SCALE, list_name_of, name_of
from launcher.api.openapi.schema_dialects import Dialect, Schema

#: Strategic merge patches are not listed, since kubectl would compute them from the schema: Frameworks do not support
#: them, and kubectl has the merge keys of the core kinds built in.
_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_BODIES = ("application/json", "application/yaml")

#: Verb, method, and name of the action in OpenAPI.
_COLLECTION_ACTIONS = (
    ("list", "get", "list"),
    ("create", "post", "post"),
    ("deletecollection", "delete", "deletecollection"),
)
_ITEM_ACTIONS = (
    ("get", "get", "get"),
    ("update", "put", "put"),
    ("patch", "patch", "patch"),
    ("delete", "delete", "delete"),
)

_Parameter = tuple[str, str, str]

_SELECTION: Sequence[_Parameter] = (
    ("labelSelector", "string", "Selects objects by their labels."),
    ("fieldSelector", "string", "Selects objects by their fields."),
)
_WRITE_PARAMETERS: Sequence[_Parameter] = (
    ("dryRun", "string", "All: the request is processed, but nothing is stored."),
    ("fieldManager", "string", "The name of the client that makes the change."),
    ("fieldValidation", "string", "How unknown fields are handled: Ignore, Warn or Strict."),
)
_DELETE_PARAMETERS: Sequence[_Parameter] = (
    ("dryRun", "string", "All: the request is processed, but nothing is deleted."),
    ("gracePeriodSeconds", "integer", "The time that a pod has to terminate."),
    ("propagationPolicy", "string", "How dependents are deleted: Background, Foreground or Orphan."),
)
_SESSION_PARAMETERS: Sequence[_Parameter] = (
    ("container", "string", "The container; optional if there is only one."),
    ("stdin", "boolean", "Pass on the input of the client."),
    ("stdout", "boolean", "Return the output."),
    ("stderr", "boolean", "Return the errors."),
    ("tty", "boolean", "The streams are a terminal."),
)
_PARAMETERS: dict[str, Sequence[_Parameter]] = {
    "get": (),
    "list": (
        *_SELECTION,
        ("limit", "integer", "The maximum number of objects in a page."),
        ("continue", "string", "The token of the next page."),
        ("resourceVersion", "string", "The version to list, or to watch from."),
        ("resourceVersionMatch", "string", "How the version is compared: Exact or NotOlderThan."),
        ("watch", "boolean", "Stream changes instead of a list."),
        ("timeoutSeconds", "integer", "The duration of a watch."),
        ("allowWatchBookmarks", "boolean", "Send bookmarks with the current version."),
        ("sendInitialEvents", "boolean", "Begin a watch with the existing objects."),
    ),
    "post": _WRITE_PARAMETERS,
    "put": _WRITE_PARAMETERS,
    "patch": (*_WRITE_PARAMETERS, ("force", "boolean", "Take over fields of other managers.")),
    "delete": _DELETE_PARAMETERS,
    "deletecollection": (*_SELECTION, *_DELETE_PARAMETERS),
    "diagnosis": (
        ("role", "string", "Only tasks of this role."),
        ("index", "integer", "Only the task of this index; requires role."),
    ),
    "attach": _SESSION_PARAMETERS,
    "exec": (("command", "string", "The command; repeated for each of its words."), *_SESSION_PARAMETERS),
    "portforward": (("ports", "integer", "A port; ignored, since the streams name their ports."),),
    "log": (
        ("container", "string", "The container; optional if there is only one."),
        ("follow", "boolean", "Follow the log until the container terminates."),
        ("limitBytes", "integer", "The maximum number of bytes."),
        ("previous", "boolean", "The log of the previous terminated container."),
        ("sinceSeconds", "integer", "Only lines of the last seconds."),
        ("sinceTime", "string", "Only lines since this time."),
        ("tailLines", "integer", "The number of lines from the end."),
        ("timestamps", "boolean", "Prefix each line with its timestamp."),
        ("uid", "string", "The uid of an earlier pod of that name."),
    ),
}


def paths(resources: Iterable[ApiResource], dialect: Dialect) -> dict[str, Any]:
    """Returns each path with its operations."""
    builder = _PathBuilder(dialect)
    return {
        path: operations for resource in resources for path, operations in builder.paths(resource).items()
    }


class _PathBuilder:
    """Builds operations in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def paths(self, resource: ApiResource) -> dict[str, Any]:
        kind = resource.kind
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        base = f"{root}/namespaces/{{namespace}}" if kind.namespaced else root
        name = GroupVersionKind(kind.group, kind.version, kind.kind)
        collection, item = f"{base}/{kind.plural}", f"{base}/{kind.plural}/{{name}}"
        result = {
            collection: self._path(
                collection, resource.verbs, _COLLECTION_ACTIONS, name, name_of(kind), list_name_of(kind)
            ),
            item: self._path(item, resource.verbs, _ITEM_ACTIONS, name, name_of(kind)),
        }
        if kind.namespaced and "list" in resource.verbs:
            all_namespaces = f"{root}/{kind.plural}"
            result[all_namespaces] = self._path(
                all_namespaces, ("list",), _COLLECTION_ACTIONS, name, name_of(kind), list_name_of(kind)
            )
        for subresource in resource.subresources:
            path = f"{item}/{subresource.name}"
            result[path] = self._subresource(path, subresource, name_of(kind))
        return result

    def _subresource(self, path: str, subresource: ApiSubresource, definition: str) -> dict[str, Any]:
        kind = subresource.kind
        if subresource.name == "diagnosis":
            operation = self._operation("diagnosis", kind, None, self._responses(DIAGNOSIS))
            return {"get": operation, "parameters": self._path_parameters(path)}
        if subresource.name == "log":
            operation = self._operation("log", kind, None, {"200": {"description": "The log."}})
            return {"get": operation, "parameters": self._path_parameters(path)}
        if subresource.name in ("attach", "exec", "portforward"):
            operation = self._operation(
                subresource.name, kind, None, {"101": {"description": "The streams."}}
            )
            return {"get": operation, "parameters": self._path_parameters(path)}
        definition = SCALE if subresource.name == "scale" else definition
        return self._path(path, subresource.verbs, _ITEM_ACTIONS, kind, definition)

    def _path(
        self,
        path: str,
        verbs: Sequence[str],
        methods: Iterable[tuple[str, str, str]],
        kind: GroupVersionKind,
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
        return {**operations, "parameters": self._path_parameters(path)}

    def _operation(
        self, action: str, kind: GroupVersionKind, body: str | None, responses: dict[str, Any]
    ) -> dict[str, Any]:
        media = _PATCHES if action == "patch" else _BODIES
        parameters = [self._parameter("query", *each) for each in _PARAMETERS[action]]
        operation: dict[str, Any] = {
            "x-kubernetes-action": "get" if action in ("diagnosis", "log") else action,
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
        response: dict[str, Any] = {"description": "OK"}
        if self._dialect is Dialect.OPENAPI_3:
            response["content"] = {name: {"schema": schema} for name in _BODIES}
        else:
            response["schema"] = schema
        return {"200": response}

    def _path_parameters(self, path: str) -> list[Schema]:
        parameters = (("namespace", "The namespace."), ("name", "The name of the object."))
        return [
            {**self._parameter("path", name, "string", text), "required": True}
            for name, text in parameters
            if f"{{{name}}}" in path
        ]

    def _parameter(self, location: str, name: str, kind: str, description: str) -> Schema:
        parameter: Schema = {"name": name, "in": location, "description": description}
        if self._dialect is Dialect.OPENAPI_3:
            return parameter | {"schema": {"type": kind}}
        return parameter | {"type": kind}
