"""
The programs that run in users' containers, as text.

They are written for any POSIX shell. A line ``. NAME`` in one of them stands for another file beside it, so each is
whole by itself when it is given out.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from launcher.core.errors import NotFound

#: What can be asked for.
PROGRAMS = ("barrier.sh", "get_ips.sh", "rendezvous.sh")

_INCLUDED = re.compile(r"^\. ([a-z_]+\.sh)\n", re.MULTILINE)
#: Lines in Python, where white space means something, are between two single quotes.
_PYTHON = re.compile(r"(-c '\n.*?^'[^\n]*\n)", re.MULTILINE | re.DOTALL)
_REMARK = re.compile(r"^ *#.*\n|^ *\n|^ +", re.MULTILINE)
_FIRST_LINE = re.compile(r"\A#!.*\n")


@cache
def program(name: str) -> str:
    """The whole text of one of PROGRAMS. Raises NotFound."""
    if name not in PROGRAMS:
        raise NotFound(f'programs "{name}" not found: there are {", ".join(PROGRAMS)}')
    return _text(name)


@cache
def command(name: str) -> tuple[str, ...]:
    """A container's command that runs this program in an image that lacks it."""
    # Every pod carries it, so it goes without what is only for readers.
    shell, *others = _PYTHON.split(program(name))
    parts = [_REMARK.sub("", shell)]
    for python, following in zip(others[::2], others[1::2], strict=True):
        parts += [python.replace("\n\n", "\n"), _REMARK.sub("", following)]
    return ("/bin/sh", "-c", "".join(parts))


def _barrier() -> tuple[str, ...]:
    """As the original image does it: what it writes is found at the mount that its users know."""
    shell, option, text = command("barrier.sh")
    return (shell, option, f"cd /mnt/frameworkbarrier 2>/dev/null || cd /tmp || exit 1\n{text}")


def _text(name: str) -> str:
    text = files(__name__).joinpath(name).read_text()
    return _INCLUDED.sub(lambda found: _FIRST_LINE.sub("", _text(found[1])), text)


#: For images that users' templates name and that a machine without images has a program of ours for: their commands.
STAND_INS: Mapping[str, Sequence[str]] = {"frameworkcontroller/frameworkbarrier": _barrier()}
