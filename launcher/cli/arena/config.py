"""Arena's config file, where its users have it."""

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from launcher.cli.errors import UsageError
from launcher.converters.arena.job_spec import NAMESPACE, read_config


def config_of(environment: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """What ``$ARENA_CONFIG`` says, or ``~/.arena/config``; nothing where there is neither. Raises UsageError."""
    named = environment.get("ARENA_CONFIG")
    path = Path(named) if named and Path(named).is_file() else Path.home() / ".arena" / "config"
    try:
        return read_config(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or 'it is no text in UTF-8'}") from error


def settle_namespace(given: Namespace) -> None:
    """Have *given* name the namespace of the config file, unless it names one."""
    if not given.namespace:
        given.namespace = config_of().get(NAMESPACE)
