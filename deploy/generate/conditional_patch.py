"""Converts patches of kustomize components to conditional blocks of a Helm template."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from deploy.generate.helm_template import TemplateBlock, TemplateText


def patched(obj: Any, operations: Sequence[Any], condition: str) -> Any:
    """*obj* with the operations of a JSON patch as blocks that depend on *condition*."""
    obj = deepcopy(obj)
    for operation in operations:
        *way, last = operation["path"].removeprefix("/").split("/")
        place = obj
        for step in way:
            place = place[int(step) if isinstance(place, list) else step]
        match operation["op"], place:
            case "test", list():
                assert place[int(last)] == operation["value"], f"{operation} does not hold"
            case "add", list() if last == "-":
                place.append(TemplateBlock(f"if {condition}", [operation["value"]]))
            case "replace", list():
                place[int(last)] = TemplateBlock(f"if {condition}", [operation["value"]], [place[int(last)]])
            case "add", dict() if last not in place:
                place[f"{last} if {condition}"] = TemplateBlock(f"if {condition}", {last: operation["value"]})
            case "replace", dict():
                new, old = operation["value"], place[last]
                place[last] = TemplateText(f"{{{{ if {condition} }}}}{new}{{{{ else }}}}{old}{{{{ end }}}}")
            case _:
                raise ValueError(f"unsupported operation: {operation}")
    return obj
