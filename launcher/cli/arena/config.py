"""Arena's config file."""

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from launcher.cli.errors import UsageError
from launcher.converters.arena.job_spec import NAMESPACE, read_config


def config_of(environment: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """The settings of ``$ARENA_CONFIG`` or ``~/.arena/config``; none without either. Raises UsageError."""
    named = environment.get("ARENA_CONFIG")
    path = Path(named) if named and Path(named).is_file() else Path.home() / ".arena" / "config"
    try:
        return read_config(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: {getattr(error, 'strerror', None) or 'not a text file in UTF-8'}"
        ) from error


def apply_default_namespace(args: Namespace) -> None:
    """Set the namespace of *args* to that of the config file, unless it is set."""
    if not args.namespace:
        args.namespace = config_of().get(NAMESPACE)
