"""Random damage to objects and text, reproducible by the seed of the random number generator."""

from copy import deepcopy
from random import Random
from typing import Any

import orjson
import yaml

from tests.core.manifests import paths_in, set_value

Json = dict[str, Any]

#: Values of every type, among them each that once crashed a launcher.
VALUES: tuple[Any, ...] = (
    None,
    True,
    "",
    " ",
    "x",
    "X_",
    "a/b",
    "..",
    "../x",
    "a" * 300,
    "é",
    "\U0001f600",
    "\x00",
    "a\nb",
    "0",
    "-1",
    "1Gi",
    "4GB",
    "one",
    "{{FC_TASK_INDEX}}",
    "{{FC_NOSUCH}}",
    "0-2147483647",
    "0-9,5",
    "2026-01-01T00:00:00Z",
    "Always",
    "Never",
    "None",
    "All",
    "Create",
    "Stop",
    0,
    1,
    -1,
    -2,
    3,
    65536,
    2**31 - 1,
    2**31,
    2**63 - 1,
    -(2**63),
    0.5,
    1e308,
    [],
    [None],
    ["a"],
    ["a", "a"],
    [{}],
    [[]],
    [{"name": "x"}],
    {},
    {"a": None},
    {"a": "b"},
    {"a": ["b"]},
    {"a": {"b": "c"}},
    {"": ""},
    {"name": ""},
    {"a": 1},
)
_TEXTS: tuple[bytes, ...] = (
    b"",
    b"null",
    b"[]",
    b"{",
    b"[" * 5000,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    b'{"metadata":{"name":NaN}}',
    b'{"metadata":{"name":"\\ud800"}}',
    b'{"spec":{"x":99999999999999999999999999}}',
    b"a: &a [*a]",
    b"a: &a [x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c]",
    b"a: .inf",
    b"? [a, b]\n: c",
    b"!!python/object:os.system x",
    b"k8s\x00" + b"\xff" * 30,
    b"\xff\xfe\x00",
)


def damaged(random: Random, obj: Json, times: int) -> Json:
    """A copy of *obj* with that many random changes."""
    copy = deepcopy(obj)
    for _ in range(times):
        paths = list(paths_in(copy))
        if not paths:
            break
        _change(random, copy, random.choice(paths))
    return copy


def _change(random: Random, obj: Json, path: tuple[str | int, ...]) -> None:
    parent: Any = obj
    for step in path[:-1]:
        parent = parent[step]
    last = path[-1]
    match random.randrange(8):
        case 0 | 1 | 2 | 3:
            set_value(obj, path, deepcopy(random.choice(VALUES)))
        case 4:
            del parent[last]
        case 5 if isinstance(parent, list):
            parent.append(deepcopy(parent[int(last)]))
        case 5 | 6 if isinstance(parent, dict):
            # A misspelt field name.
            parent[f"{last}s" if random.random() < 0.5 else str(last).lower()] = parent.pop(str(last))
        case _:
            # A value of this object at the path of another.
            paths = list(paths_in(obj))
            set_value(obj, path, deepcopy(_value_at(obj, random.choice(paths))))


def _value_at(obj: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        obj = obj[step]
    return obj


def damaged_text(random: Random, text: bytes) -> bytes:
    """Text that may not parse: one of the known bad ones, or *text* cut or with one byte changed."""
    match random.randrange(3):
        case 0:
            return random.choice(_TEXTS)
        case 1:
            return text[: random.randrange(len(text) + 1)]
        case _ if text:
            at = random.randrange(len(text))
            return text[:at] + bytes([random.randrange(256)]) + text[at + 1 :]
        case _:
            return text


def as_yaml(obj: Any) -> bytes:
    """*obj* as a YAML document."""
    text: str = yaml.dump(orjson.loads(orjson.dumps(obj)), allow_unicode=True)
    return text.encode()


def json_patch(random: Random, obj: Json) -> list[Json]:
    """A JSON patch of one to three operations on paths in *obj*, or on similar paths."""
    pointers = [_pointer(path) for path in paths_in(obj)] or [""]
    pointers += ["", "/", "/spec/-", "/metadata/finalizers", "/metadata/name", "a", "/spec/taskRoles/99"]
    operations: list[Json] = []
    for _ in range(random.randint(1, 3)):
        operation: Json = {
            "op": random.choice(["add", "remove", "replace", "replace", "move", "copy", "test", "x"]),
            "path": random.choice(pointers),
        }
        if random.random() < 0.9:
            operation["value"] = random.choice(VALUES)
        if operation["op"] in ("move", "copy"):
            operation["from"] = random.choice(pointers)
        operations.append(operation)
    return operations


def _pointer(path: tuple[str | int, ...]) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def merge_patch(random: Random, obj: Json) -> Json:
    """A merge patch with one field of a damaged *obj*."""
    source = damaged(random, obj, 1)
    paths = [path for path in paths_in(source) if all(isinstance(step, str) for step in path)]
    if not paths:
        return {}
    path = random.choice(paths)
    value = _value_at(source, path) if random.random() < 0.5 else random.choice(VALUES)
    for step in reversed(path):
        value = {step: value}
    return dict(value)
