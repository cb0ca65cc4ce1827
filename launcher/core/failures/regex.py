r"""
Regular expressions of a podFailureSpec, with an upper bound on the time that a search takes.

They are written in RE2 syntax, and RE2 takes time in proportion to the text. Python's engine backtracks, so a pattern
is rejected when its worst case is too slow: a repeat or a choice within a repeat, more than two open repeats, too many
optional parts in a row. Syntax that RE2 does not have (lookaround, back references) is rejected as well. With two open
repeats the time grows with the third power of the text, so such a pattern sees only the end of it. An open repeat at
the end of the pattern is free, since nothing after it can fail.

The rules of a role are written by users and searched in the text of their own containers. They have lower limits than
the rules of the cluster's admin: see ``RegexLimits``.

Two differences to RE2 remain: flags such as ``(?i)`` are allowed only at the start or as ``(?i:…)``, and ``$`` also
matches before a line break at the end of the text.
"""

import re
from dataclasses import dataclass
from math import inf
from warnings import catch_warnings, simplefilter

from launcher.core.errors import InvalidObject

_NESTED = (
    "repeats a group that contains a repeat or a choice, which can take exponential time;"
    " write [ab]* for (a|b)*, and (?s:.)* for (.|\\n)*"
)
#: A bounded repeat with a higher maximum than this counts as open.
_MAX_BOUNDED_REPEAT = 10


@dataclass(frozen=True, slots=True)
class RegexLimits:
    """Limits for the patterns of one podFailureSpec."""

    max_patterns: int
    max_length: int
    #: Characters, counted from the end of the text, that a pattern sees, by its number of open repeats.
    visible_characters: tuple[int, ...]
    #: Steps of the engine in the worst case of one pattern.
    max_steps: int


CLUSTER_LIMITS = RegexLimits(
    max_patterns=10_000, max_length=16_384, visible_characters=(4096, 4096, 1024), max_steps=2**36
)
ROLE_LIMITS = RegexLimits(
    max_patterns=20, max_length=1024, visible_characters=(4096, 4096, 512), max_steps=2**28
)

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
    """A compiled pattern, and the number of characters at the end of a text that it sees."""

    pattern: re.Pattern[str]
    visible_characters: int

    @classmethod
    def compile(cls, text: str, limits: RegexLimits = CLUSTER_LIMITS) -> "Regex":
        """The compiled pattern. Raises InvalidObject when it is invalid or a search may take too long."""
        if len(text) > limits.max_length:
            raise InvalidObject(f"has {len(text)} characters; the maximum is {limits.max_length}")
        visible_characters = _visible_characters(text, limits)
        try:
            with catch_warnings():
                # A set such as [[a] or [a||b], whose meaning Python announces to change.
                simplefilter("error", FutureWarning)
                return cls(re.compile(text), visible_characters)
        except (re.error, FutureWarning, OverflowError, RecursionError) as error:
            raise InvalidObject(f"not a regular expression: {error}") from error

    def find(self, text: str) -> str | None:
        """The first match in *text*; None when there is none."""
        limit = self.visible_characters
        match = self.pattern.search(text if len(text) <= limit else text[-limit:])
        return None if match is None else match[0]


def _visible_characters(text: str, limits: RegexLimits) -> int:
    """The number of characters that the pattern *text* sees. Raises InvalidObject when a search may take too long."""
    open_repeats, combinations = _backtracking(text)
    if open_repeats >= len(limits.visible_characters):
        maximum = len(limits.visible_characters) - 1
        raise InvalidObject(
            f"has {open_repeats} open repeats; the maximum is {maximum}: split it into several patterns"
        )
    visible = limits.visible_characters[open_repeats]
    if combinations * visible ** (open_repeats + 1) > limits.max_steps:
        raise InvalidObject("has too many optional parts or choices in a row; split it into several patterns")
    return visible


def _backtracking(text: str) -> tuple[int, int]:
    """
    The number of open repeats in *text*, and the number of combinations in which all other parts can match.

    Raises InvalidObject for a repeat or a choice within a repeat, and for syntax that RE2 does not have.
    """
    open_repeats = 0
    groups = [_Group()]
    atom_combinations, atom_varies = 1, False  # of the part that a repeat at this position would apply to
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        _reject_foreign(kind, token[0])
        if kind == "repeat":
            minimum, maximum = _repeat_bounds(token[0])
            if maximum > 1 and atom_varies:
                raise InvalidObject(_NESTED)
            groups[-1].sequence_combinations //= atom_combinations
            if maximum > _MAX_BOUNDED_REPEAT:
                open_repeats += token.end() < len(text)
                atom_combinations = 1
            else:
                atom_combinations = atom_combinations + 1 if atom_varies else int(maximum - minimum) + 1
            groups[-1].sequence_combinations *= atom_combinations
            groups[-1].varies = atom_varies = True
        elif kind == "open":
            groups.append(_Group())
        elif kind == "close" and len(groups) > 1:
            group = groups.pop()
            atom_combinations, atom_varies = (
                group.choice_combinations + group.sequence_combinations,
                group.varies,
            )
            groups[-1].sequence_combinations *= atom_combinations
            groups[-1].varies |= atom_varies
        else:
            atom_combinations, atom_varies = 1, False
            if kind == "choice":
                groups[-1].choice_combinations += groups[-1].sequence_combinations
                groups[-1].sequence_combinations, groups[-1].varies = 1, True
    return open_repeats, sum(group.choice_combinations + group.sequence_combinations for group in groups)


@dataclass(slots=True)
class _Group:
    """The pattern or a group of it, as far as it has been read."""

    #: Combinations in which the alternatives before the current one can match, and the current one.
    choice_combinations: int = 0
    sequence_combinations: int = 1
    #: Contains a repeat or a choice.
    varies: bool = False


def _reject_foreign(kind: str | None, token: str) -> None:
    if kind == "foreign":
        raise InvalidObject(f"{token!r} is not part of the RE2 syntax, or its flags are none of i, m and s")
    if kind == "set" and "[:" in token:
        raise InvalidObject(f"{token!r} is not supported; write \\d, \\w, \\s or a range such as a-z")


def _repeat_bounds(repeat: str) -> tuple[float, float]:
    """The minimum and maximum of a repeat: ``?`` is (0, 1), ``{2,5}`` is (2, 5), ``*`` is (0, inf)."""
    if repeat[0] == "?":
        return 0, 1
    if repeat[0] in "*+":
        return 0, inf
    minimum, comma, maximum = repeat[1 : repeat.index("}")].partition(",")
    if not comma:
        return float(minimum), float(minimum)
    return float(minimum or 0), float(maximum) if maximum else inf
