"""The syntax tree of a template."""

from dataclasses import dataclass

#: The value of an expression.
Value = str | int | bool


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal value."""

    value: Value


@dataclass(frozen=True, slots=True)
class Field:
    """``.host``; without names, ``.``."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """``$x``, or the field of one: ``$.host``."""

    name: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """The name of a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Nested:
    """A pipeline in parentheses."""

    pipeline: "Pipeline"


Operand = Literal | Field | Variable | Function | Nested


@dataclass(frozen=True, slots=True)
class CommandNode:
    """A value, or a function and its arguments."""

    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands, each with the previous value as its last argument; *variable* stores the result."""

    commands: tuple[CommandNode, ...]
    variable: str | None = None
    #: The variable is a new one, not one declared before.
    is_declaration: bool = False


@dataclass(frozen=True, slots=True)
class TextNode:
    """Literal text."""

    text: str


@dataclass(frozen=True, slots=True)
class Print:
    """A pipeline whose value is printed, unless it is stored."""

    pipeline: Pipeline
    line: int


@dataclass(frozen=True, slots=True)
class Branch:
    """``if``, or ``with``, which also sets the dot in its first part."""

    pipeline: Pipeline
    line: int
    then: "tuple[Node, ...]"
    otherwise: "tuple[Node, ...]"
    is_with: bool = False


Node = TextNode | Print | Branch
