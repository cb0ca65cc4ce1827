"""
Go's text/template, as far as values that are all text can use it: what its words mean.

Known are text, comments and trimming; ``if``, ``with``, ``else`` and ``end``; variables, pipelines, parentheses and
the functions of ``functions``. What else Go knows is refused by its name.
"""

import json
from collections.abc import Sequence

from launcher.converters.gotemplate.functions import FUNCTIONS
from launcher.converters.gotemplate.lexer import Piece, Token, TokenType, pieces_of, tokens_of
from launcher.converters.gotemplate.nodes import (
    Branch,
    CommandNode,
    Field,
    Function,
    Literal,
    Nested,
    Node,
    Operand,
    Pipeline,
    Print,
    TextNode,
    Value,
    Variable,
)
from launcher.core.errors import BadRequest

_BRANCHES = ("if", "with")
#: Words of Go's that say nothing about values that are text.
_REFUSED = (
    *("range", "break", "continue", "define", "template", "block"),
    *("call", "html", "index", "js", "slice", "urlquery", "nil"),
)
_WORDS: dict[str, Value] = {"true": True, "false": False}


def parse(template: str, first_line: int = 1) -> tuple[Node, ...]:
    """What *template* says. Raises BadRequest with the line where it cannot be understood."""
    reader = _Reader([piece for piece in pieces_of(template, first_line) if piece.is_action or piece.text])
    nodes, ended = reader.nodes(frozenset({"$"}))
    if ended is not None:
        raise BadRequest(f"line {ended.line}: {{{{{ended.word}}}}} stands alone: no if or with is open here")
    return nodes


class _Action:
    """The words of one action, from the first to the last."""

    def __init__(self, piece: Piece) -> None:
        self.line = piece.line
        words = list(tokens_of(piece))
        while words and words[-1].kind is TokenType.SPACE:
            words.pop()
        while words and words[0].kind is TokenType.SPACE:
            words.pop(0)
        if not words:
            raise self.complaint("there is nothing in it; name a variable, as in {{.host}}")
        self._words = words

    @property
    def word(self) -> str:
        """The next word as it is written; empty at the end."""
        return self._words[0].text if self._words else ""

    @property
    def kind(self) -> TokenType | None:
        return self._words[0].kind if self._words else None

    def take(self) -> Token:
        """The next word, which is gone then."""
        return self._words.pop(0)

    def follows(self, *texts: str) -> bool:
        """Whether these words come next, white space left out."""
        words = [word.text for word in self._words if word.kind is not TokenType.SPACE]
        return words[: len(texts)] == list(texts)

    def skip_space(self) -> None:
        while self.kind is TokenType.SPACE:
            self.take()

    def complaint(self, what: str) -> BadRequest:
        return BadRequest(f"line {self.line}: {what}")


