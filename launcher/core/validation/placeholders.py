"""Placeholders of a pod template, such as ``{{FC_TASK_INDEX}}``: validation and replacement."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson

from launcher.core.errors import FieldError
from launcher.core.names import PLACEHOLDERS, PodIdentityKey
from launcher.core.parsing import field_path
from launcher.core.parsing.field_path import Path
from launcher.core.validation.field_errors import invalid, suggestion

#: Replaces the placeholders in a string of a pod template.
Fill = Callable[[str], str]

_FORM: Final = re.compile(r"\{\{(FC_[^{}]*)\}\}")
_COUNTED: Final = re.compile(rf"{PodIdentityKey.TASK_INDEX}\+[0-9]{{1,9}}")
_KNOWN: Final = frozenset(key.value for key in PLACEHOLDERS)


def as_written(text: str) -> str:
    """Returns the text unchanged, for objects that are not templates."""
    return text


def filled_by(values: Mapping[str, str]) -> Fill:
    """A function that replaces placeholders by *values*, and keeps unknown ones."""

    def value(match: re.Match[str]) -> str:
        name = PodIdentityKey.TASK_INDEX.value if _COUNTED.fullmatch(match[1]) else match[1]
        return values.get(name, match[0])

    return lambda text: _FORM.sub(value, text) if "{{" in text else text


def has_placeholders(pod: Any) -> bool:
    """Whether the template contains a placeholder. One search over all of it: most templates have none."""
    try:
        return b"{{FC_" in orjson.dumps(pod)
    except orjson.JSONEncodeError:
        return True  # not plain JSON: search each string instead


def placeholder_errors(pod: Any, field: str) -> Iterator[FieldError]:
    """Errors of unknown placeholders in the template at *field*."""
    for path, text in _texts(pod, ()):
        for name in _FORM.findall(text):
            if name not in _KNOWN and not _COUNTED.fullmatch(name):
                yield invalid(f"{field}.{field_path.format_path(path)}", text, _must(name))


def _must(name: str) -> str:
    guess = suggestion(name, _KNOWN)
    hint = f"; did you mean {{{{{guess}}}}}?" if guess else ""
    supported = ", ".join(f"{{{{{key}}}}}" for key in PLACEHOLDERS)
    return f"unknown placeholder {{{{{name}}}}}; supported placeholders: {supported}{hint}"


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every string in *value*, including keys, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), key
            yield from _texts(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*path, index))
