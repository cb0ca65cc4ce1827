"""
The table of commands. A command's module is imported when the command is used, so ``list`` does not pay for ``serve``.

Results are printed to stdout, messages to stderr. Exit code 2: the user must change something; 1: any other failure.
"""

import argparse
import gc
import os
import sys
from collections.abc import Generator, Sequence

from launcher.cli.command import load_command
from launcher.cli.errors import CommandError, print_error

#: Name, module in ``launcher.cli.commands`` and help of each command, in the order of --help.
COMMANDS = (
    ("run", "run", "run Frameworks and jobs of one file on this machine, without a server"),
    ("serve", "serve", "run the launcher as a service on this machine or for a cluster"),
    ("submit", "submit", "submit Frameworks and jobs"),
    ("list", "get", "list Frameworks"),
    ("get", "get", "show a Framework and its tasks"),
    ("describe", "describe", "show details of a Framework: conditions, tasks and events"),
    ("why", "why", "explain why a Framework or its tasks do not run, or failed"),
    ("attempts", "attempts", "list the attempts of a Framework and its tasks, and the retries left"),
    ("logs", "logs", "print the logs of a Framework's tasks"),
    ("exec", "exec", "run a command in a running task, with a terminal or without"),
    ("top", "top", "show what Frameworks and their tasks use: CPU, memory and GPUs"),
    ("events", "events", "list the events of a Framework and its pods, or of a namespace"),
    ("wait", "wait", "wait for a condition of a Framework"),
    ("stop", "lifecycle", "stop a Framework for good, keeping its status and logs"),
    ("start", "lifecycle", "start a Framework that was created with executionType Create"),
    ("scale", "lifecycle", "change the number of tasks of roles"),
    ("delete", "lifecycle", "delete Frameworks with their pods and logs"),
    ("validate", "offline", "check Framework files and report all errors"),
    ("render", "offline", "print the pods of a Framework"),
    ("simulate", "offline", "run a Framework in simulated time and print each state change"),
    ("explain-retry", "explain_retry", "explain what follows when a task fails, before it is submitted"),
    ("convert", "convert", "convert TFJobs and other objects to Frameworks"),
    ("arena", "arena", "submit and manage TensorFlow jobs with Arena's commands"),
    ("simpletfjob", "simpletfjob", "render a template for each machine, as simpletfjob does"),
    ("store", "store", "check, back up or restore the store of a launcher on this machine"),
    ("completion", "completion", "print a script for completion in a shell"),
    ("version", "version", "print the version of this program and of the server"),
)

#: Former names, which still work.
ALIASES = {"story": "simulate"}

#: Commands that also run under their own name, through a link of that name to the launcher.
_PROGRAM_NAMES = ("arena", "simpletfjob")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in *arguments*, or in ``sys.argv``. Returns the exit code."""
    # Imported modules and stored objects stay in memory; frequent garbage collections would take half of the start-up
    # time of a server with many objects, and a tenth of that of any command.
    gc.set_threshold(50_000, 20, 100)
    try:
        args = parse_arguments(_command_line(sys.argv) if arguments is None else arguments)
        code = int(args.run(args))
        sys.stdout.flush()
    except CommandError as error:
        print_error(*error.lines)
        return error.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has closed it. Python would fail to flush it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed arguments; ``args.run`` is the function to call. Imports the module of the command only."""
    name = ALIASES.get(arguments[0], arguments[0]) if arguments else None
    for row in COMMANDS:
        if row[0] == name:
            return _command_parser(*row).parse_args(arguments[1:])
    # Prints the help or reports the unknown command.
    return make_parser(load=False).parse_args(arguments)


def make_parser(*, load: bool = True) -> argparse.ArgumentParser:
    """The parser of all commands; without *load*, of their names only."""
    parser = argparse.ArgumentParser(
        prog="launcher",
        allow_abbrev=False,
        description="Run Frameworks: groups of task roles that start, retry and finish together.",
        epilog="example: launcher run examples/hello.yaml (see also: launcher COMMAND --help)",
        formatter_class=_HelpFormatter,
    )
    commands = parser.add_subparsers(required=True, title="commands", metavar="COMMAND")
    for name, module, summary in COMMANDS:
        if load:
            command = load_command(module, name)
            options = {"allow_abbrev": False, **command.parser_options}
            command.configure(commands.add_parser(name, help=summary, **options), summary)
        else:
            commands.add_parser(name, help=summary)
    return parser


def _command_parser(name: str, module: str, summary: str) -> argparse.ArgumentParser:
    command = load_command(module, name)
    options = {"allow_abbrev": False, **command.parser_options}
    parser = argparse.ArgumentParser(prog=f"launcher {name}", **options)
    command.configure(parser, summary)
    return parser


def _command_line(argv: Sequence[str]) -> list[str]:
    """The arguments after the program's name, and before them that name if it is the name of a command."""
    program, *arguments = argv
    name = os.path.basename(program)
    return [name, *arguments] if name in _PROGRAM_NAMES else arguments


class _HelpFormatter(argparse.HelpFormatter):
    """Does not indent commands: with an indent, the longest name does not fit its column."""

    def _iter_indented_subactions(self, action: argparse.Action) -> Generator[argparse.Action]:
        yield from getattr(action, "_get_subactions", list)()
