"""The generated pages of ``docs/``, by file name."""

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.generate.arena_flags import arena_flags_page
from docs.generate.cli import cli_page
from docs.generate.completion_codes import completion_codes_page
from docs.generate.configuration import configuration_page
from docs.generate.fields import fields_page
from docs.generate.metrics import metrics_page
from docs.generate.modules import modules_page

DOCS = Path(__file__).parents[1]

PAGES: Mapping[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "completion-codes.md": completion_codes_page,
    "configuration.md": configuration_page,
    "fields.md": fields_page,
    "metrics.md": metrics_page,
    "migrate/arena-flags.md": arena_flags_page,
    "modules.md": modules_page,
}
