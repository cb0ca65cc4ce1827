"""YAML without anchors and aliases."""

from typing import Any

import yaml


class ExpandedDumper(yaml.SafeDumper):
    """Writes an object that occurs twice in full both times."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # as in the base class
        return True


def yaml_text(value: Any) -> str:
    return yaml.dump(value, Dumper=ExpandedDumper, sort_keys=False, width=110, allow_unicode=True)
