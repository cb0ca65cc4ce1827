"""Objects as JSON."""

import json
from typing import Any


def dump(obj: Any, indent: int) -> str:
    """The object as indented JSON."""
    return json.dumps(obj, indent=indent, ensure_ascii=False)
