"""Objects as text: JSON and YAML as other programs read them."""

import json
from typing import Any

import orjson


def as_json(obj: Any) -> str:
    """The object as JSON, to be read by people too."""
    return orjson.dumps(obj, option=orjson.OPT_INDENT_2).decode()


def as_yaml(*objects: Any) -> str:
    """The objects as YAML documents, with a newline at the end."""
    import yaml  # slow to import, and not everybody wants it

    return yaml.dump_all(objects, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)


def print_form(obj: Any, form: str) -> None:
    """Print it as ``json`` or ``yaml``."""
    print(json.dumps(obj, indent=4) if form == "json" else as_yaml(obj).rstrip("\n"))
