"""
Writes objects with parts that are known only when a chart is rendered, as Helm templates.

Each such part is dumped to YAML as a unique marker, which is then replaced by template text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from deploy.generate.yaml_text import ExpandedDumper

_MARKER = "ZZ{}ZZ"


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A value that is template text, as written after ``key:``."""

    text: str


@dataclass(frozen=True, slots=True)
class TemplateBlock:
    """
    Items of a list, or members of a mapping, inside a block such as ``if .Values.x``.

    In a list it is an item; in a mapping it is a value under any key.
    """

    opening: str
    inside: Any
    otherwise: Any = None


@dataclass(slots=True)
class _Markers:
    """The texts and blocks by the numbers of their markers."""

    texts: list[str] = field(default_factory=list)
    blocks: list[Callable[[str], str]] = field(default_factory=list)

    def replace(self, value: Any) -> Any:
        """*value* with markers in place of template text."""
        match value:
            case TemplateText(text):
                self.texts.append(text)
                return _MARKER.format(f"text{len(self.texts) - 1}")
            case Mapping():
                members = [self._member(key, member) for key, member in value.items()]
                return dict(members)
            case list() | tuple():
                return [
                    self._block(item) if isinstance(item, TemplateBlock) else self.replace(item)
                    for item in value
                ]
            case _:
                assert "{{" not in str(value), f"{value!r} would be read as a template"
                return value

    def _member(self, key: Any, member: Any) -> tuple[Any, Any]:
        return (
            (self._block(member), None) if isinstance(member, TemplateBlock) else (key, self.replace(member))
        )

    def _block(self, block: TemplateBlock) -> str:
        self.blocks.append(lambda indent: _block_text(block, indent))
        return _MARKER.format(f"block{len(self.blocks) - 1}")


def template(objects: Sequence[Mapping[str, Any]], opening: str | None = None) -> str:
    """The documents, inside a block if there is an *opening*."""
    text = "---\n".join(_text(obj) for obj in objects)
    return f"{{{{- {opening} }}}}\n{text}{{{{- end }}}}\n" if opening else text


def _text(value: Any) -> str:
    markers = _Markers()
    text = yaml.dump(markers.replace(value), Dumper=ExpandedDumper, sort_keys=False, width=110)
    text = re.sub(
        r"(?m)^( *)(?:- )?ZZblock(\d+)ZZ(?:: null)?\n",
        lambda found: markers.blocks[int(found[2])](found[1]),
        text,
    )
    return re.sub(r"ZZtext(\d+)ZZ", lambda found: markers.texts[int(found[1])], text)


def _block_text(block: TemplateBlock, indent: str) -> str:
    lines = [f"{{{{- {block.opening} }}}}", *_lines(block.inside, indent)]
    if block.otherwise is not None:
        lines += ["{{- else }}", *_lines(block.otherwise, indent)]
    return "\n".join([*lines, "{{- end }}"]) + "\n"


def _lines(value: Any, indent: str) -> list[str]:
    return [indent + line for line in _text(value).splitlines()]
