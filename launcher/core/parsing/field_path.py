"""Paths of fields in the notation of Kubernetes: ``spec.taskRoles[0].name``."""

import json
import re
from collections.abc import Iterable

#: The steps from the top of an object to one of its values: names and indexes.
Path = tuple[str | int, ...]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_STEP = re.compile(r'\[([0-9]+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([A-Za-z_][A-Za-z0-9_-]*)')
#: Longer keys are cut in messages.
_MAX_KEY_LENGTH = 100


def format_path(path: Iterable[str | int]) -> str:
    """``spec.taskRoles[0].name``; a key that is not a plain word is quoted: ``labels["a.b/c"]``."""
    return "".join(map(_step, path)).removeprefix(".")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if len(step) > _MAX_KEY_LENGTH:
        step = step[:_MAX_KEY_LENGTH] + "…"
    return f".{step}" if _PLAIN.fullmatch(step) else f"[{json.dumps(step, ensure_ascii=False)}]"


def parse_path(field: str) -> Path:
    """The inverse of ``format_path``."""
    return tuple(_value(*groups) for groups in _STEP.findall(field))


def _value(index: str, quoted: str, plain: str) -> str | int:
    if index:
        return int(index)
    return str(json.loads(quoted)) if quoted else plain
