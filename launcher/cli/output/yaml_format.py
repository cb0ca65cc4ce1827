"""Objects as YAML."""

from typing import Any

import yaml


def dump_yaml(*objects: Any) -> str:
    """The objects as YAML documents, with a newline at the end."""
    return yaml.dump_all(objects, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)


def dump(obj: Any, indent: int) -> str:  # noqa: ARG001 - the writers of all formats are called alike
    """The object as one document, without a newline at the end."""
    return dump_yaml(obj).rstrip("\n")
