"""Options of a request: its query, and the body of a DELETE."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from aiohttp import hdrs, web

from launcher.api.http.query import flag
from launcher.api.http.status import InvalidOptions
from launcher.core.errors import BadRequest, FieldError
from launcher.core.validation.field_errors import forbidden, invalid, required, unsupported
from launcher.store.interface import (
    EVENTS,
    FRAMEWORKS,
    NAMESPACES,
    PODS,
    SECRETS,
    DeleteOptions,
    Object,
    Propagation,
    ResourceKind,
    Version,
)
from launcher.store.selectors import FieldRequirement, Selector, parse

_COMMON = frozenset({"metadata.name", "metadata.namespace"})
_INVOLVED_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_SELECTABLE = {
    FRAMEWORKS.kind: _COMMON
    | {"spec.executionType", "status.state", "status.attemptStatus.completionStatus.type.name"},
    PODS.kind: _COMMON
    | {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    },
    EVENTS.kind: _COMMON
    | {f"involvedObject.{field}" for field in _INVOLVED_OBJECT_FIELDS}
    | {"reason", "reportingComponent", "source", "type"},
    NAMESPACES.kind: _COMMON | {"status.phase"},
    SECRETS.kind: _COMMON | {"type"},
}
#: Fields that have a shorter name in selectors.
_PATHS = {(EVENTS.kind, "source"): "source.component"}


def parse_selector(kind: ResourceKind, labels: str, fields: str) -> Selector:
    """Returns the selector of a label and a field selector. Raises BadRequest, also for an unsupported field."""
    selector = parse(labels, fields)
    if not selector.fields:
        return selector
    return replace(selector, fields=tuple(_field_requirements(kind, selector.fields)))


def _field_requirements(
    kind: ResourceKind, requirements: tuple[FieldRequirement, ...]
) -> Iterator[FieldRequirement]:
    selectable = _SELECTABLE.get(kind.kind, _COMMON)
    for requirement in requirements:
        if requirement.path not in selectable:
            raise BadRequest(
                f"field label not supported: {requirement.path[:80]}; supported for {kind.plural}: "
                f"{', '.join(sorted(selectable))}"
            )
        yield replace(requirement, path=_PATHS.get((kind.kind, requirement.path), requirement.path))


_MAX_MANAGER_CHARACTERS = 128
_MAX_INT64 = 2**63 - 1
_MAX_DIGITS = len(str(_MAX_INT64))
#: A longer grace period would end in a year that cannot be formatted.
_MAX_GRACE_SECONDS = 2**31 - 1


class FieldValidation(StrEnum):
    """How unknown and duplicate fields are handled."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


class VersionMatch(StrEnum):
    """How the version of a list must relate to the requested one."""

    NOT_OLDER = "NotOlderThan"
    EXACT = "Exact"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a create, update or patch."""

    dry_run: bool
    validation: FieldValidation
    #: The field manager; by default the name of the client program.
    manager: str
    #: Whether an apply takes over fields of other managers.
    force: bool = False

    @property
    def strict(self) -> bool:
        """Whether unknown and duplicate fields are errors."""
        return self.validation is FieldValidation.STRICT


#: Parameters of lists of Frameworks that Kubernetes does not have.
NAME_CONTAINS, NODE_NAME = "nameContains", "nodeName"


@dataclass(frozen=True, slots=True)
class NameOptions:
    """Limits a list to Frameworks whose name contains a text, or which have a pod on a node; empty: no limit."""

    contains: str
    node: str


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of a list or watch."""

    selector: Selector
    limit: int | None
    continue_token: str | None
    version: Version | None
    match: VersionMatch | None
    #: The duration of a watch.
    timeout_seconds: int | None
    bookmarks: bool
    #: Whether a watch begins with the existing objects; None if the request does not set it.
    send_initial_events: bool | None
    names: NameOptions | None = None


def name_options(query: Mapping[str, str]) -> NameOptions | None:
    """Returns the options for names; None if the request has none."""
    contains, node = query.get(NAME_CONTAINS, ""), query.get(NODE_NAME, "")
    return NameOptions(contains, node) if contains or node else None


