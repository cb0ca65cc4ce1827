"""``docs/modules.md``: every module of the launcher with the first paragraph of its docstring."""

import ast
from pathlib import Path

from docs.generate.markdown import code, page, sentence, table

PROJECT = Path(__file__).parents[2]

_INTRODUCTION = """\
Every module of `launcher/`, by folder. [Architecture](architecture.md) explains the folders and how
data flows through the modules."""


def modules_page() -> str:
    """The index of modules."""
    parts: list[str] = []
    for folder in sorted({path.parent for path in (PROJECT / "launcher").rglob("*.py")}):
        rows = [
            (code(path.stem), _first_paragraph(path))
            for path in sorted(folder.glob("*.py"))
            if _has_code(path)
        ]
        if rows:
            parts += [f"## {folder.relative_to(PROJECT)}", table(("module", "content"), rows)]
    return page("Modules", "the docstrings of all modules", _INTRODUCTION, *parts)


def _has_code(path: Path) -> bool:
    return path.stem not in ("__init__", "__main__")


def _first_paragraph(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return sentence(docstring.partition("\n\n")[0].replace("``", "`"))