class _Reader:
    """Pieces on their way into nodes."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._left = list(reversed(pieces))

    def nodes(self, variables: frozenset[str]) -> tuple[tuple[Node, ...], _Action | None]:
        """Everything up to an ``else`` or ``end``, and that; None at the end of the template."""
        found: list[Node] = []
        while self._left:
            piece = self._left.pop()
            if not piece.is_action:
                found.append(TextNode(piece.text))
                continue
            action = _Action(piece)
            if action.word in ("else", "end"):
                return tuple(found), action
            if action.word in _BRANCHES:
                found.append(self._branch(action, variables))
                continue
            pipeline = _whole_pipeline(action, variables)
            if pipeline.declares and pipeline.keeps is not None:
                variables |= {pipeline.keeps}
            found.append(Print(pipeline, action.line))
        return tuple(found), None

    def _branch(self, action: _Action, variables: frozenset[str]) -> Branch:
        word = action.take().text
        pipeline = _whole_pipeline(action, variables)
        if pipeline.declares and pipeline.keeps is not None:
            variables |= {pipeline.keeps}
        then, ended = self.nodes(variables)
        otherwise: tuple[Node, ...] = ()
        if ended is not None and ended.word == "else":
            ended.take()
            ended.skip_space()
            if ended.word in _BRANCHES:  # it shares the end of this one
                return Branch(pipeline, action.line, then, (self._branch(ended, variables),), word == "with")
            _nothing_more(ended, "else")
            otherwise, ended = self.nodes(variables)
        if ended is None or ended.word != "end":
            raise action.complaint(f"{{{{{word}}}}} is never ended; write {{{{end}}}} where it ends")
        ended.take()
        _nothing_more(ended, "end")
        return Branch(pipeline, action.line, then, otherwise, word == "with")


def _nothing_more(action: _Action, word: str) -> None:
    action.skip_space()
    if action.word:
        raise action.complaint(f"{action.word!r} stands behind {word}, where nothing may stand")


def _whole_pipeline(action: _Action, variables: frozenset[str]) -> Pipeline:
    action.skip_space()
    keeps, declares = None, False
    for sign in (":=", "="):
        if action.kind is TokenType.VARIABLE and action.follows(action.word, sign):
            keeps, declares = action.take().text, sign == ":="
            action.skip_space()
            action.take()
            break
    if keeps is not None and not declares and keeps not in variables:
        raise _undefined(action, keeps)
    commands = _commands(action, variables)
    if action.word:
        raise action.complaint(f"{action.word!r} is not understood here")
    return Pipeline(commands, keeps, declares)


def _commands(action: _Action, variables: frozenset[str]) -> tuple[CommandNode, ...]:
    """Commands joined by ``|``, up to a closing parenthesis or the end."""
    commands = [_command(action, variables)]
    while action.word == "|":
        action.take()
        commands.append(_command(action, variables))
        if not isinstance(commands[-1].operands[0], Function):
            raise action.complaint("behind | there has to be a function, which is given the value before it")
    return tuple(commands)


def _command(action: _Action, variables: frozenset[str]) -> CommandNode:
    operands: list[Operand] = []
    action.skip_space()
    while action.word not in ("", "|", ")"):
        operands.append(_operand(action, variables))
        if action.word not in ("", "|", ")") and action.kind is not TokenType.SPACE:
            raise action.complaint(f"{action.word!r} is not understood here; put a space before it")
        action.skip_space()
    if not operands:
        raise action.complaint("a value is missing")
    if len(operands) > 1 and not isinstance(operands[0], Function):
        raise action.complaint("only a function takes values; there is one value too many, or a | is missing")
    return CommandNode(tuple(operands))


def _operand(action: _Action, variables: frozenset[str]) -> Operand:
    token = action.take()
    match token.kind:
        case TokenType.STRING:
            return Literal(_unquoted(action, token.text))
        case TokenType.NUMBER:
            return Literal(int(token.text))
        case TokenType.FIELD:
            return Field(()) if token.text == "." else Field((token.text[1:], *_fields(action)))
        case TokenType.VARIABLE:
            if token.text not in variables:
                raise _undefined(action, token.text)
            return Variable(token.text, _fields(action))
        case TokenType.NAME:
            return _name(action, token.text)
        case _:
            return _nested(action, token, variables)


def _nested(action: _Action, token: Token, variables: frozenset[str]) -> Nested:
    if token.text != "(":
        raise action.complaint(f"{token.text!r} is not understood here")
    commands = _commands(action, variables)
    if action.word != ")":
        raise action.complaint("( is never closed; write ) where it ends")
    action.take()
    return Nested(Pipeline(commands))


def _fields(action: _Action) -> tuple[str, ...]:
    """The fields that follow at once."""
    found: list[str] = []
    while action.kind is TokenType.FIELD and action.word != ".":
        found.append(action.take().text[1:])
    return tuple(found)


def _name(action: _Action, name: str) -> Operand:
    if name in _WORDS:
        return Literal(_WORDS[name])
    if name in FUNCTIONS:
        return Function(name)
    if name in _REFUSED:
        raise action.complaint(f"{name} is not supported here; there are if, with, {', '.join(FUNCTIONS)}")
    raise action.complaint(
        f"there is no function {name}; a variable has a dot before it, as in {{{{.host}}}}, and {{{{{name}}}}} that "
        f'is to stand in the output is written {{{{"{{{{{name}}}}}"}}}}'
    )


def _undefined(action: _Action, name: str) -> BadRequest:
    return action.complaint(f"there is no variable {name} here; begin it with {{{{{name} := …}}}}")


def _unquoted(action: _Action, text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    try:
        return str(json.loads(text, strict=False))
    except json.JSONDecodeError as error:
        raise action.complaint(
            f"{text} has an escape that is not understood; write it in `back quotes`"
        ) from error