def write_options(request: web.Request, kind: str) -> WriteOptions:
    """Returns the options of a write; *kind* is their name in errors. Raises InvalidOptions."""
    query = request.query
    errors: list[FieldError] = []
    dry_run = _dry_run(query.getall("dryRun", []), errors)
    manager = query.get("fieldManager", "")
    if len(manager) > _MAX_MANAGER_CHARACTERS or not manager.isprintable():
        message = f"must be at most {_MAX_MANAGER_CHARACTERS} printable characters"
        errors.append(invalid("fieldManager", manager, message))
    text = query.get("fieldValidation") or FieldValidation.WARN
    if text not in set(FieldValidation):
        errors.append(unsupported("fieldValidation", text, FieldValidation))
    if errors:
        raise InvalidOptions(kind, tuple(errors))
    return WriteOptions(dry_run, FieldValidation(text), manager or _client_program(request))


def _client_program(request: web.Request) -> str:
    """Returns the program name in the User-Agent header, without its version."""
    name = request.headers.get(hdrs.USER_AGENT, "").partition("/")[0]
    return "".join(filter(str.isprintable, name))[:_MAX_MANAGER_CHARACTERS] or "unknown"


def apply_options(request: web.Request) -> WriteOptions:
    """Returns the options of a server-side apply, which must name a field manager. Raises InvalidOptions."""
    options = write_options(request, "PatchOptions")
    if not request.query.get("fieldManager"):
        reason = "is required for apply patch: add ?fieldManager=NAME to the URL"
        raise InvalidOptions("PatchOptions", (required("fieldManager", reason),))
    return replace(options, force=flag(request.query, "force"))


def patch_options(request: web.Request) -> WriteOptions:
    """Returns the options of any other patch, which cannot be forced. Raises InvalidOptions."""
    options = write_options(request, "PatchOptions")
    if "force" in request.query:
        error = forbidden("force", "may not be specified for non-apply patch")
        raise InvalidOptions("PatchOptions", (error,))
    return options


def list_options(request: web.Request, kind: ResourceKind, *, watch: bool) -> ListOptions:
    """Returns the options of a list or a watch. Raises BadRequest, InvalidOptions."""
    query = request.query
    options = ListOptions(
        selector=parse_selector(kind, query.get("labelSelector", ""), query.get("fieldSelector", "")),
        limit=_number(query, "limit"),
        continue_token=query.get("continue") or None,
        version=_version(query.get("resourceVersion", "")),
        match=_match(query.get("resourceVersionMatch", "")),
        timeout_seconds=_number(query, "timeoutSeconds"),
        bookmarks=flag(query, "allowWatchBookmarks"),
        send_initial_events=flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
        names=name_options(query) if kind == FRAMEWORKS else None,
    )
    # A DELETE of all that match must not ignore them.
    if options.names is not None and (watch or request.method != "GET"):
        raise lists_only()
    error = _watch_error(options) if watch else _list_error(options)
    if error is not None:
        raise InvalidOptions("ListOptions", (error,))
    if options.continue_token is not None and options.version is not None:
        raise BadRequest("specifying resource version is not allowed when using continue")
    return options


def lists_only() -> BadRequest:
    """Returns the error for a watch or a DELETE with options for names."""
    return BadRequest(f"{NAME_CONTAINS} and {NODE_NAME} are supported by lists of Frameworks only")


def _list_error(options: ListOptions) -> FieldError | None:
    if options.send_initial_events is not None:
        return _forbidden("sendInitialEvents", "is forbidden for list")
    if options.match is None:
        return None
    if options.continue_token is not None:
        return _forbidden("resourceVersionMatch", "is forbidden when continue is provided")
    if options.version is None:
        return _forbidden("resourceVersionMatch", "is forbidden unless resourceVersion is provided")
    if options.match is VersionMatch.EXACT and options.version == 0:
        return _forbidden("resourceVersionMatch", '"Exact" is forbidden for resourceVersion "0"')
    return None


