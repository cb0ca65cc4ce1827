"""A template taken apart: text and actions, and the words of an action."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from launcher.core.errors import BadRequest

_SPACE = " \t\r\n"
_OPEN, _CLOSE = "{{", "}}"
_COMMENT = re.compile(r"\{\{(-[ \t\r\n]+)?/\*.*?\*/([ \t\r\n]+-)?\}\}", re.DOTALL)


class TokenType(Enum):
    """What a word of an action is."""

    SPACE = auto()
    STRING = auto()
    NUMBER = auto()
    FIELD = auto()
    VARIABLE = auto()
    NAME = auto()
    SIGN = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """One word of an action, as it is written."""

    kind: TokenType
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the template: what stands between ``{{`` and ``}}``, or text; with the line where it begins."""

    text: str
    line: int
    is_action: bool


_WORDS = (
    (TokenType.SPACE, r"[ \t\r\n]+"),
    (TokenType.STRING, r'"(?:[^"\\\n]|\\.)*"|`[^`]*`'),
    (TokenType.NUMBER, r"[+-]?[0-9]+(?![0-9A-Za-z_.])"),
    (TokenType.FIELD, r"\.(?:[^\W\d]\w*)?"),
    (TokenType.VARIABLE, r"\$(?:[^\W\d]\w*)?"),
    (TokenType.NAME, r"[^\W\d]\w*"),
    (TokenType.SIGN, r":=|[=|()]"),
)
_WORD = re.compile("|".join(f"(?P<{kind.name}>{form})" for kind, form in _WORDS))


def pieces_of(template: str, first_line: int) -> Iterator[Piece]:
    """Text and actions by turns, white space gone where ``{{-`` or ``-}}`` ask for it, comments left out."""
    at, line, trims = 0, first_line, False
    while (opened := template.find(_OPEN, at)) >= 0:
        begins = line + template.count("\n", at, opened)
        found = _action_at(template, opened, begins)
        yield _text(template[at:opened], line, after=trims, before=found.trims_before)
        if found.action is not None:
            yield found.action
        at, line, trims = found.end, begins + template.count("\n", opened, found.end), found.trims_after
    yield _text(template[at:], line, after=trims, before=False)


def _text(text: str, line: int, *, after: bool, before: bool) -> Piece:
    text = text.lstrip(_SPACE) if after else text
    return Piece(text.rstrip(_SPACE) if before else text, line, False)


@dataclass(frozen=True, slots=True)
class _Found:
    """An action, None for a comment: where it ends, and whether it trims the text on either side."""

    action: Piece | None
    end: int
    trims_before: bool
    trims_after: bool


def _action_at(template: str, opened: int, line: int) -> _Found:
    if comment := _COMMENT.match(template, opened):
        return _Found(None, comment.end(), comment[1] is not None, comment[2] is not None)
    begin, trims_before = opened + len(_OPEN), False
    if template[begin : begin + 1] == "-" and template[begin + 1 : begin + 2] in tuple(_SPACE):
        begin, trims_before = begin + 1, True
    close = _close(template, begin, line)
    inside = template[begin:close]
    trims_after = len(inside) > 1 and inside[-1] == "-" and inside[-2] in _SPACE
    action = Piece(inside[:-1] if trims_after else inside, line, True)
    return _Found(action, close + len(_CLOSE), trims_before, trims_after)


def _close(template: str, begin: int, line: int) -> int:
    """Where the ``}}`` of an action is: not one within a string. Raises BadRequest if there is none."""
    at = begin
    while not template.startswith(_CLOSE, at):
        if at >= len(template):
            raise BadRequest(f"line {line}: {{{{ is never closed; write }}}} at the end of the action")
        found = _WORD.match(template, at)
        at = found.end() if found and found.lastgroup == TokenType.STRING.name else at + 1
    return at


def tokens_of(action: Piece) -> tuple[Token, ...]:
    """The words of an action, white space among them. Raises BadRequest where there is no word."""
    found, at = [], 0
    while at < len(action.text):
        word = _WORD.match(action.text, at)
        if word is None or word.lastgroup is None:
            raise BadRequest(f"line {action.line}: {action.text[at:].split()[0]!r} is not understood here")
        found.append(Token(TokenType[word.lastgroup], word[0]))
        at = word.end()
    return tuple(found)
