"""Lifecycle hooks: what a container has done for it right after its start, and before its end."""

from collections.abc import Mapping
from typing import Any

#: Seconds for a hook that nothing else limits.
LONGEST = 86_400.0


def hook_of(spec: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The action of the hook ``postStart`` or ``preStop``; None if the container has none."""
    return (spec.get("lifecycle") or {}).get(name) or None
