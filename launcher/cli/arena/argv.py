"""Command lines in the syntax of Arena, rewritten for argparse."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.cli.errors import UsageError

_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")


@dataclass(slots=True)
class _Line:
    """The parts of a command line that have been read."""

    parser: argparse.ArgumentParser
    path: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        if _commands(self.parser):  # the command is missing or unknown: argparse reports it
            return [*self.path, *self.arguments, *self.options]
        # All options first: none of the arguments can be taken for one.
        return [*self.path, *self.options, *(["--", *self.arguments] if self.arguments else [])]


def rewrite_argv(
    words: Sequence[str],
    parser: argparse.ArgumentParser,
    renamed: Mapping[str, str],
    deprecated: Callable[[str, str], None],
) -> list[str]:
    """
    The same command for *parser*. Options may be at any position, and a switch may have ``=true`` or ``=false``.

    *renamed* maps deprecated flags to their current names; *deprecated* is called for each use. Raises UsageError.
    """
    line, left = _Line(parser), iter(words)
    for word in left:
        if word == "--":
            line.arguments += left
        elif word.startswith("-") and word != "-":
            _take_option(line, word, left, renamed, deprecated)
        elif (inner := _commands(line.parser).get(word)) is not None:
            line.parser = inner
            line.path.append(word)
        else:
            line.arguments.append(word)
    return line.words


def _take_option(
    line: _Line,
    word: str,
    left: Iterator[str],
    renamed: Mapping[str, str],
    deprecated: Callable[[str, str], None],
) -> None:
    name, equals, value = word.partition("=")
    if not word.startswith("--") and len(name) > 2:
        if _is_switch(line, word[:2]):  # -fA, for -f -A
            _take_switch(line, word[:2], "true")
            return _take_option(line, f"-{word[2:]}", left, renamed, deprecated)
        name, equals, value = word[:2], "=", word[2:]  # -nspace, for -n space
    if name in renamed:
        deprecated(name, renamed[name])
        name = renamed[name]
    action = _actions(line).get(name)
    if action is None:
        line.options.append(word)  # unknown: argparse reports it
    elif action.nargs == 0:
        _take_switch(line, name, value if equals else "true")
    elif equals:
        line.options.append(f"{action.option_strings[-1]}={value}")
    elif (following := next(left, None)) is not None:
        # In one word, so that a value may begin with a dash.
        line.options.append(f"{action.option_strings[-1]}={following}")
    else:
        raise UsageError(f"{name}: requires a value")
    return None


def _actions(line: _Line) -> Mapping[str, argparse.Action]:
    return line.parser._option_string_actions  # noqa: SLF001 - argparse has no public access to the arguments of a parser


def _is_switch(line: _Line, name: str) -> bool:
    action = _actions(line).get(name)
    return action is not None and action.nargs == 0


def _take_switch(line: _Line, name: str, value: str) -> None:
    if value not in _TRUE + _FALSE:
        raise UsageError(f"{name}: {value!r} is neither true nor false")
    full = _actions(line)[name].option_strings[-1]
    line.options = [option for option in line.options if option != full]
    if value in _TRUE:
        line.options.append(full)


def _commands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - as above
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - it has no public name
            return action.choices
    return {}
