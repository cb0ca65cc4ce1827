"""
Frameworks by FrameworkController's name for them: what is said under it, in our own terms, and what we say, in its.

Whoever asks at ``/apis/frameworkcontroller.microsoft.com/v1`` hears and says that apiVersion. What is stored is the
same: the objects, their versions and their watches are those of ``/apis/launcher.microsoft.com/v1``.
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson
from aiohttp import hdrs, web

from launcher.core.errors import RequestError
from launcher.core.names import API_VERSION
from launcher.core.parsing.decoder import Media, decode_utf8
from launcher.core.parsing.json_reader import read_json, steps_in_json
from launcher.core.parsing.tokens import Step, paths
from launcher.core.serialization.frameworkcontroller import (
    CLEAN,
    GROUP,
    SECOND_API_VERSION,
    VERSION,
    to_launcher_group,
)
from launcher.core.serialization.status_json import listed_in_full
from launcher.core.spec import FrameworkName
from launcher.store.interface import FRAMEWORKS, Object, ResourceKind

SECOND = ResourceKind(GROUP, VERSION, FRAMEWORKS.plural, FRAMEWORKS.kind)

_PREFIX = f"/apis/{GROUP}/"
_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_VERSION_FIELD = re.compile(rf"""(["']?apiVersion["']?\s*:\s*["']?){re.escape(SECOND_API_VERSION)}""")
#: The spec as an object in braces.
_BRACED = re.compile(r"""["']?spec["']?\s*:\s*\{""")


def stored(kind: ResourceKind) -> ResourceKind:
    """The kind whose objects are stored, for either of its names."""
    return FRAMEWORKS if kind == SECOND else kind


def is_second(request: web.BaseRequest) -> bool:
    """Whether *request* uses the second name."""
    return request.path.startswith(_PREFIX)


def to_internal(request: web.BaseRequest, data: bytes) -> bytes:
    """A body of *request* in our own terms; as it is if it is none that can be read."""
    if not is_second(request) or SECOND_API_VERSION.encode() not in data:
        return data
    declared = request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
    media = Media.YAML if declared.endswith("yaml") else Media.JSON
    try:
        text = decode_utf8(data)
        value = _read(text, media)
    except RequestError:
        return data
    match value:
        case list() if declared == _JSON_PATCH:
            return orjson.dumps([_step(each) for each in value])
        case {"apiVersion": version} if version == SECOND_API_VERSION:
            wanted = {**value, "apiVersion": API_VERSION} if declared == _MERGE else to_launcher_group(value)
            changed = _rewritten(text, media, policy=wanted.get("spec") != value.get("spec"))
            # Rewritten, it still has the fields that stand twice, to be told; but not everything can be.
            return changed.encode() if _reads_as(changed, media, wanted) else orjson.dumps(wanted)
        case _:
            return data


def to_external(request: web.BaseRequest, value: Object | bytes) -> Object | bytes:
    """An answer to *request*, an object or its text, by the name that it uses."""
    if not is_second(request):
        return value
    return by_second_name(orjson.loads(value) if isinstance(value, bytes) else value)


def said_lines(request: web.BaseRequest, lines: bytes) -> bytes:
    """The same of whole lines of a watch."""
    return lines_by_second_name(lines) if is_second(request) else lines


def lines_by_second_name(lines: bytes) -> bytes:
    """Events of a watch, a line each, with the objects in them renamed."""
    events = [orjson.loads(line) for line in lines.splitlines()]
    renamed = [{**event, "object": by_second_name(event["object"])} for event in events]
    return b"".join(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE) for event in renamed)


def by_second_name(value: Object) -> Object:
    """An object, a list, a table or a Status with the second name in it."""
    if value.get("kind") == "Status":
        return _status(value)
    if isinstance(items := value.get("items"), list):
        value = {**value, "items": [by_second_name(item) for item in items]}
    if isinstance(rows := value.get("rows"), list):
        value = {**value, "rows": [{**row, "object": _included(row.get("object"))} for row in rows]}
    if value.get("apiVersion") != API_VERSION:
        return value
    return {**_in_full(value), "apiVersion": SECOND_API_VERSION}


def _in_full(obj: Object) -> Object:
    """A Framework whose status has an entry for each task: scripts of FrameworkController's users look for it."""
    match obj:
        case {"status": dict() as status, "metadata": {"name": str() as name, "uid": str() as uid}}:
            try:
                return {**obj, "status": listed_in_full(status, FrameworkName(name), uid)}
            except (ValueError, TypeError, AttributeError):
                return obj  # somebody else has written into it
        case _:
            return obj


def _included(obj: Object | None) -> Object | None:
    return obj and by_second_name(obj)


def _status(status: Object) -> Object:
    found = dict(status)
    if isinstance(message := status.get("message"), str):
        found["message"] = message.replace(FRAMEWORKS.group, GROUP)
    details = status.get("details")
    if isinstance(details, dict) and details.get("group") == FRAMEWORKS.group:
        found["details"] = {**details, "group": GROUP}
    return found


def _step(step: Any) -> Any:
    """One operation of a JSON patch."""
    match step:
        case {"path": "/apiVersion", "value": version} if version == SECOND_API_VERSION:
            return {**step, "value": API_VERSION}
        case _:
            return step


def _rewritten(text: str, media: Media, *, policy: bool) -> str:
    """The text with our name in it, and with the *policy* that the other name takes for granted."""
    places: dict[tuple[str | int, ...], int] = {}
    for path, at in paths(_steps(text, media)):
        if 0 < len(path) <= 2:
            places.setdefault(path, at)
    version, spec = places["apiVersion",], places.get(("spec",), 0)
    inside = [at for path, at in places.items() if len(path) == 2 and path[0] == "spec"]
    renamed = _VERSION_FIELD.sub(rf"\g<1>{API_VERSION}", text[version:], count=1)
    if not policy or not inside:
        return text[:version] + renamed
    first, braced = min(inside), _BRACED.match(text, spec) is not None
    if version > spec:
        return _with_policy(text[:version] + renamed, first, braced=braced)
    grown = len(API_VERSION) - len(SECOND_API_VERSION)
    return _with_policy(text[:version] + renamed, first + grown, braced=braced)


def _with_policy(text: str, at: int, *, braced: bool) -> str:
    """The text with the policy before the field that begins at *at*."""
    if braced:
        return f'{text[:at]}"cleanPodPolicy": "{CLEAN}", {text[at:]}'
    indent = " " * (at - text.rfind("\n", 0, at) - 1)
    return f"{text[:at]}cleanPodPolicy: {CLEAN}\n{indent}{text[at:]}"


def _read(text: str, media: Media) -> Any:
    if media is Media.JSON:
        return read_json(text).value
    # Slow to import, and most clients speak JSON.
    from launcher.core.parsing.yaml_reader import read_yaml

    return read_yaml(text).value


def _steps(text: str, media: Media) -> Iterator[Step]:
    if media is Media.JSON:
        return steps_in_json(text)
    from launcher.core.parsing.yaml_reader import steps_in_yaml

    return steps_in_yaml(text)


def _reads_as(text: str, media: Media, wanted: Object) -> bool:
    try:
        return bool(_read(text, media) == wanted)
    except RequestError:
        return False
