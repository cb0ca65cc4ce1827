"""What the query of a request asks for, beyond its path."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from aiohttp import hdrs, web

from launcher.api.http.status import InvalidOptions
from launcher.api.middleware.request_info import flag
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
_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_SELECTABLE = {
    FRAMEWORKS.kind: _COMMON | {"spec.executionType", "status.state"},
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
    | {f"involvedObject.{field}" for field in _ABOUT}
    | {"reason", "reportingComponent", "source", "type"},
    NAMESPACES.kind: _COMMON | {"status.phase"},
    SECRETS.kind: _COMMON | {"type"},
}
#: Fields whose selector has a shorter name than the field.
_PATHS = {(EVENTS.kind, "source"): "source.component"}


def where_of(kind: ResourceKind, labels: str, fields: str) -> Selector:
    """The selectors that these texts write. Raises BadRequest, also for a field that cannot be selected by."""
    where = parse(labels, fields)
    return replace(where, fields=tuple(_known(kind, where.fields))) if where.fields else where


def _known(kind: ResourceKind, requirements: tuple[FieldRequirement, ...]) -> Iterator[FieldRequirement]:
    selectable = _SELECTABLE.get(kind.kind, _COMMON)
    for requirement in requirements:
        if requirement.path not in selectable:
            raise BadRequest(
                f"field label not supported: {requirement.path[:80]}; {kind.plural} can be selected by "
                f"{', '.join(sorted(selectable))}"
            )
        yield replace(requirement, path=_PATHS.get((kind.kind, requirement.path), requirement.path))


_LONGEST_MANAGER = 128
_LARGEST = 2**63 - 1
_DIGITS = len(str(_LARGEST))
#: Seconds that somebody may ask to wait: the year in which they end has to be one that can be written.
_LONGEST_WAIT = 2**31 - 1


class Validation(StrEnum):
    """What becomes of fields that nobody knows, or that stand twice."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


class Match(StrEnum):
    """How a list must stand to the version asked for."""

    NOT_OLDER = "NotOlderThan"
    EXACT = "Exact"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to create, update or patch."""

    dry_run: bool
    validation: Validation
    #: Who writes, by its own word or that of the program that it uses.
    manager: str
    #: Whether an apply may take fields from others.
    force: bool = False


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects, how many, and as of when."""

    where: Selector
    limit: int | None
    token: str | None
    version: Version | None
    match: Match | None
    #: Stop a watch after so many seconds.
    seconds: int | None
    bookmarks: bool
    #: Whether a watch begins with what is there; None when nothing was said.
    initial: bool | None


def writing_of(request: web.Request, kind: str) -> WriteOptions:
    """The options of a write; *kind* is how its errors call them. Raises InvalidOptions."""
    query = request.query
    problems: list[FieldError] = []
    dry_run = _dry_run(query.getall("dryRun", []), problems)
    manager = query.get("fieldManager", "")
    if len(manager) > _LONGEST_MANAGER or not manager.isprintable():
        must = f"must be at most {_LONGEST_MANAGER} printable characters"
        problems.append(invalid("fieldManager", manager, must))
    text = query.get("fieldValidation") or Validation.WARN
    if text not in set(Validation):
        problems.append(unsupported("fieldValidation", text, Validation))
    if problems:
        raise InvalidOptions(kind, tuple(problems))
    return WriteOptions(dry_run, Validation(text), manager or _program(request))


def _program(request: web.Request) -> str:
    """What the client calls itself, without its version and all that comes after."""
    name = request.headers.get(hdrs.USER_AGENT, "").partition("/")[0]
    return "".join(filter(str.isprintable, name))[:_LONGEST_MANAGER] or "unknown"


def applying_of(request: web.Request) -> WriteOptions:
    """The options of a server-side apply, which must say who applies."""
    writing = writing_of(request, "PatchOptions")
    if not request.query.get("fieldManager"):
        why = "is required for apply patch: add ?fieldManager=NAME to the address"
        raise InvalidOptions("PatchOptions", (required("fieldManager", why),))
    return replace(writing, force=flag(request.query, "force"))


def patching_of(request: web.Request) -> WriteOptions:
    """The options of any other patch, which cannot be forced."""
    writing = writing_of(request, "PatchOptions")
    if "force" in request.query:
        problem = forbidden("force", "may not be specified for non-apply patch")
        raise InvalidOptions("PatchOptions", (problem,))
    return writing


