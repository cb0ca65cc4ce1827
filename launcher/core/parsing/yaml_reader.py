"""
Parses YAML into plain JSON values, in one pass over libyaml's events.

Keys are always strings. ``<<`` is supported, since users share parts of a pod template with it. Empty documents are
ignored. An alias refers to the same object; the limits count it in expanded form, so a small text cannot expand to a
large object.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml
from yaml.error import MarkedYAMLError
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)
from yaml.reader import ReaderError

from launcher.core.errors import MAX_REPORTED_ERRORS, BadRequest
from launcher.core.parsing import field_path
from launcher.core.parsing.decoder import (
    MAX_NESTING_DEPTH,
    MAX_VALUES,
    Decoded,
    abbreviate,
    too_deep,
    too_many_values,
)
from launcher.core.parsing.tokens import ContainerStart, Scalar, Token
from launcher.core.parsing.yaml_scalars import scalar_value

_CONTAINER_TAGS: Final = (None, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
#: Replaces the key ``<<`` until its object is complete.
_MERGE: Final = object()
_BYTE_ORDER_MARK = "\ufeff"


def read_yaml(text: str) -> Decoded:
    """The value of the single document. Raises BadRequest with line and column."""
    builder = _Builder()
    event: Event | None = None
    try:
        for event in _events(text):
            builder.handlers[type(event)](event)
    except BadRequest as error:
        raise BadRequest(f"{_place(event)}: {error}") from error
    except yaml.YAMLError as error:
        raise BadRequest(_syntax(error, text)) from error
    if not builder.documents:
        raise BadRequest("the document is empty")
    return Decoded(builder.value, tuple(builder.duplicates)[:MAX_REPORTED_ERRORS])


def yaml_tokens(text: str) -> Iterator[Token]:
    """The tokens of *text*, which must be valid YAML; an alias is one token."""
    for event in _events(text):
        if isinstance(event, MappingEndEvent | SequenceEndEvent):
            yield None
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            yield ContainerStart(_at(event), isinstance(event, MappingStartEvent))
        elif isinstance(event, ScalarEvent):
            yield Scalar(_at(event), event.value)
        elif isinstance(event, AliasEvent):
            yield Scalar(_at(event), "")


def _events(text: str) -> Iterator[Event]:
    return iter(yaml.CBaseLoader(text.removeprefix(_BYTE_ORDER_MARK)).get_event, None)


def _at(event: Event) -> int:
    return int(event.start_mark.index) if event.start_mark is not None else 0


class _Open:
    """A list or object that is being read."""

    __slots__ = ("anchor", "at", "before", "height", "key", "keyed", "value")

    def __init__(self, value: Any, keyed: bool, anchor: str | None, before: int) -> None:
        self.value = value
        self.keyed = keyed
        self.anchor = anchor
        #: Number of values before it.
        self.before = before
        #: Nesting depth of its content.
        self.height = 0
        #: The key of the next value, and of the previous one.
        self.key: Any = None
        self.at: Any = None


@dataclass(frozen=True, slots=True)
class _Anchored:
    """An anchored value, with the size and depth that an alias of it adds."""

    value: Any
    values: int
    height: int


class _Builder:
    """Builds the value from the events."""

    def __init__(self) -> None:
        self.value: Any = None
        self.documents = 0
        self.duplicates: dict[str, None] = {}
        self._values = 0
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self.handlers: dict[type[Event], Callable[[Any], None]] = {
            ScalarEvent: self._scalar,
            MappingStartEvent: self._object,
            MappingEndEvent: self._end_object,
            SequenceStartEvent: self._list,
            SequenceEndEvent: self._end,
            AliasEvent: self._alias,
            DocumentStartEvent: self._document,
            DocumentEndEvent: self._nothing,
            StreamStartEvent: self._nothing,
            StreamEndEvent: self._nothing,
        }

    def _nothing(self, _: Event) -> None:
        pass

    def _document(self, _: DocumentStartEvent) -> None:
        self._anchors = {}

    def _scalar(self, event: ScalarEvent) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and top.keyed and top.key is None:
            self._key(top, event.value, event.implicit[0])
            value = event.value
        elif top is None and event.implicit[0] and not event.value:
            self._count(1)
            return  # an empty document
        else:
            value = scalar_value(event)
            self._put(value)
            self._count(1)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, 0)

    def _object(self, event: MappingStartEvent) -> None:
        self._start(event, _Open({}, True, event.anchor, self._values))

    def _list(self, event: SequenceStartEvent) -> None:
        self._start(event, _Open([], False, event.anchor, self._values))

    def _start(self, event: MappingStartEvent | SequenceStartEvent, new: _Open) -> None:
        if event.tag not in _CONTAINER_TAGS:
            raise BadRequest(f"the tag {abbreviate(str(event.tag))} is not supported; remove it")
        if len(self._stack) >= MAX_NESTING_DEPTH:
            raise too_deep()
        self._count(1)
        self._put(new.value)
        self._stack.append(new)

    def _end_object(self, event: MappingEndEvent) -> None:
        value = self._stack[-1].value
        if _MERGE in value:
            _merge(value, value.pop(_MERGE))
        self._end(event)

    def _end(self, _: Event) -> None:
        done = self._stack.pop()
        if self._stack:
            self._stack[-1].height = max(self._stack[-1].height, done.height + 1)
        if done.anchor is not None:
            self._anchors[done.anchor] = _Anchored(done.value, self._values - done.before, done.height + 1)

    def _alias(self, event: AliasEvent) -> None:
        known = self._anchors.get(str(event.anchor))
        if known is None:
            raise BadRequest(f"alias *{event.anchor}: there is no complete anchor &{event.anchor} before it")
        if len(self._stack) + known.height > MAX_NESTING_DEPTH:
            raise too_deep()
        self._count(known.values)
        top = self._stack[-1]
        top.height = max(top.height, known.height)
        if top.keyed and top.key is None and isinstance(known.value, str):
            self._key(top, known.value, False)
        else:
            self._put(known.value)

    def _count(self, more: int) -> None:
        self._values += more
        if self._values > MAX_VALUES:
            raise too_many_values()

    def _key(self, top: _Open, key: str, is_plain: bool) -> None:
        if is_plain and not key:
            raise BadRequest("missing key before the colon")
        top.key = _MERGE if is_plain and key == "<<" else key
        if top.key in top.value:
            path = [_step(above) for above in self._stack[:-1]]
            self.duplicates[field_path.format_path([*path, key])] = None

    def _put(self, value: Any) -> None:
        if not self._stack:
            if self.documents:
                raise BadRequest("second document; only one Framework is allowed")
            self.documents += 1
            self.value = value
            return
        top = self._stack[-1]
        if not top.keyed:
            top.value.append(value)
        elif top.key is None:
            raise BadRequest("a key must be a string, not a list or an object")
        else:
            top.value[top.key] = value
            top.at, top.key = top.key, None


def _step(above: _Open) -> str | int:
    """The key or index of the value that is being read; a container is stored when it starts."""
    if not above.keyed:
        return len(above.value) - 1
    return "<<" if above.at is _MERGE else str(above.at)


def _merge(value: dict[Any, Any], sources: Any) -> None:
    """Adds members of *sources* that *value* does not have; the first source takes precedence."""
    for source in sources if isinstance(sources, list) else [sources]:
        if not isinstance(source, dict):
            raise BadRequest("<< must be an alias of an object, or a list of such aliases")
        for key, inner in source.items():
            value.setdefault(key, inner)


def _place(event: Event | None) -> str:
    mark = event.start_mark if event is not None else None
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else "line 1"


def _syntax(error: yaml.YAMLError, text: str) -> str:
    """The message for a syntax error, with a hint."""
    if isinstance(error, ReaderError):
        before = text.encode()[: error.position].decode(errors="ignore")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return f"line {line}, column {column}: {error.reason}; use an escape sequence in double quotes"
    mark, problem = (
        (error.problem_mark, error.problem) if isinstance(error, MarkedYAMLError) else (None, None)
    )
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return f"{where}{problem}; {_hint(problem or '', text, mark.index if mark is not None else 0)}"


def _hint(problem: str, text: str, at: int) -> str:
    if "\n" not in text.strip() and text.startswith("apiVersion:"):
        return "the line breaks are missing; with curl, use --data-binary instead of -d"
    if "tab" in problem or text[at : at + 1] == "\t":
        return "indent with spaces, not with tabs"
    return "check indentation and quotes"
