"""Parses JSON; its tokens give the positions of values and duplicate keys."""

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from launcher.core.errors import MAX_REPORTED_ERRORS, BadRequest
from launcher.core.parsing import field_path
from launcher.core.parsing.decoder import (
    MAX_NESTING_DEPTH,
    MAX_VALUES,
    Decoded,
    stored_number,
    too_deep,
    too_many_values,
)
from launcher.core.parsing.tokens import ContainerStart, Scalar, Token, token_paths

_TOKEN = re.compile(r'[{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+')
_LOOKS_LIKE_YAML = re.compile(r"\s*(---|#|[A-Za-z]+:)")


def read_json(text: str) -> Decoded:
    """The value. Raises BadRequest with the line and column of a syntax error."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"line {error.lineno}, column {error.colno}: {error.msg}{_hint(text)}") from error
    _normalize(value)
    return Decoded(value, _duplicates(text) if _has_lost_keys(text, value) else ())


def _hint(text: str) -> str:
    if not text.strip():
        return "; the body is empty"
    if _LOOKS_LIKE_YAML.match(text):
        return "; for YAML, set the header Content-Type: application/yaml"
    return ""


def _normalize(value: Any) -> None:
    """Checks the limits and converts numbers in place to how they are stored. Raises BadRequest."""
    values = 0
    level = [[value]]
    for _ in range(MAX_NESTING_DEPTH + 1):
        below: list[Any] = []
        for container in level:
            values += len(container)
            if values > MAX_VALUES:
                raise too_many_values()
            _normalize_container(container, below)
        if not below:
            return
        level = below
    raise too_deep()


def _normalize_container(container: Any, below: list[Any]) -> None:
    for key, value in container.items() if isinstance(container, dict) else enumerate(container):
        kind = type(value)
        if kind is dict or kind is list:
            below.append(value)
        elif kind is int or kind is float:
            container[key] = stored_number(value, str(value))


def _has_lost_keys(text: str, value: Any) -> bool:
    """
    Whether *value* lacks a key of *text* because the key occurred twice.

    Every key has one colon, and colons in strings are serialized unchanged unless they were escaped. So a lost key
    means fewer colons in the serialized value.
    """
    return text.count(":") != orjson.dumps(value).count(b":") or "\\u003" in text


def _duplicates(text: str) -> tuple[str, ...]:
    """The fields that occur twice. Raises BadRequest when there are too many values, including duplicate ones."""
    duplicates: dict[str, None] = {}
    keys: list[set[str | int]] = []
    for values, (path, _) in enumerate(token_paths(json_tokens(text))):
        if values >= MAX_VALUES:
            raise too_many_values()
        if not path:
            continue
        del keys[len(path) :]
        keys.extend(set() for _ in range(len(path) - len(keys)))
        if path[-1] in keys[-1]:
            duplicates[field_path.format_path(path)] = None
        keys[-1].add(path[-1])
    return tuple(duplicates)[:MAX_REPORTED_ERRORS]


def json_tokens(text: str) -> Iterator[Token]:
    """The tokens of *text*, which must be valid JSON."""
    for token in _TOKEN.finditer(text):
        lexeme, offset = token[0], token.start()
        if lexeme in "{[":
            yield ContainerStart(offset, lexeme == "{")
        elif lexeme in "}]":
            yield None
        elif lexeme not in ",:":
            yield Scalar(offset, json.loads(lexeme) if lexeme[0] == '"' else lexeme)
