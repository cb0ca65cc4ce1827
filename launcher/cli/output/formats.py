"""The formats of ``-o`` for other programs. A format's module is imported when it is used: yaml is slow to import."""

from importlib import import_module
from typing import Any

_MODULES = {"json": "json_format", "yaml": "yaml_format"}


def print_object(obj: Any, output: str, *, indent: int = 2) -> None:
    """Print the object as ``json`` or ``yaml``."""
    writer: Any = import_module(f"launcher.cli.output.{_MODULES[output]}")
    print(writer.dump(obj, indent))


def print_list(items: Any, output: str) -> None:
    """Print the objects as one ``List``."""
    print_object({"apiVersion": "v1", "kind": "List", "items": items}, output)
