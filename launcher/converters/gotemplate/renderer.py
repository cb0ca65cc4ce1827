"""Renders a template with values."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from launcher.converters.gotemplate.functions import call, print_value
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

#: Returns the text for a printed value, given the output so far.
FormatValue = Callable[[str, str], str]
#: The dot: all values, or a single value inside ``with``.
Dot = Mapping[str, str] | Value


def render(nodes: Sequence[Node], values: Mapping[str, str], format_value: FormatValue) -> str:
    """
    The output of the template for *values*.

    Raises BadRequest with the line of an unknown variable or an invalid call.
    """
    writer = _Writer(values, format_value)
    writer.write(nodes, values)
    return "".join(writer.output)


class _Writer:
    """The output so far, and the variables in scope."""

    def __init__(self, values: Mapping[str, str], format_value: FormatValue) -> None:
        self.output: list[str] = []
        self._format_value = format_value
        #: The innermost last; ``$`` is all values.
        self._variables: list[tuple[str, Dot]] = [("$", values)]

    def write(self, nodes: Sequence[Node], dot: Dot) -> None:
        """Renders *nodes*; variables that they declare go out of scope at the end."""
        scope = len(self._variables)
        for node in nodes:
            match node:
                case TextNode():
                    self.output.append(node.text)
                case Print():
                    self._print(node, dot)
                case Branch():
                    self._branch(node, dot)
        del self._variables[scope:]

    def _print(self, node: Print, dot: Dot) -> None:
        value = self._value(node.pipeline, dot, node.line)
        if node.pipeline.variable is not None:
            return
        if isinstance(value, Mapping):
            raise BadRequest(
                f"line {node.line}: . is not a single value; name a variable, as in {{{{.host}}}}"
            )
        self.output.append(self._format_value("".join(self.output), print_value(value)))

    def _branch(self, node: Branch, dot: Dot) -> None:
        scope = len(self._variables)
        value = self._value(node.pipeline, dot, node.line)
        if value:
            self.write(node.then, value if node.is_with else dot)
        else:
            self.write(node.otherwise, dot)
        del self._variables[scope:]

    def _value(self, pipeline: Pipeline, dot: Dot, line: int) -> Dot:
        try:
            value = self._pipeline_value(pipeline, dot)
        except BadRequest as error:
            raise BadRequest(f"line {line}: {error}") from error
        if pipeline.variable is not None:
            self._assign(pipeline.variable, value, is_new=pipeline.is_declaration)
        return value

    def _assign(self, name: str, value: Dot, *, is_new: bool) -> None:
        if is_new:
            self._variables.append((name, value))
            return
        index = max(index for index, (variable, _) in enumerate(self._variables) if variable == name)
        self._variables[index] = (name, value)

    def _pipeline_value(self, pipeline: Pipeline, dot: Dot) -> Dot:
        value: list[Any] = []
        for command in pipeline.commands:
            value = [self._command(command, dot, value)]
        return value[0]  # type: ignore[no-any-return]  # a pipeline has a command

    def _command(self, command: CommandNode, dot: Dot, piped: list[Any]) -> Dot:
        first, *operands = command.operands
        if isinstance(first, Function):
            arguments = [*(self._operand(operand, dot) for operand in operands), *piped]
            if any(isinstance(operand, Mapping) for operand in arguments):
                raise BadRequest(f"{first.name} cannot be applied to .; name a variable, as in .host")
            return call(first.name, arguments)
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
                return self._pipeline_value(operand.pipeline, dot)
            case Function():
                return call(operand.name, [])


def _field(dot: Dot, names: Sequence[str]) -> Dot:
    """The value of the fields. Raises BadRequest for an unknown field."""
    for name in names:
        if not isinstance(dot, Mapping):
            raise BadRequest(f".{name}: {print_value(dot)!r} has no fields; inside with, write $.{name}")
        if name not in dot:
            variables = ", ".join(f"{{{{.{variable}}}}}" for variable in dot)
            raise BadRequest(f"no variable {{{{.{name}}}}}; there are {variables}")
        dot = dot[name]
    return dot
