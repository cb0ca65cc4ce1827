"""
The programs that run in users' containers, as text.

They are written for any POSIX shell. A line ``. NAME`` in one of them includes another file of ``programs/``, so each
program is served as one file.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from launcher.core.errors import NotFound

#: The programs that are served.
PROGRAMS = ("barrier.sh", "get_ips.sh", "rendezvous.sh")

_DIRECTORY = "launcher.rendezvous.programs"
_INCLUDE = re.compile(r"^\. ([a-z_]+\.sh)\n", re.MULTILINE)
#: A Python program between single quotes, in which white space is significant.
_PYTHON = re.compile(r"(-c '\n.*?^'[^\n]*\n)", re.MULTILINE | re.DOTALL)
_COMMENT_OR_INDENT = re.compile(r"^ *#.*\n|^ *\n|^ +", re.MULTILINE)
_SHEBANG = re.compile(r"\A#!.*\n")


@cache
def program_text(name: str) -> str:
    """Returns the text of one of PROGRAMS. Raises NotFound."""
    if name not in PROGRAMS:
        raise NotFound(f'programs "{name}" not found; available: {", ".join(PROGRAMS)}')
    return _with_includes(name)


@cache
def program_command(name: str) -> tuple[str, ...]:
    """Returns a container command that runs the program in an image that does not contain it."""
    # The command is part of every pod, so comments and indentation are removed.
    shell, *others = _PYTHON.split(program_text(name))
    parts = [_COMMENT_OR_INDENT.sub("", shell)]
    for python, following in zip(others[::2], others[1::2], strict=True):
        parts += [python.replace("\n\n", "\n"), _COMMENT_OR_INDENT.sub("", following)]
    return ("/bin/sh", "-c", "".join(parts))


def _barrier_command() -> tuple[str, ...]:
    """Returns the command of the barrier, with the working directory of the original image."""
    shell, option, text = program_command("barrier.sh")
    return (shell, option, f"cd /mnt/frameworkbarrier 2>/dev/null || cd /tmp || exit 1\n{text}")


def _with_includes(name: str) -> str:
    text = files(_DIRECTORY).joinpath(name).read_text()
    return _INCLUDE.sub(lambda match: _SHEBANG.sub("", _with_includes(match[1])), text)


#: Commands that replace images of other systems on a machine without images.
IMAGE_COMMANDS: Mapping[str, Sequence[str]] = {"frameworkcontroller/frameworkbarrier": _barrier_command()}
