"""Scripts for shells that complete the commands of a parser."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: The options that ``launcher completion names`` needs in order to ask the right server.
_PASSED_ON = ("-n", "--namespace", "--server", "--token-file", "--ca")


@dataclass(frozen=True, slots=True)
class Value:
    """What an option or an argument takes: one of some words, or what its metavar stands for."""

    metavar: str
    choices: tuple[str, ...] = ()
    #: For an argument: it may be given again and again.
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """An option with its spellings; without a value it is a switch."""

    flags: tuple[str, ...]
    help: str
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command, its options and its arguments."""

    name: str
    help: str
    options: tuple[Option, ...]
    arguments: tuple[Value, ...]


def commands_of(parser: argparse.ArgumentParser) -> tuple[CommandSpec, ...]:
    """Everything that the parser understands."""
    (commands,) = (action for action in _actions(parser) if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001 - as in _actions
    helps = {action.dest: action.help or "" for action in commands._get_subactions()}  # noqa: SLF001 - as in _actions
    return tuple(_command(name, helps[name], each) for name, each in commands.choices.items())


def bash(commands: Sequence[CommandSpec]) -> str:
    """The script for bash."""
    return _BASH.format(
        commands=" ".join(command.name for command in commands),
        passed_on="|".join(_PASSED_ON),
        values="\n".join(_bash_values(commands)),
        options="\n".join(
            f'            {command.name}) _launcher_words "{" ".join(_flags(command))}" ;;'
            for command in commands
        ),
        arguments="\n".join(_bash_arguments(commands)),
    )


def zsh(commands: Sequence[CommandSpec]) -> str:
    """The script for zsh."""
    return _ZSH.format(
        commands="\n".join(f"        {_quoted(f'{command.name}:{command.help}')}" for command in commands),
        cases="\n".join(_zsh_case(command) for command in commands),
    )


def fish(commands: Sequence[CommandSpec]) -> str:
    """The script for fish."""
    return (
        "\n".join(["complete -c launcher -f", *(line for each in commands for line in _fish_lines(each))])
        + "\n"
    )


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # noqa: SLF001 - there is no other way to ask a parser what it knows


def _command(name: str, words: str, parser: argparse.ArgumentParser) -> CommandSpec:
    actions = _actions(parser)
    return CommandSpec(
        name,
        words,
        tuple(_option(action) for action in actions if action.option_strings),
        tuple(_value(action) for action in actions if not action.option_strings),
    )


def _option(action: argparse.Action) -> Option:
    switch = action.nargs == 0
    return Option(tuple(action.option_strings), action.help or "", None if switch else _value(action))


def _value(action: argparse.Action) -> Value:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return Value(metavar, tuple(action.choices or ()), repeats=action.nargs in ("+", "*"))


def _flags(command: CommandSpec) -> Iterator[str]:
    return (flag for option in command.options for flag in option.flags)


# bash

_BASH = """\
# Completion of launcher for bash: eval "$(launcher completion bash)"
_launcher_words() {{
    local IFS=$' \\n'
    COMPREPLY=($(compgen -W "$1" -- "$current"))
}}
_launcher_files() {{
    local IFS=$'\\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen "$1" -- "$current"))
}}
_launcher_names() {{
    _launcher_words "$("${{words[0]}}" completion names "${{asking[@]}}" 2>/dev/null </dev/null)"
}}
_launcher() {{
    local -a words action=() asking=()
    local current="" command word wants="" position=0 index
    COMPREPLY=()
    # Not COMP_WORDS: bash breaks those at the colons of an address.
    read -ra words <<< "${{COMP_LINE:0:COMP_POINT}}"
    if [[ ${{COMP_LINE:0:COMP_POINT}} != *[[:space:]] ]]; then
        current=${{words[${{#words[@]}}-1]}}
        unset "words[${{#words[@]}}-1]"
    fi
    if (( ${{#words[@]}} == 1 )); then
        _launcher_words "{commands}"
        return
    fi
    command=${{words[1]}}
    for (( index = 2; index < ${{#words[@]}}; index++ )); do
        word=${{words[index]}}
        if [[ -n $wants ]]; then
            case $wants in {passed_on}) asking+=("$wants" "$word") ;; esac
            wants=""
        elif [[ $word == -?* ]]; then
            _launcher_value "$command" "$word" && wants=$word
        else
            (( position++ ))
        fi
    done
    if [[ -n $wants ]]; then
        "${{action[@]}}"
    elif [[ $current == -* ]]; then
        case $command in
{options}
        esac
    else
        case $command:$position in
{arguments}
        esac
    fi
}}
_launcher_value() {{
    case $1:$2 in
{values}
        *) return 1 ;;
    esac
}}
complete -F _launcher launcher
"""


def _bash_values(commands: Sequence[CommandSpec]) -> Iterator[str]:
    for command in commands:
        for option in command.options:
            if option.value is not None:
                spelt = "|".join(f"{command.name}:{flag}" for flag in option.flags)
                yield f"        {spelt}) action=({_bash_action(option.value, named=False)}) ;;"


def _bash_arguments(commands: Sequence[CommandSpec]) -> Iterator[str]:
    for command in commands:
        for position, value in enumerate(command.arguments):
            place = "*" if value.repeats else position
            yield f"            {command.name}:{place}) {_bash_action(value, named=True)} ;;"


def _bash_action(value: Value, *, named: bool) -> str:
    """What completes the value; *named* where NAME is a Framework."""
    if value.choices:
        return f'_launcher_words "{" ".join(value.choices)}"'
    match value.metavar:
        case "FILE":
            return "_launcher_files -f"
        case "DIR":
            return "_launcher_files -d"
        case "NAME" if named:
            return "_launcher_names"
        case _:
            return ":"


# zsh

_ZSH = """\
#compdef launcher
# Completion of launcher for zsh: eval "$(launcher completion zsh)", or a file _launcher in $fpath
_launcher_names() {{
    local -a names
    names=(${{(f)"$(launcher completion names 2>/dev/null </dev/null)"}})
    compadd -a names
}}
_launcher() {{
    local -a commands
    commands=(
{commands}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}
    esac
}}
if [[ $funcstack[1] == _launcher ]]; then
    _launcher "$@"
else
    compdef _launcher launcher
fi
"""


def _zsh_case(command: CommandSpec) -> str:
    specs = [spec for option in command.options for spec in _zsh_option(option)]
    specs += [
        _quoted(f"{'*' if value.repeats else ''}:{_zsh_text(value.metavar)}:{_zsh_action(value, named=True)}")
        for value in command.arguments
    ]
    return f"        {command.name})\n            _arguments {' '.join(specs)} ;;"


def _zsh_option(option: Option) -> Iterator[str]:
    takes = (
        ""
        if option.value is None
        else f":{_zsh_text(option.value.metavar)}:{_zsh_action(option.value, named=False)}"
    )
    for flag in option.flags:
        yield _quoted(f"*{flag}[{_zsh_text(option.help)}]{takes}")


def _zsh_action(value: Value, *, named: bool) -> str:
    if value.choices:
        return f"({' '.join(value.choices)})"
    match value.metavar:
        case "FILE":
            return "_files"
        case "DIR":
            return "_files -/"
        case "NAME" if named:
            return "_launcher_names"
        case _:
            return " "


def _zsh_text(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "[]:\\" else sign for sign in text)


# fish


def _fish_lines(command: CommandSpec) -> Iterator[str]:
    yield f"complete -c launcher -n __fish_use_subcommand -a {command.name} -d {_quoted(command.help)}"
    here = f"complete -c launcher -n {_quoted(f'__fish_seen_subcommand_from {command.name}')}"
    for option in command.options:
        spelt = " ".join(
            f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags
        )
        takes = "" if option.value is None else f" {_fish_action(option.value, named=False)}"
        yield f"{here} {spelt}{takes} -d {_quoted(option.help)}"
    for value in command.arguments:
        yield f"{here} {_fish_action(value, named=True).removeprefix('-x ')}".rstrip()


def _fish_action(value: Value, *, named: bool) -> str:
    if value.choices:
        return f"-x -a {_quoted(' '.join(value.choices))}"
    match value.metavar:
        case "FILE" | "DIR":
            return "-r -F" if not named else "-F"
        case "NAME" if named:
            return "-x -a '(launcher completion names 2>/dev/null </dev/null)'"
        case _:
            return "-x" if not named else ""


def _quoted(text: str) -> str:
    """The text as one word, in all three shells."""
    return "'" + text.replace("'", "'\\''") + "'"