def _watch_error(options: ListOptions) -> FieldError | None:
    if options.continue_token is not None:
        return _forbidden("continue", "is forbidden for watch")
    if options.send_initial_events is None:
        if options.match is not None:
            return _forbidden(
                "resourceVersionMatch", "is forbidden for watch unless sendInitialEvents is provided"
            )
        return None
    if options.match is not VersionMatch.NOT_OLDER:
        return _forbidden("resourceVersionMatch", 'must be "NotOlderThan" when sendInitialEvents is provided')
    return None


def _forbidden(field: str, reason: str) -> FieldError:
    return forbidden(field, f"{field} {reason}")


def delete_options(request: web.Request, body: Object) -> tuple[DeleteOptions, bool]:
    """Returns the options of a deletion, from the body or else the query, and dryRun. Raises InvalidOptions."""
    fields = body or _delete_query(request)
    errors: list[FieldError] = []
    dry_run = _dry_run(_typed(fields, "dryRun", list, []), errors)
    propagation = _propagation(fields, errors)
    grace = _typed(fields, "gracePeriodSeconds", int, None)
    if grace is not None and grace > _MAX_GRACE_SECONDS:
        errors.append(invalid("gracePeriodSeconds", grace, f"must be at most {_MAX_GRACE_SECONDS}"))
    if errors:
        raise InvalidOptions("DeleteOptions", tuple(errors))
    preconditions = _typed(fields, "preconditions", dict, {})
    version = _version(_typed(preconditions, "resourceVersion", str, ""))
    uid = _typed(preconditions, "uid", str, "") or None
    return DeleteOptions(uid, version, grace, propagation), dry_run


def _delete_query(request: web.Request) -> Object:
    query = request.query
    fields: Object = {}
    if "dryRun" in query:
        fields["dryRun"] = query.getall("dryRun")
    if "propagationPolicy" in query:
        fields["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query:
        fields["orphanDependents"] = flag(query, "orphanDependents")
    if (grace := _number(query, "gracePeriodSeconds")) is not None:
        fields["gracePeriodSeconds"] = grace
    return fields


def _propagation(fields: Object, errors: list[FieldError]) -> Propagation | None:
    policy = _typed(fields, "propagationPolicy", str, None)
    orphan = _typed(fields, "orphanDependents", bool, None)
    if policy is not None and policy not in set(Propagation):
        errors.append(unsupported("propagationPolicy", policy, Propagation))
        return None
    if policy is not None and orphan is not None:
        errors.append(_forbidden("propagationPolicy", "and orphanDependents are mutually exclusive"))
    if policy is not None:
        return Propagation(policy)
    if orphan is None:
        return None
    return Propagation.ORPHAN if orphan else Propagation.BACKGROUND


def _typed(fields: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadRequest(f"{name} in DeleteOptions must be of type {_TYPES[kind]}")
    return value


_TYPES = {str: "string", int: "integer", bool: "boolean", list: "array", dict: "object"}


def _dry_run(values: list[Any], errors: list[FieldError]) -> bool:
    errors.extend(unsupported("dryRun", value, ["All"]) for value in values if value != "All")
    return bool(values)


def _match(text: str) -> VersionMatch | None:
    if not text:
        return None
    if text not in set(VersionMatch):
        raise InvalidOptions("ListOptions", (unsupported("resourceVersionMatch", text, VersionMatch),))
    return VersionMatch(text)


def _version(text: str) -> Version | None:
    if not text:
        return None
    # The length is checked first: Python refuses to parse very long numbers.
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS or int(text) > _MAX_INT64:
        raise BadRequest(f"resourceVersion: Invalid value: {text[:80]!r}: must be a number from this server")
    return int(text)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        number = _MAX_INT64 + 1
    if abs(number) > _MAX_INT64:
        raise BadRequest(f"{name}: Invalid value: {text[:80]!r}: must be an integer")
    return number
