"""Where in an object something stands, as users write it: ``spec.taskRoles[0].name``."""

import json
import re
from collections.abc import Iterable

#: The steps from the top of an object to one of its values: names and indexes.
Path = tuple[str | int, ...]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_STEP = re.compile(r'\[([0-9]+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([A-Za-z_][A-Za-z0-9_-]*)')
#: A longer key is cut: it is shown so that it can be recognised, not kept.
_SHOWN = 100


def written(path: Iterable[str | int]) -> str:
    """``spec.taskRoles[0].name``; a key that is no plain word stands quoted: ``labels["a.b/c"]``."""
    return "".join(map(_step, path)).removeprefix(".")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if len(step) > _SHOWN:
        step = step[:_SHOWN] + "…"
    return f".{step}" if _PLAIN.fullmatch(step) else f"[{json.dumps(step, ensure_ascii=False)}]"


def steps(field: str) -> Path:
    """The path that ``written`` wrote as *field*."""
    return tuple(_value(*found) for found in _STEP.findall(field))


def _value(index: str, quoted: str, plain: str) -> str | int:
    if index:
        return int(index)
    return str(json.loads(quoted)) if quoted else plain
