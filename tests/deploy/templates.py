"""
Objects of which parts are only known when a chart is rendered, as the text of a Helm template.

Each such part is dumped as a mark of its own, and the mark is replaced by template text afterwards: what YAML makes
of the rest stays YAML's matter.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

_MARK = "ZZ{}ZZ"


@dataclass(frozen=True, slots=True)
class Said:
    """A value that the template says: its text, as it stands behind ``key:``."""

    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """
    Items of a list, or members of a mapping, that are there only inside of a block such as ``if .Values.x``.

    Among the items of a list it stands as an item, among the members of a mapping under any key.
    """

    opening: str
    inside: Any
    otherwise: Any = None


@dataclass(slots=True)
class _Marks:
    """What stands for what: a value's text, or how to write a block at some depth."""

    said: list[str] = field(default_factory=list)
    blocks: list[Callable[[str], str]] = field(default_factory=list)

    def taken(self, value: Any) -> Any:
        """*value* with marks in place of what the template says."""
        match value:
            case Said(text):
                self.said.append(text)
                return _MARK.format(f"said{len(self.said) - 1}")
            case Mapping():
                members = [self._member(key, member) for key, member in value.items()]
                return dict(members)
            case list() | tuple():
                return [self._block(item) if isinstance(item, Block) else self.taken(item) for item in value]
            case _:
                assert "{{" not in str(value), f"{value!r} would be read as a template"
                return value

    def _member(self, key: Any, member: Any) -> tuple[Any, Any]:
        return (self._block(member), None) if isinstance(member, Block) else (key, self.taken(member))

    def _block(self, block: Block) -> str:
        self.blocks.append(lambda indent: _block_text(block, indent))
        return _MARK.format(f"block{len(self.blocks) - 1}")


def template(objects: Sequence[Mapping[str, Any]], opening: str | None = None) -> str:
    """The documents, all of them inside of a block if there is an *opening*."""
    text = "---\n".join(_text(obj) for obj in objects)
    return f"{{{{- {opening} }}}}\n{text}{{{{- end }}}}\n" if opening else text


def _text(value: Any) -> str:
    marks = _Marks()
    text = yaml.dump(marks.taken(value), Dumper=_Indented, sort_keys=False, width=110)
    text = re.sub(
        r"(?m)^( *)(?:- )?ZZblock(\d+)ZZ(?:: null)?\n",
        lambda found: marks.blocks[int(found[2])](found[1]),
        text,
    )
    return re.sub(r"ZZsaid(\d+)ZZ", lambda found: marks.said[int(found[1])], text)


def _block_text(block: Block, indent: str) -> str:
    lines = [f"{{{{- {block.opening} }}}}", *_lines(block.inside, indent)]
    if block.otherwise is not None:
        lines += ["{{- else }}", *_lines(block.otherwise, indent)]
    return "\n".join([*lines, "{{- end }}"]) + "\n"


def _lines(value: Any, indent: str) -> list[str]:
    return [indent + line for line in _text(value).splitlines()]


class _Indented(yaml.SafeDumper):
    """Writes what occurs twice twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True
