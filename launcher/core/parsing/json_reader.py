"""JSON text into plain values, and each step through it where a value's place or a lost key matters."""

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from launcher.core.errors import BadRequest
from launcher.core.parsing import field_path
from launcher.core.parsing.decoder import (
    MAX_NESTING_DEPTH,
    MOST_VALUES,
    Decoded,
    number,
    too_deep,
    too_many_values,
)
from launcher.core.parsing.tokens import Opened, Step, Word, paths
from launcher.core.validation.field_errors import MAX_REPORTED_ERRORS

_TOKEN = re.compile(r'[{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+')
_LOOKS_LIKE_YAML = re.compile(r"\s*(---|#|[A-Za-z]+:)")


def read_json(text: str) -> Decoded:
    """The value. Raises BadRequest with the line and column where it stops being JSON."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"line {error.lineno}, column {error.colno}: {error.msg}{_way_out(text)}") from error
    _bound(value)
    return Decoded(value, _duplicates(text) if _keys_are_lost(text, value) else ())


def _way_out(text: str) -> str:
    if not text.strip():
        return "; send a Framework"
    if _LOOKS_LIKE_YAML.match(text):
        return "; this looks like YAML: send it with the header Content-Type: application/yaml"
    return "; mend the JSON there"


def _bound(value: Any) -> None:
    """Nothing, if the value is within the limits; its numbers are then as they are stored. Raises BadRequest."""
    values = 0
    level = [[value]]
    for _ in range(MAX_NESTING_DEPTH + 1):
        below: list[Any] = []
        for container in level:
            values += len(container)
            if values > MOST_VALUES:
                raise too_many_values()
            _take_in(container, below)
        if not below:
            return
        level = below
    raise too_deep()


def _take_in(container: Any, below: list[Any]) -> None:
    for key, value in container.items() if isinstance(container, dict) else enumerate(container):
        kind = type(value)
        if kind is dict or kind is list:
            below.append(value)
        elif kind is int or kind is float:
            container[key] = number(value, str(value))


def _keys_are_lost(text: str, value: Any) -> bool:
    """
    Whether some key stood twice, at the price of writing the value once more.

    Each key brings one colon, and colons inside strings are written back as they are unless they were escaped. A
    lost key is at least one colon less.
    """
    return text.count(":") != orjson.dumps(value).count(b":") or "\\u003" in text


def _duplicates(text: str) -> tuple[str, ...]:
    """The fields that stand twice. Raises BadRequest when there are too many values with those that are lost."""
    found: dict[str, None] = {}
    seen: list[set[str | int]] = []
    for values, (path, _) in enumerate(paths(steps_in_json(text))):
        if values >= MOST_VALUES:
            raise too_many_values()
        if not path:
            continue
        del seen[len(path) :]
        seen.extend(set() for _ in range(len(path) - len(seen)))
        if path[-1] in seen[-1]:
            found[field_path.written(path)] = None
        seen[-1].add(path[-1])
    return tuple(found)[:MAX_REPORTED_ERRORS]


def steps_in_json(text: str) -> Iterator[Step]:
    """Each step through *text*, which is known to be JSON."""
    for token in _TOKEN.finditer(text):
        word, at = token[0], token.start()
        if word in "{[":
            yield Opened(at, word == "{")
        elif word in "}]":
            yield None
        elif word not in ",:":
            yield Word(at, json.loads(word) if word[0] == '"' else word)
