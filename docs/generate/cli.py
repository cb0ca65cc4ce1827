"""``docs/cli.md``: every command with its arguments and options, from the argument parser."""

import argparse
from collections.abc import Iterator

from docs.generate.markdown import code, page, paragraphs, sentence, table
from launcher.cli.main import make_parser

_INTRODUCTION = """\
`launcher COMMAND --help` prints the same. The commands that need a server connect to `--server`, or
`LAUNCHER_SERVER`, or http://127.0.0.1:8080. Results go to stdout, everything else to stderr. Exit
code 2 means that the command line or the file has to change, 1 that the command failed."""


def cli_page() -> str:
    """The reference of commands."""
    parser = make_parser()
    commands = [(name, each) for _, name, each in _subparsers(parser)]
    overview = (
        (f"[`launcher {name}`](#launcher-{name})", sentence(_help(parser, name))) for name, _ in commands
    )
    parts = [part for name, each in commands for part in _command(f"launcher {name}", each)]
    return page(
        "Command reference", "the argument parser", _INTRODUCTION, table(("command", ""), overview), *parts
    )


def _command(name: str, parser: argparse.ArgumentParser, depth: int = 2) -> Iterator[str]:
    yield f"{'#' * depth} {name}"
    yield code(_usage(name, parser))
    if parser.description:
        yield paragraphs(parser.description)
    shown = [action for action in parser._actions if action.help is not argparse.SUPPRESS]
    rows = [row for action in shown if (row := _row(action)) is not None]
    if rows:
        yield table(("argument", "meaning"), rows)
    if parser.epilog and "example" in parser.epilog:
        yield _example(parser.epilog)
    for aliases, subcommand, each in _subparsers(parser):
        shown_name = f"{name} {subcommand}" + (f" ({', '.join(aliases)})" if aliases else "")
        yield from _command(shown_name, each, depth + 1)


def _usage(name: str, parser: argparse.ArgumentParser) -> str:
    command, _, _ = name.partition(" (")
    optional = {"?", "*"}
    positionals = [
        f"[{_value(action)}]" if action.nargs in optional else _value(action)
        for action in parser._actions
        if not action.option_strings and action.help is not argparse.SUPPRESS
    ]
    return " ".join([command, "[OPTIONS]", *(each.replace(", ", "|") for each in positionals)])


def _row(action: argparse.Action) -> tuple[str, str] | None:
    if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
        return None
    value = _value(action)
    if not action.option_strings:
        return code(value), sentence(_expanded(action))
    options = ", ".join(code(option) for option in action.option_strings)
    return f"{options} {code(value)}".strip(), sentence(_expanded(action))


def _value(action: argparse.Action) -> str:
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return ""
    if action.metavar is not None:
        value = action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    elif action.choices is not None:
        value = ", ".join(str(choice) for choice in action.choices)
    else:
        value = action.dest.upper()
    return f"{value}…" if action.nargs in ("*", "+", argparse.REMAINDER) else value


def _expanded(action: argparse.Action) -> str:
    text = action.help or ""
    return text % {**vars(action), "prog": "launcher"} if "%" in text else text


def _help(parser: argparse.ArgumentParser, name: str) -> str:
    for action in parser._actions:
        for choice in getattr(action, "_choices_actions", ()):
            if choice.dest == name or choice.dest.split(" ")[0] == name:
                return str(choice.help or "")
    return ""


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[list[str], str, argparse.ArgumentParser]]:
    """Aliases, name and parser of each command that is not hidden."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        names: dict[int, list[str]] = {}
        parsers: dict[int, argparse.ArgumentParser] = {}
        for name, each in action.choices.items():
            names.setdefault(id(each), []).append(name)
            parsers[id(each)] = each
        for key, (first, *aliases) in names.items():
            yield aliases, first, parsers[key]


def _example(epilog: str) -> str:
    _, _, text = epilog.partition(":")
    lines = [line.strip() for line in text.strip().splitlines()]
    return "<!-- an example of the help text -->\n```sh\n" + "\n".join(lines) + "\n```"
