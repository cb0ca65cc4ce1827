"""``why``: what keeps a Framework from running, or made it fail."""

import argparse

from launcher.cli.arguments import (
    add_name_argument,
    add_output_argument,
    add_server_arguments,
    add_task_argument,
)
from launcher.cli.client.api_client import api_client
from launcher.cli.command import Command
from launcher.cli.output.diagnosis_text import diagnosis_text
from launcher.cli.output.formats import print_object


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name_argument(parser)
    add_task_argument(parser)
    add_output_argument(parser, "json", "yaml")
    add_server_arguments(parser)


def _why(args: argparse.Namespace) -> int:
    role, index = args.task or (None, None)
    with api_client(args) as api:
        diagnosis = api.diagnosis(args.name, role, index)
    if args.output is not None:
        print_object(diagnosis, args.output)
    else:
        for line in diagnosis_text(diagnosis):
            print(line)
    return 0


COMMANDS = {
    "why": Command(
        _why,
        _add_arguments,
        example="launcher why mnist worker/0",
        details="Lists findings, the most important first: what is wrong, the fields that show it, whether waiting can "
        "help, and the next step. docs/troubleshooting.md explains each id.",
    )
}