def listing_of(request: web.Request, kind: ResourceKind, *, watch: bool) -> ListOptions:
    """The options of a list or a watch. Raises BadRequest, InvalidOptions."""
    query = request.query
    listing = ListOptions(
        where=where_of(kind, query.get("labelSelector", ""), query.get("fieldSelector", "")),
        limit=_number(query, "limit"),
        token=query.get("continue") or None,
        version=_version(query.get("resourceVersion", "")),
        match=_match(query.get("resourceVersionMatch", "")),
        seconds=_number(query, "timeoutSeconds"),
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial=flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
    )
    problem = _watch_problem(listing) if watch else _list_problem(listing)
    if problem is not None:
        raise InvalidOptions("ListOptions", (problem,))
    if listing.token is not None and listing.version is not None:
        raise BadRequest(
            "continue and resourceVersion cannot both be given: the next page has the first one's"
        )
    return listing


def _list_problem(listing: ListOptions) -> FieldError | None:
    if listing.initial is not None:
        return _forbidden("sendInitialEvents", "may be given for a watch alone")
    if listing.match is None:
        return None
    if listing.token is not None:
        return _forbidden("resourceVersionMatch", "may not be given with continue")
    if listing.version is None:
        return _forbidden("resourceVersionMatch", "may not be given without resourceVersion")
    if listing.match is Match.EXACT and listing.version == 0:
        return _forbidden("resourceVersionMatch", '"Exact" cannot be had of resourceVersion "0"')
    return None


def _watch_problem(listing: ListOptions) -> FieldError | None:
    if listing.token is not None:
        return _forbidden("continue", "may not be given for a watch")
    if listing.initial is None:
        if listing.match is not None:
            return _forbidden("resourceVersionMatch", "may be given for a watch with sendInitialEvents alone")
        return None
    if listing.match is not Match.NOT_OLDER:
        return _forbidden("resourceVersionMatch", 'sendInitialEvents needs it to be "NotOlderThan"')
    return None


def _forbidden(field: str, why: str) -> FieldError:
    return forbidden(field, f"{field} {why}")


def deletion_of(request: web.Request, body: Object) -> tuple[DeleteOptions, bool]:
    """How to delete, and whether only as if: from the body, or else from the query. Raises InvalidOptions."""
    given = body or _deletion_in(request)
    problems: list[FieldError] = []
    dry_run = _dry_run(_typed(given, "dryRun", list, []), problems)
    propagation = _propagation(given, problems)
    grace = _typed(given, "gracePeriodSeconds", int, None)
    if grace is not None and grace > _LONGEST_WAIT:
        problems.append(invalid("gracePeriodSeconds", grace, f"must be at most {_LONGEST_WAIT}"))
    if problems:
        raise InvalidOptions("DeleteOptions", tuple(problems))
    conditions = _typed(given, "preconditions", dict, {})
    version = _version(_typed(conditions, "resourceVersion", str, ""))
    uid = _typed(conditions, "uid", str, "") or None
    return DeleteOptions(uid, version, grace, propagation), dry_run


def _deletion_in(request: web.Request) -> Object:
    query = request.query
    given: Object = {}
    if "dryRun" in query:
        given["dryRun"] = query.getall("dryRun")
    if "propagationPolicy" in query:
        given["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query:
        given["orphanDependents"] = flag(query, "orphanDependents")
    if (grace := _number(query, "gracePeriodSeconds")) is not None:
        given["gracePeriodSeconds"] = grace
    return given


def _propagation(given: Object, problems: list[FieldError]) -> Propagation | None:
    policy = _typed(given, "propagationPolicy", str, None)
    orphan = _typed(given, "orphanDependents", bool, None)
    if policy is not None and policy not in set(Propagation):
        problems.append(unsupported("propagationPolicy", policy, Propagation))
        return None
    if policy is not None and orphan is not None:
        problems.append(_forbidden("propagationPolicy", "may not be given together with orphanDependents"))
    if policy is not None:
        return Propagation(policy)
    if orphan is None:
        return None
    return Propagation.ORPHAN if orphan else Propagation.BACKGROUND


def _typed(given: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = given.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadRequest(f"{name} in DeleteOptions must be of type {_TYPES[kind]}")
    return value


_TYPES = {str: "string", int: "integer", bool: "boolean", list: "array", dict: "object"}


def _dry_run(values: list[Any], problems: list[FieldError]) -> bool:
    problems.extend(unsupported("dryRun", value, ["All"]) for value in values if value != "All")
    return bool(values)


def _match(text: str) -> Match | None:
    if not text:
        return None
    if text not in set(Match):
        raise InvalidOptions("ListOptions", (unsupported("resourceVersionMatch", text, Match),))
    return Match(text)


def _version(text: str) -> Version | None:
    if not text:
        return None
    # Beyond some length Python does not even read a number.
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS or int(text) > _LARGEST:
        raise BadRequest(f"resourceVersion must be a number that this server has given, not {text[:80]!r}")
    return int(text)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        number = _LARGEST + 1
    if abs(number) > _LARGEST:
        raise BadRequest(f"{name} must be a whole number, not {text[:80]!r}")
    return number
