"""
Parses templates of Go's text/template, as far as they apply to string values.

Supported are text, comments and trimming; ``if``, ``with``, ``else`` and ``end``; variables, pipelines, parentheses and
the functions of ``functions``. Other keywords and functions of Go are rejected by name.
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
#: Keywords and functions of Go that are not supported.
_UNSUPPORTED = (
    *("range", "break", "continue", "define", "template", "block"),
    *("call", "html", "index", "js", "slice", "urlquery", "nil"),
)
_BOOLEANS: dict[str, Value] = {"true": True, "false": False}


def parse(template: str, first_line: int = 1) -> tuple[Node, ...]:
    """The syntax tree of *template*. Raises BadRequest with the line of an error."""
    parser = _TemplateParser(
        [piece for piece in pieces_of(template, first_line) if piece.is_action or piece.text]
    )
    nodes, ended = parser.nodes(frozenset({"$"}))
    if ended is not None:
        raise BadRequest(f"line {ended.line}: {{{{{ended.next_text}}}}} without if or with")
    return nodes


class _Action:
    """The tokens of one action."""

    def __init__(self, piece: Piece) -> None:
        self.line = piece.line
        tokens = list(tokens_of(piece))
        while tokens and tokens[-1].kind is TokenType.SPACE:
            tokens.pop()
        while tokens and tokens[0].kind is TokenType.SPACE:
            tokens.pop(0)
        if not tokens:
            raise self.error("empty action; name a variable, as in {{.host}}")
        self._tokens = tokens

    @property
    def next_text(self) -> str:
        """The text of the next token; empty at the end."""
        return self._tokens[0].text if self._tokens else ""

    @property
    def kind(self) -> TokenType | None:
        return self._tokens[0].kind if self._tokens else None

    def take(self) -> Token:
        """Removes and returns the next token."""
        return self._tokens.pop(0)

    def follows(self, *texts: str) -> bool:
        """Whether the next tokens are *texts*, ignoring white space."""
        tokens = [token.text for token in self._tokens if token.kind is not TokenType.SPACE]
        return tokens[: len(texts)] == list(texts)

    def skip_space(self) -> None:
        while self.kind is TokenType.SPACE:
            self.take()

    def error(self, message: str) -> BadRequest:
        return BadRequest(f"line {self.line}: {message}")


class _TemplateParser:
    """Parses pieces into nodes."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._remaining = list(reversed(pieces))

    def nodes(self, variables: frozenset[str]) -> tuple[tuple[Node, ...], _Action | None]:
        """The nodes up to an ``else`` or ``end``, and that action; None at the end of the template."""
        nodes: list[Node] = []
        while self._remaining:
            piece = self._remaining.pop()
            if not piece.is_action:
                nodes.append(TextNode(piece.text))
                continue
            action = _Action(piece)
            if action.next_text in ("else", "end"):
                return tuple(nodes), action
            if action.next_text in _BRANCHES:
                nodes.append(self._branch(action, variables))
                continue
            pipeline = _whole_pipeline(action, variables)
            if pipeline.is_declaration and pipeline.variable is not None:
                variables |= {pipeline.variable}
            nodes.append(Print(pipeline, action.line))
        return tuple(nodes), None

    def _branch(self, action: _Action, variables: frozenset[str]) -> Branch:
        keyword = action.take().text
        pipeline = _whole_pipeline(action, variables)
        if pipeline.is_declaration and pipeline.variable is not None:
            variables |= {pipeline.variable}
        then, ended = self.nodes(variables)
        otherwise: tuple[Node, ...] = ()
        if ended is not None and ended.next_text == "else":
            ended.take()
            ended.skip_space()
            if ended.next_text in _BRANCHES:  # both share one end
                return Branch(
                    pipeline, action.line, then, (self._branch(ended, variables),), keyword == "with"
                )
            _expect_end(ended, "else")
            otherwise, ended = self.nodes(variables)
        if ended is None or ended.next_text != "end":
            raise action.error(f"{{{{{keyword}}}}} without {{{{end}}}}")
        ended.take()
        _expect_end(ended, "end")
        return Branch(pipeline, action.line, then, otherwise, keyword == "with")


