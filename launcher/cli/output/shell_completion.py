"""
Completion scripts for shells, written by shtab from the parser of all commands.

The scripts contain all fixed words. They start the program for the names of Frameworks only.
"""

import argparse
import re
from collections.abc import Mapping
from typing import Any

import shtab

from launcher.cli.main import make_parser

_NAMES_COMMAND = "launcher completion names 2>/dev/null </dev/null"
#: What completes the name of a Framework, by shell.
_NAMES = {"bash": "_launcher_names", "zsh": f"($({_NAMES_COMMAND}))", "fish": f"({_NAMES_COMMAND})"}

_BASH_NAMES = """\
_launcher_names() {
    local -a options=()
    local index
    for (( index = 2; index < COMP_CWORD; index++ )); do
        case ${COMP_WORDS[index]} in
            -n|--namespace|--server|--token-file|--ca)
                options+=("${COMP_WORDS[index]}" "${COMP_WORDS[index + 1]}") ;;
        esac
    done
    compgen -W "$("${COMP_WORDS[0]}" completion names "${options[@]}" 2>/dev/null </dev/null)" -- "$1"
}
"""

#: Bash splits COMP_WORDS at the colons of a URL. Without -o bashdefault, no files are offered where none are accepted.
_BASH_WORDS = """
_launcher() {
    local -a COMP_WORDS
    local line=${COMP_LINE:0:COMP_POINT} COMP_CWORD
    read -ra COMP_WORDS <<< "$line"
    [[ $line == *[[:space:]] ]] && COMP_WORDS+=("")
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    _shtab_launcher
}
complete -F _launcher launcher
"""


def script(shell: str) -> str:
    """The script for ``bash``, ``zsh`` or ``fish``."""
    parser = make_parser()
    _prepare(parser)
    match shell:
        case "bash":
            return shtab.complete(parser, shell, preamble=_BASH_NAMES) + _BASH_WORDS
        case "zsh":
            # shtab completes only the first of several arguments.
            return re.sub(r'"\(\*\)::?', '"*:', shtab.complete(parser, shell)) + "\n"
        case _:
            return shtab.complete(parser, shell) + "\n"


def _prepare(parser: argparse.ArgumentParser) -> None:
    """Sets what completes each argument, and the summary of each command as its description."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public access to the arguments of a parser
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - it has no public name
            for command in action._get_subactions():  # noqa: SLF001 - as above
                action.choices[command.dest].description = command.help
                _prepare(action.choices[command.dest])
        elif completion := _completion(action):
            setattr(action, "complete", completion)  # noqa: B010 - an attribute that shtab reads


def _completion(action: argparse.Action) -> Mapping[str, Any] | None:
    match action.metavar:
        case "FILE":
            return shtab.FILE
        case "DIR":
            return shtab.DIRECTORY
        case "NAME" if not action.option_strings:
            return _NAMES
        case _:
            return None
