"""Placeholders of a pod template, such as ``{{FC_TASK_INDEX}}``: which there are, and what a text becomes by them."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson

from launcher.core.errors import FieldError
from launcher.core.names import PLACEHOLDERS, PodIdentityKey
from launcher.core.parsing import field_path
from launcher.core.parsing.field_path import Path
from launcher.core.validation.field_errors import invalid, suggestion

#: Returns a text of a pod template as one of its pods has it.
Fill = Callable[[str], str]

_FORM: Final = re.compile(r"\{\{(FC_[^{}]*)\}\}")
_COUNTED: Final = re.compile(rf"{PodIdentityKey.TASK_INDEX}\+[0-9]{{1,9}}")
_KNOWN: Final = frozenset(mark.value for mark in PLACEHOLDERS)


def as_written(text: str) -> str:
    """The text itself: outside of a template there are no placeholders."""
    return text


def filled_by(values: Mapping[str, str]) -> Fill:
    """Replaces placeholders by these *values*; unknown ones stay."""

    def value(found: re.Match[str]) -> str:
        name = PodIdentityKey.TASK_INDEX.value if _COUNTED.fullmatch(found[1]) else found[1]
        return values.get(name, found[0])

    return lambda text: _FORM.sub(value, text) if "{{" in text else text


def has_placeholders(pod: Any) -> bool:
    """Whether a text of the template has a placeholder, by one search over the whole: hardly any template has one."""
    try:
        return b"{{FC_" in orjson.dumps(pod)
    except orjson.JSONEncodeError:
        return True  # a value that no reader lets pass; the walk over all texts decides


def placeholder_problems(pod: Any, field: str) -> Iterator[FieldError]:
    """Each text of the template at *field* with a placeholder that does not exist."""
    for path, text in _texts(pod, ()):
        for name in _FORM.findall(text):
            if name not in _KNOWN and not _COUNTED.fullmatch(name):
                yield invalid(f"{field}.{field_path.written(path)}", text, _must(name))


def _must(name: str) -> str:
    guess = suggestion(name, _KNOWN)
    question = f"; did you mean {{{{{guess}}}}}?" if guess else ""
    known = ", ".join(f"{{{{{mark}}}}}" for mark in PLACEHOLDERS)
    return f"there is no placeholder {{{{{name}}}}}: there are {known}{question}"


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text in *value*, also that of keys, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), key
            yield from _texts(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*path, index))
