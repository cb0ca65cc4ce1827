"""What it takes to make one JSON value out of another."""

from collections.abc import Iterator
from typing import Any

from launcher.store.port import Object


def difference(old: Any, new: Any, path: str = "") -> Iterator[Object]:
    """
    Operations of a JSON patch (RFC 6902) that make *new* of *old*, as small as these are alike.

    A list of another length is replaced whole.
    """
    # First, since what nobody has touched is most often the very same object.
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _between_objects(old, new, path)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from difference(before, after, f"{path}/{index}")
    elif type(old) is not type(new) or old != new:  # for Python, 1 and True are equal
        yield {"op": "replace", "path": path, "value": new}


def _between_objects(old: Object, new: Object, path: str) -> Iterator[Object]:
    for name in old.keys() - new.keys():
        yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, value in new.items():
        place = f"{path}/{_escaped(name)}"
        if name in old:
            yield from difference(old[name], value, place)
        else:
            yield {"op": "add", "path": place, "value": value}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
