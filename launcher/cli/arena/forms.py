"""Answers for programs, in the forms that Arena writes."""

import json
from typing import Any

from launcher.cli.output import as_yaml


def print_form(obj: Any, form: str) -> None:
    """Print it as ``json`` or ``yaml``."""
    print(json.dumps(obj, indent=4) if form == "json" else as_yaml(obj).rstrip("\n"))
