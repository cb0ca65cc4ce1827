"""
The user-visible texts of the launcher, collected from its source: ``python -m tests.texts`` writes tests/texts.md.

A text is a string of two words or more that is no docstring: log messages, errors, events, status messages and help.
In a shell program it is a message in double quotes: of ``fail``, ``log`` and their like.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("texts.md")

_HEAD = """# User-visible texts

Log messages, errors, events, status messages and help, module by module. Written by `make texts`;
`tests/test_texts.py` compares it with the code. `{name}` is a value that is filled in, `{…}` an expression.
"""
_LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
_HELP_CALLS = {
    "ArgumentParser",
    "Flag",
    "Parser",
    "add_argument",
    "add_argument_group",
    "add_command",
    "add_parser",
    "add_subparsers",
}
#: Their strings are statements for SQLite, or are matched against the texts of others.
_NO_TEXT_CALLS = {"compile", "execute", "executemany", "executescript", "fullmatch", "search", "startswith"}
#: What a shell program prints: the command, and its message in double quotes.
_SHELL_MESSAGE = re.compile(
    r'(?:(fail) "?\$?\w+"?|\blog|wait_for_retry|message=|echo(?=.*>&2))\s*"((?:[^"\\]|\\.)*)"'
)
_SHELL_VARIABLE = re.compile(r"\$\{(\w+)[^}]*\}|\$(\w+)")


@dataclass(frozen=True, slots=True)
class Text:
    """One text, and what it is used for."""

    kind: str
    text: str


def collect(module: Path) -> list[Text]:
    """The texts of a module or a shell program in the order of its source, each once."""
    if module.suffix == ".sh":
        return list(dict.fromkeys(_shell_texts(module.read_text())))
    found = sorted(_texts(ast.parse(module.read_text())), key=lambda each: each[0])
    return list(dict.fromkeys(text for _, text in found))


@cache
def table(package: Path = PROJECT / "launcher") -> str:
    """The texts of all modules, as Markdown."""
    parts = [_HEAD]
    for module in sorted([*package.rglob("*.py"), *package.rglob("*.sh")]):
        if texts := collect(module):
            rows = (f"| {each.kind} | {_cell(each.text)} |" for each in texts)
            heading = f"## {module.relative_to(package.parent)}"
            parts.append("\n".join([heading, "", "| kind | text |", "| --- | --- |", *rows, ""]))
    return "\n".join(parts)


def _texts(tree: ast.Module) -> Iterator[tuple[int, Text]]:
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(parents.get(node), ast.JoinedStr | ast.Expr):
            continue  # part of a larger text, or a docstring
        text = _text(node)
        if text is None or not _has_words(text):
            continue
        if (kind := _kind(node, parents)) is not None:
            yield getattr(node, "lineno", 0), Text(kind, text)


def _shell_texts(program: str) -> Iterator[Text]:
    for command, message in _SHELL_MESSAGE.findall(program):
        text = _SHELL_VARIABLE.sub(lambda match: f"{{{match[1] or match[2]}}}", message)
        if _has_words(text):
            yield Text("error" if command else "log", text)


def _has_words(text: str) -> bool:
    """Whether the text has two words or more, apart from what is filled in."""
    return len(re.findall(r"[^\W\d_]{2,}", re.sub(r"{.*?}", "", text))) >= 2 and " " in text.strip()


def _text(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(
                str(each.value) if isinstance(each, ast.Constant) else f"{{{_placeholder(each)}}}"
                for each in values
            )
        case _:
            return None


def _placeholder(part: ast.expr) -> str:
    match part.value if isinstance(part, ast.FormattedValue) else part:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_")
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case _:
            return "…"


def _kind(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str | None:
    """What the text is used for, by the nearest call or statement around it; None if it is no text for people."""
    above = parents.get(node)
    while above is not None and not isinstance(above, ast.stmt):
        if isinstance(above, ast.Call):
            name = _called(above)
            if name in _NO_TEXT_CALLS:
                return None
            if name in _HELP_CALLS:
                return "help"
            if name in _LOG_METHODS:
                return "log"
            if name == "ObjectEvent":
                return "event"
        above = parents.get(above)
    return "error" if isinstance(above, ast.Raise) else "text"


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "\\n").strip()


if __name__ == "__main__":
    TABLE.write_text(table())
