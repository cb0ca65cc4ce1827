"""What a template says, read and not yet filled in: text, and actions that print, decide or remember."""

from dataclasses import dataclass

#: What an expression can come to.
Value = str | int | bool


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is written out."""

    value: Value


@dataclass(frozen=True, slots=True)
class Field:
    """``.host``; without names ``.`` itself."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """``$x``, or the field of one: ``$.host``."""

    name: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """The name of something that can be called."""

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
    """Commands, each given the value of the one before as its last argument; *keeps* is where the last one goes."""

    commands: tuple[CommandNode, ...]
    keeps: str | None = None
    #: The variable is a new one, not one declared before.
    declares: bool = False


@dataclass(frozen=True, slots=True)
class TextNode:
    """What stands in the output as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Print:
    """A pipeline whose value is printed, unless it is kept."""

    pipeline: Pipeline
    line: int


@dataclass(frozen=True, slots=True)
class Branch:
    """``if``, or ``with``, which also makes the value the dot of its first part."""

    pipeline: Pipeline
    line: int
    then: "tuple[Node, ...]"
    otherwise: "tuple[Node, ...]"
    is_with: bool = False


Node = TextNode | Print | Branch
