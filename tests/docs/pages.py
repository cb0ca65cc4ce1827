"""The Markdown pages of the project: their text, links, anchors and code blocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
#: Directories with pages; build/ and .venv/ hold those of others.
PAGES = sorted(
    [
        *PROJECT.glob("*.md"),
        *(path for top in ("docs", "deploy", "examples") for path in (PROJECT / top).rglob("*.md")),
    ]
)

_BLOCK = re.compile(r"^(?:<!-- ([^\n]*?) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block, with the comment on the line before it."""

    comment: str
    language: str
    text: str


def name_of(page: Path) -> str:
    """The path of the page in the project."""
    return str(page.relative_to(PROJECT))


def blocks(page: Path, *languages: str) -> Iterator[CodeBlock]:
    """The fenced blocks of these languages, in order."""
    for comment, language, text in _BLOCK.findall(page.read_text()):
        if language in languages:
            yield CodeBlock(comment, language, text)


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _BLOCK.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """The targets of links that are not in code."""
    return _LINK.findall(_INLINE.sub("", re.sub(r"\[`([^`]*)`\]", r"[\1]", prose(page))))


def inline_code(page: Path) -> list[str]:
    """The code in the prose and tables of the page."""
    return [" ".join(text.split()).strip("`") for text in re.findall(r"`[^`]+`", prose(page))]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def yaml_text(path: Path) -> str:
    """A YAML file without its comments."""
    return "".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith("#"))
