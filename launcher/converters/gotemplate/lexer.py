"""Splits a template into text and actions, and actions into tokens."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from launcher.core.errors import BadRequest

_SPACE = " \t\r\n"
_OPEN, _CLOSE = "{{", "}}"
_COMMENT = re.compile(r"\{\{(-[ \t\r\n]+)?/\*.*?\*/([ \t\r\n]+-)?\}\}", re.DOTALL)


class TokenType(Enum):
    """The type of a token."""

    SPACE = auto()
    STRING = auto()
    NUMBER = auto()
    FIELD = auto()
    VARIABLE = auto()
    NAME = auto()
    SIGN = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an action."""

    kind: TokenType
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """An action without its ``{{`` and ``}}``, or text, with its first line."""

    text: str
    line: int
    is_action: bool


_TOKEN_PATTERNS = (
    (TokenType.SPACE, r"[ \t\r\n]+"),
    (TokenType.STRING, r'"(?:[^"\\\n]|\\.)*"|`[^`]*`'),
    (TokenType.NUMBER, r"[+-]?[0-9]+(?![0-9A-Za-z_.])"),
    (TokenType.FIELD, r"\.(?:[^\W\d]\w*)?"),
    (TokenType.VARIABLE, r"\$(?:[^\W\d]\w*)?"),
    (TokenType.NAME, r"[^\W\d]\w*"),
    (TokenType.SIGN, r":=|[=|()]"),
)
_TOKEN = re.compile("|".join(f"(?P<{kind.name}>{form})" for kind, form in _TOKEN_PATTERNS))


def pieces_of(template: str, first_line: int) -> Iterator[Piece]:
    """Text and actions, trimmed for ``{{-`` and ``-}}``, without comments."""
    offset, line, trims_after = 0, first_line, False
    while (start := template.find(_OPEN, offset)) >= 0:
        start_line = line + template.count("\n", offset, start)
        match = _action_at(template, start, start_line)
        yield _text(template[offset:start], line, after=trims_after, before=match.trims_before)
        if match.action is not None:
            yield match.action
        offset, line, trims_after = (
            match.end,
            start_line + template.count("\n", start, match.end),
            match.trims_after,
        )
    yield _text(template[offset:], line, after=trims_after, before=False)


def _text(text: str, line: int, *, after: bool, before: bool) -> Piece:
    text = text.lstrip(_SPACE) if after else text
    return Piece(text.rstrip(_SPACE) if before else text, line, False)


@dataclass(frozen=True, slots=True)
class _MatchedAction:
    """An action (None for a comment), its end, and whether it trims the text on either side."""

    action: Piece | None
    end: int
    trims_before: bool
    trims_after: bool


def _action_at(template: str, start: int, line: int) -> _MatchedAction:
    if comment := _COMMENT.match(template, start):
        return _MatchedAction(None, comment.end(), comment[1] is not None, comment[2] is not None)
    content_start, trims_before = start + len(_OPEN), False
    if template.startswith(tuple(f"-{space}" for space in _SPACE), content_start):
        content_start, trims_before = content_start + 1, True
    content_end = _close(template, content_start, line)
    content = template[content_start:content_end]
    trims_after = len(content) > 1 and content[-1] == "-" and content[-2] in _SPACE
    action = Piece(content[:-1] if trims_after else content, line, True)
    return _MatchedAction(action, content_end + len(_CLOSE), trims_before, trims_after)


def _close(template: str, start: int, line: int) -> int:
    """The offset of the ``}}`` of an action, ignoring those in strings. Raises BadRequest if there is none."""
    offset = start
    while not template.startswith(_CLOSE, offset):
        if offset >= len(template):
            raise BadRequest(f"line {line}: {{{{ is not closed; missing }}}}")
        match = _TOKEN.match(template, offset)
        offset = match.end() if match and match.lastgroup == TokenType.STRING.name else offset + 1
    return offset


def tokens_of(action: Piece) -> tuple[Token, ...]:
    """The tokens of an action, including white space. Raises BadRequest for invalid characters."""
    tokens, offset = [], 0
    while offset < len(action.text):
        match = _TOKEN.match(action.text, offset)
        if match is None or match.lastgroup is None:
            raise BadRequest(f"line {action.line}: unexpected {action.text[offset:].split()[0]!r}")
        tokens.append(Token(TokenType[match.lastgroup], match[0]))
        offset = match.end()
    return tuple(tokens)