def _expect_end(action: _Action, keyword: str) -> None:
    action.skip_space()
    if action.next_text:
        raise action.error(f"unexpected {action.next_text!r} after {keyword}")


def _whole_pipeline(action: _Action, variables: frozenset[str]) -> Pipeline:
    action.skip_space()
    variable, is_declaration = None, False
    for sign in (":=", "="):
        if action.kind is TokenType.VARIABLE and action.follows(action.next_text, sign):
            variable, is_declaration = action.take().text, sign == ":="
            action.skip_space()
            action.take()
            break
    if variable is not None and not is_declaration and variable not in variables:
        raise _undefined_error(action, variable)
    commands = _commands(action, variables)
    if action.next_text:
        raise action.error(f"unexpected {action.next_text!r}")
    return Pipeline(commands, variable, is_declaration)


def _commands(action: _Action, variables: frozenset[str]) -> tuple[CommandNode, ...]:
    """Commands separated by ``|``, up to a closing parenthesis or the end."""
    commands = [_command(action, variables)]
    while action.next_text == "|":
        action.take()
        commands.append(_command(action, variables))
        if not isinstance(commands[-1].operands[0], Function):
            raise action.error("a function must follow |")
    return tuple(commands)


def _command(action: _Action, variables: frozenset[str]) -> CommandNode:
    operands: list[Operand] = []
    action.skip_space()
    while action.next_text not in ("", "|", ")"):
        operands.append(_operand(action, variables))
        if action.next_text not in ("", "|", ")") and action.kind is not TokenType.SPACE:
            raise action.error(f"unexpected {action.next_text!r}; put a space before it")
        action.skip_space()
    if not operands:
        raise action.error("missing value")
    if len(operands) > 1 and not isinstance(operands[0], Function):
        raise action.error("only a function has arguments; remove a value or add a |")
    return CommandNode(tuple(operands))


def _operand(action: _Action, variables: frozenset[str]) -> Operand:
    token = action.take()
    match token.kind:
        case TokenType.STRING:
            return Literal(_unquote(action, token.text))
        case TokenType.NUMBER:
            return Literal(int(token.text))
        case TokenType.FIELD:
            return Field(()) if token.text == "." else Field((token.text[1:], *_fields(action)))
        case TokenType.VARIABLE:
            if token.text not in variables:
                raise _undefined_error(action, token.text)
            return Variable(token.text, _fields(action))
        case TokenType.NAME:
            return _name(action, token.text)
        case _:
            return _nested_pipeline(action, token, variables)


def _nested_pipeline(action: _Action, token: Token, variables: frozenset[str]) -> Nested:
    if token.text != "(":
        raise action.error(f"unexpected {token.text!r}")
    commands = _commands(action, variables)
    if action.next_text != ")":
        raise action.error("( is not closed; missing )")
    action.take()
    return Nested(Pipeline(commands))


def _fields(action: _Action) -> tuple[str, ...]:
    """The fields that follow without white space."""
    names: list[str] = []
    while action.kind is TokenType.FIELD and action.next_text != ".":
        names.append(action.take().text[1:])
    return tuple(names)


def _name(action: _Action, name: str) -> Operand:
    if name in _BOOLEANS:
        return Literal(_BOOLEANS[name])
    if name in FUNCTIONS:
        return Function(name)
    if name in _UNSUPPORTED:
        raise action.error(f"{name} is not supported; supported: if, with, {', '.join(FUNCTIONS)}")
    raise action.error(
        f"no function {name}; a variable starts with a dot, as in {{{{.host}}}}, and a literal {{{{{name}}}}} "
        f'is written {{{{"{{{{{name}}}}}"}}}}'
    )


def _undefined_error(action: _Action, name: str) -> BadRequest:
    return action.error(f"no variable {name}; declare it with {{{{{name} := …}}}}")


def _unquote(action: _Action, text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    try:
        return str(json.loads(text, strict=False))
    except json.JSONDecodeError as error:
        raise action.error(f"{text} has an unsupported escape; write it in `back quotes`") from error
