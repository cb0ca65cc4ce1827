r"""
Regular expressions of the configuration, kept from running wild on text that strangers wrote.

They are written for RE2, which takes time in proportion to the text. Python's own engine tries one way after the
other, so a pattern is refused when trying may never end: a repeat or a choice within a repeat, more than two open
repeats. What RE2 does not know (looking around, references back) is refused too. With two open repeats the time
grows with the third power of the text, so such a pattern sees only the end of it. Patterns are the admin's own:
this keeps out the innocent mistake, not somebody who sets out to write a slow one.

Two differences to RE2 stay: flags such as ``(?i)`` stand at the very start or in ``(?i:…)``, and ``$`` also
matches before a line break that ends the text.
"""

import re
from dataclasses import dataclass
from math import inf
from warnings import catch_warnings, simplefilter

from launcher.core.errors import InvalidObject

#: How much text, counted from its end, a pattern sees, by its number of open repeats.
_REACH = (4096, 4096, 1024)
_NESTED = (
    "repeats a group that itself repeats or chooses, which can take for ever;"
    " write [ab]* for (a|b)*, and (?s:.)* for (.|\\n)*"
)
#: A repeat of more than this is as bad as an open one.
_MANY = 10

_TOKEN = re.compile(
    r"""
      (?P<foreign> \\[1-9] | \(\?(?!P<\w+>|[ims-]*[:)]) | (?:[*+?]|\{\d+(?:,\d*)?\})\+ )
    | (?P<escape>  \\. )
    | (?P<set>     \[\^?\]?(?:\\.|[^\]\\])*\] )
    | (?P<flags>   \(\?[ims-]*\) )
    | (?P<open>    \((?:\?(?:P<\w+>|[ims-]*:))? )
    | (?P<close>   \) )
    | (?P<choice>  \| )
    | (?P<repeat>  (?:[*+?]|\{(?:\d+(?:,\d*)?|,\d*)\})\?? )
    | (?P<other>   . )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern, and how much of a text it is allowed to see."""

    pattern: re.Pattern[str]
    reach: int

    @classmethod
    def of(cls, text: str) -> "Regex":
        """The pattern compiled. Raises InvalidObject for one that is wrong or could take for ever."""
        reach = _REACH[_open_repeats(text)]
        try:
            with catch_warnings():
                # A set such as [[a] or [a||b], which Python means to read otherwise one day.
                simplefilter("error", FutureWarning)
                return cls(re.compile(text), reach)
        except (re.error, FutureWarning, OverflowError, RecursionError) as error:
            raise InvalidObject(f"not a regular expression: {error}") from error

    def find(self, text: str) -> str | None:
        """What the pattern finds anywhere in *text*; None if nothing."""
        found = self.pattern.search(text if len(text) <= self.reach else text[-self.reach :])
        return None if found is None else found[0]


def _open_repeats(text: str) -> int:
    """How many repeats without a (small) limit *text* has. Raises InvalidObject where it could take for ever."""
    count = 0
    varies = [False]  # for the pattern and each group within: does it repeat or choose?
    atom_varies = False  # does that to which the next repeat would apply?
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        _refuse_foreign(kind, token[0])
        if kind == "repeat":
            most = _most(token[0])
            if most > 1 and atom_varies:
                raise InvalidObject(_NESTED)
            count += most > _MANY
        if kind == "open":
            varies.append(False)
        group_varies = kind == "close" and len(varies) > 1 and varies.pop()
        atom_varies = kind == "repeat" or group_varies
        varies[-1] |= atom_varies or kind == "choice"
    if count >= len(_REACH):
        raise InvalidObject(
            f"has {count} open repeats, {len(_REACH) - 1} are allowed; split it into several patterns"
        )
    return count


def _refuse_foreign(kind: str | None, token: str) -> None:
    if kind == "foreign":
        raise InvalidObject(f"{token!r} is not part of the RE2 syntax, or its flags are none of i, m and s")
    if kind == "set" and "[:" in token:
        raise InvalidObject(f"{token!r} is not understood here; write \\d, \\w, \\s or a range such as a-z")


def _most(repeat: str) -> float:
    """How often at most: ``?`` is 1, ``{2,5}`` is 5, ``*`` has no end."""
    if repeat[0] == "?":
        return 1
    if repeat[0] in "*+":
        return inf
    least, comma, most = repeat[1 : repeat.index("}")].partition(",")
    return (float(most) if most else inf) if comma else float(least)
