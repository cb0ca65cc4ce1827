"""A template filled in: its text, and what its actions print for one set of values."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from launcher.converters.gotemplate.functions import called, printed
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

#: How a printed value goes on from what is written so far.
Place = Callable[[str, str], str]
#: The dot is the values themselves, or a value inside ``with``.
Dot = Mapping[str, str] | Value


def render(nodes: Sequence[Node], values: Mapping[str, str], place: Place) -> str:
    """
    The template's output for these *values*.

    Raises BadRequest, with the line, for a variable that there is not and for a call that cannot be made.
    """
    writer = _Writer(values, place)
    writer.write(nodes, values)
    return "".join(writer.written)


class _Writer:
    """What is written so far, and the variables that are known at this point."""

    def __init__(self, values: Mapping[str, str], place: Place) -> None:
        self.written: list[str] = []
        self._place = place
        #: The innermost last; ``$`` is where it all began.
        self._variables: list[tuple[str, Dot]] = [("$", values)]

    def write(self, nodes: Sequence[Node], dot: Dot) -> None:
        """Add what *nodes* say; the variables that they declare are forgotten at their end."""
        known = len(self._variables)
        for node in nodes:
            match node:
                case TextNode():
                    self.written.append(node.text)
                case Print():
                    self._print(node, dot)
                case Branch():
                    self._branch(node, dot)
        del self._variables[known:]

    def _print(self, node: Print, dot: Dot) -> None:
        value = self._value(node.pipeline, dot, node.line)
        if node.pipeline.keeps is not None:
            return
        if isinstance(value, Mapping):
            raise BadRequest(
                f"line {node.line}: . is all variables together; name one of them, as in {{{{.host}}}}"
            )
        self.written.append(self._place("".join(self.written), printed(value)))

    def _branch(self, node: Branch, dot: Dot) -> None:
        known = len(self._variables)
        value = self._value(node.pipeline, dot, node.line)
        if value:
            self.write(node.then, value if node.is_with else dot)
        else:
            self.write(node.otherwise, dot)
        del self._variables[known:]

    def _value(self, pipeline: Pipeline, dot: Dot, line: int) -> Dot:
        try:
            value = self._piped(pipeline, dot)
        except BadRequest as error:
            raise BadRequest(f"line {line}: {error}") from error
        if pipeline.keeps is not None:
            self._keep(pipeline.keeps, value, is_new=pipeline.declares)
        return value

    def _keep(self, name: str, value: Dot, *, is_new: bool) -> None:
        if is_new:
            self._variables.append((name, value))
            return
        at = max(at for at, (known, _) in enumerate(self._variables) if known == name)
        self._variables[at] = (name, value)

    def _piped(self, pipeline: Pipeline, dot: Dot) -> Dot:
        value: list[Any] = []
        for command in pipeline.commands:
            value = [self._command(command, dot, value)]
        return value[0]  # type: ignore[no-any-return]  # a pipeline has a command

    def _command(self, command: CommandNode, dot: Dot, piped: list[Any]) -> Dot:
        first, *rest = command.operands
        if isinstance(first, Function):
            arguments = [*(self._operand(each, dot) for each in rest), *piped]
            if any(isinstance(each, Mapping) for each in arguments):
                raise BadRequest(f"{first.name} cannot take . whole; name a variable, as in .host")
            return called(first.name, arguments)
        return self._operand(first, dot)

    def _operand(self, operand: Operand, dot: Dot) -> Dot:
        match operand:
            case Literal():
                return operand.value
            case Field():
                return _field(dot, operand.names)
            case Variable():
                value = next(value for name, value in reversed(self._variables) if name == operand.name)
                return _field(value, operand.fields)
            case Nested():
                return self._piped(operand.pipeline, dot)
            case Function():
                return called(operand.name, [])


def _field(dot: Dot, names: Sequence[str]) -> Dot:
    """What the fields lead to. Raises BadRequest with those that there are."""
    for name in names:
        if not isinstance(dot, Mapping):
            raise BadRequest(
                f".{name} is asked of {printed(dot)!r}, which has no fields; inside with, write $.{name}"
            )
        if name not in dot:
            known = ", ".join(f"{{{{.{each}}}}}" for each in dot)
            raise BadRequest(f"there is no variable {{{{.{name}}}}}; there are {known}")
        dot = dot[name]
    return dot
